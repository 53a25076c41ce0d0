// The ops: each a struct of its arguments, which are the fields of quern_OP_args in quern.h, documented
// there. Made of quern.h by ./dev generate.
// SPDX-License-Identifier: Apache-2.0
using System;
using System.Runtime.InteropServices;

namespace Quern {
  /// <summary>quern_epilogue.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct Epilogue {
    public uint Size;
    public uint Flags;
    public int Activation;
    public uint OperandCount;
    public uint ScalarCount;
    public uint Reserved;
    public IntPtr Bias;
    public IntPtr C;
    public IntPtr Expression;
    public IntPtr Operands;
    public IntPtr Scalars;
    public IntPtr OutScale;
  }

  /// <summary>quern_rope_options.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct RopeOptions {
    public uint Size;
    public uint Flags;
    public int Scaling;
    public int RotaryDim;
    public double Theta;
    public double Factor;
    public double AttentionFactor;
    public double LowFreqFactor;
    public double HighFreqFactor;
    public double BetaFast;
    public double BetaSlow;
    public int OriginalPositions;
    public int Reserved;
    public IntPtr Table;
  }

  /// <summary>quern_attention_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct AttentionArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr Q;
    public IntPtr K;
    public IntPtr V;
    public IntPtr Out;
    public IntPtr Lse;
    public IntPtr Lengths;
    public IntPtr CuQ;
    public IntPtr PageTable;
    public IntPtr PageIndptr;
    public IntPtr PageIndices;
    public IntPtr CuKv;
    public IntPtr AlibiSlopes;
    public IntPtr Sinks;
    public int MaxQLen;
    public int MaxKvLen;
    public int WindowLeft;
    public int WindowRight;
    public float Scale;
    public float LogitCap;
    public IntPtr QScale;
    public IntPtr KScale;
    public IntPtr VScale;
    public IntPtr Mask;
    public IntPtr MaskIndptr;
    public IntPtr MaskKeys;
    public int QType;
    public int KvType;
    public IntPtr OutScale;
    public int OutType;
    public uint Reserved;
  }

  /// <summary>quern_merge_state_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct MergeStateArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr OutA;
    public IntPtr LseA;
    public IntPtr OutB;
    public IntPtr LseB;
    public IntPtr Out;
    public IntPtr Lse;
  }

  /// <summary>quern_fp8_gemm_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct Fp8GemmArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr A;
    public IntPtr B;
    public IntPtr ScaleA;
    public IntPtr ScaleB;
    public IntPtr Out;
    public IntPtr Epilogue;
    public int AType;
    public int BType;
  }

  /// <summary>quern_grouped_fp8_gemm_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct GroupedFp8GemmArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr A;
    public IntPtr B;
    public IntPtr ScaleA;
    public IntPtr ScaleB;
    public IntPtr Out;
    public IntPtr Offsets;
    public IntPtr Counts;
    public IntPtr Indices;
    public IntPtr Status;
    public IntPtr Epilogue;
    public int AType;
    public int BType;
    public int ExpectedRows;
    public int Reserved;
  }

  /// <summary>quern_gemm_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct GemmArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr A;
    public IntPtr B;
    public IntPtr Out;
    public IntPtr Epilogue;
  }

  /// <summary>quern_quantize_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct QuantizeArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr X;
    public IntPtr Out;
    public IntPtr Scale;
    public IntPtr Residual;
    public IntPtr ResidualOut;
    public IntPtr Weight;
    public IntPtr Bias;
    public IntPtr Dense;
    public int Front;
    public int ScaleKind;
    public int Type;
    public float Eps;
  }

  /// <summary>quern_dequantize_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct DequantizeArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr X;
    public IntPtr Scale;
    public IntPtr Out;
    public int ScaleKind;
    public int Type;
  }

  /// <summary>quern_moe_route_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct MoeRouteArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr Logits;
    public IntPtr Bias;
    public IntPtr Weights;
    public IntPtr Ids;
    public IntPtr Offsets;
    public IntPtr Indices;
    public IntPtr Positions;
    public IntPtr Counts;
    public int TopK;
    public int Groups;
    public int TopGroups;
    public int FirstExpert;
    public int LocalExperts;
    public float Scale;
  }

  /// <summary>quern_moe_combine_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct MoeCombineArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr X;
    public IntPtr Positions;
    public IntPtr Weights;
    public IntPtr Add;
    public IntPtr Out;
  }

  /// <summary>quern_merge_states_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct MergeStatesArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr Parts;
    public IntPtr PartLses;
    public IntPtr Out;
    public IntPtr Lse;
  }

  /// <summary>quern_rope_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct RopeArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr Q;
    public IntPtr K;
    public IntPtr QOut;
    public IntPtr KOut;
    public IntPtr Positions;
    public IntPtr Rope;
  }

  /// <summary>quern_kv_append_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct KvAppendArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr K;
    public IntPtr V;
    public IntPtr KCache;
    public IntPtr VCache;
    public IntPtr KScale;
    public IntPtr VScale;
    public IntPtr Slots;
    public IntPtr PageTable;
    public IntPtr PageIndptr;
    public IntPtr PageIndices;
    public IntPtr CuQ;
    public IntPtr Lengths;
    public IntPtr Positions;
    public IntPtr Q;
    public IntPtr QOut;
    public IntPtr QScale;
    public IntPtr QWeight;
    public IntPtr KWeight;
    public IntPtr Rope;
    public float Eps;
    public int QType;
    public int KvType;
    public int Reserved;
  }

  /// <summary>quern_kv_copy_pages_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct KvCopyPagesArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr K;
    public IntPtr V;
    public IntPtr KTo;
    public IntPtr VTo;
    public IntPtr KScale;
    public IntPtr VScale;
    public IntPtr KScaleTo;
    public IntPtr VScaleTo;
    public IntPtr Sources;
    public IntPtr Destinations;
  }

  /// <summary>quern_mla_decode_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct MlaDecodeArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr Q;
    public IntPtr QRope;
    public IntPtr Cache;
    public IntPtr CacheRope;
    public IntPtr CacheScale;
    public IntPtr Out;
    public IntPtr Lse;
    public IntPtr Lengths;
    public IntPtr CuQ;
    public IntPtr PageTable;
    public IntPtr PageIndptr;
    public IntPtr PageIndices;
    public IntPtr Indices;
    public IntPtr Sinks;
    public IntPtr Status;
    public int MaxQLen;
    public int MaxKvLen;
    public int WindowLeft;
    public int WindowRight;
    public int CacheType;
    public float Scale;
    public float LogitCap;
  }

  /// <summary>quern_rmsnorm_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct RmsnormArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr X;
    public IntPtr Residual;
    public IntPtr Weight;
    public IntPtr Out;
    public IntPtr ResidualOut;
    public float Eps;
    public int Reserved;
  }

  /// <summary>quern_sample_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct SampleArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr Logits;
    public IntPtr Rows;
    public IntPtr Ids;
    public IntPtr Logprobs;
    public IntPtr TopIds;
    public IntPtr TopLogprobs;
    public IntPtr Status;
    public IntPtr Seeds;
    public IntPtr Offsets;
    public IntPtr Temperatures;
    public IntPtr TopKs;
    public IntPtr TopPs;
    public IntPtr MinPs;
    public IntPtr TypicalPs;
    public IntPtr NSigmas;
    public IntPtr XtcProbabilities;
    public IntPtr XtcThresholds;
    public IntPtr DynamicRanges;
    public IntPtr DynamicExponents;
    public IntPtr Repetitions;
    public IntPtr Presences;
    public IntPtr Frequencies;
    public IntPtr PromptMask;
    public IntPtr PromptTokens;
    public IntPtr PromptLengths;
    public IntPtr OutputCounts;
    public IntPtr OutputTokens;
    public IntPtr OutputLengths;
    public IntPtr BiasOffsets;
    public IntPtr BiasIds;
    public IntPtr BiasValues;
    public IntPtr Allowed;
    public IntPtr Banned;
    public ulong Seed;
    public ulong Offset;
    public float Temperature;
    public int TopK;
    public float TopP;
    public float MinP;
    public float TypicalP;
    public float NSigma;
    public float XtcProbability;
    public float XtcThreshold;
    public float DynamicRange;
    public float DynamicExponent;
    public float Repetition;
    public float Presence;
    public float Frequency;
    public int MaxBias;
  }

  /// <summary>quern_gather_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct GatherArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr Table;
    public IntPtr Ids;
    public IntPtr Out;
    public long First;
    public long Padding;
    public float Scale;
    public int Reserved;
  }

  /// <summary>quern_mla_append_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct MlaAppendArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr Kv;
    public IntPtr KRope;
    public IntPtr Weight;
    public IntPtr Cache;
    public IntPtr CacheRope;
    public IntPtr CacheScale;
    public IntPtr Slots;
    public IntPtr PageTable;
    public IntPtr PageIndptr;
    public IntPtr PageIndices;
    public IntPtr CuQ;
    public IntPtr Lengths;
    public IntPtr Positions;
    public IntPtr QRope;
    public IntPtr QRopeOut;
    public IntPtr KvOut;
    public IntPtr KRopeOut;
    public IntPtr Status;
    public IntPtr Rope;
    public float Eps;
    public int DRope;
    public int CacheType;
    public int Reserved;
  }

  /// <summary>quern_index_scores_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct IndexScoresArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr Q;
    public IntPtr QScale;
    public IntPtr Weights;
    public IntPtr K;
    public IntPtr KScale;
    public IntPtr Out;
    public IntPtr Lengths;
    public IntPtr CuQ;
    public IntPtr PageTable;
    public IntPtr PageIndptr;
    public IntPtr PageIndices;
    public IntPtr CuKv;
    public IntPtr Status;
    public int MaxQLen;
    public int QType;
  }

  /// <summary>quern_softmax_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct SoftmaxArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr Logits;
    public IntPtr Temperatures;
    public IntPtr Out;
    public IntPtr Status;
    public float Temperature;
    public int Reserved;
  }

  /// <summary>quern_argmax_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct ArgmaxArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr Logits;
    public IntPtr Ids;
    public IntPtr Values;
  }

  /// <summary>quern_top_k_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct TopKArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr X;
    public IntPtr Lengths;
    public IntPtr Ids;
    public IntPtr Values;
  }

  /// <summary>quern_renormalise_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct RenormaliseArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr Probs;
    public IntPtr Out;
    public IntPtr Status;
    public IntPtr TopKs;
    public IntPtr TopPs;
    public IntPtr MinPs;
    public int TopK;
    public float TopP;
    public float MinP;
    public int Reserved;
  }

  /// <summary>quern_verify_draft_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct VerifyDraftArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr Target;
    public IntPtr Draft;
    public IntPtr DraftIds;
    public IntPtr Parents;
    public IntPtr Lengths;
    public IntPtr Accepted;
    public IntPtr Ids;
    public IntPtr Path;
    public IntPtr Status;
    public IntPtr Seeds;
    public IntPtr Offsets;
    public IntPtr Temperatures;
    public IntPtr TopKs;
    public IntPtr TopPs;
    public IntPtr MinPs;
    public ulong Seed;
    public ulong Offset;
    public float Temperature;
    public int TopK;
    public float TopP;
    public float MinP;
    public IntPtr Logprobs;
    public IntPtr Repetitions;
    public IntPtr Presences;
    public IntPtr Frequencies;
    public IntPtr PromptMask;
    public IntPtr PromptTokens;
    public IntPtr PromptLengths;
    public IntPtr OutputCounts;
    public IntPtr OutputTokens;
    public IntPtr OutputLengths;
    public IntPtr BiasOffsets;
    public IntPtr BiasIds;
    public IntPtr BiasValues;
    public IntPtr Allowed;
    public IntPtr Banned;
    public float Repetition;
    public float Presence;
    public float Frequency;
    public int MaxBias;
  }

  /// <summary>quern_pointwise_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct PointwiseArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr Operands;
    public IntPtr Out;
    public IntPtr Out1;
    public IntPtr Out2;
    public IntPtr Out3;
    public IntPtr Expression;
    public IntPtr Expression1;
    public IntPtr Expression2;
    public IntPtr Expression3;
    public IntPtr Scalars;
    public uint OperandCount;
    public uint ScalarCount;
  }

  /// <summary>quern_copy_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct CopyArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr Inputs;
    public IntPtr Outputs;
    public uint InputCount;
    public uint OutputCount;
    public double Fill;
  }

  /// <summary>quern_norm_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct NormArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr X;
    public IntPtr Residual;
    public IntPtr Weight;
    public IntPtr Bias;
    public IntPtr Scale;
    public IntPtr Shift;
    public IntPtr Out;
    public IntPtr ResidualOut;
    public IntPtr OutScale;
    public IntPtr Dense;
    public int Kind;
    public int Groups;
    public int ScaleKind;
    public int Type;
    public float Eps;
    public int Reserved;
  }

  /// <summary>quern_norm_backward_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct NormBackwardArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr Dout;
    public IntPtr X;
    public IntPtr Weight;
    public IntPtr Add;
    public IntPtr Dx;
    public IntPtr Dweight;
    public IntPtr Dbias;
    public int Kind;
    public float Eps;
  }

  /// <summary>quern_reduce_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct ReduceArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr X;
    public IntPtr Y;
    public IntPtr Before;
    public IntPtr Out;
    public IntPtr Out1;
    public IntPtr Out2;
    public IntPtr Out3;
    public IntPtr After;
    public IntPtr After1;
    public IntPtr After2;
    public IntPtr After3;
    public IntPtr Scalars;
    public uint ScalarCount;
    public uint Axes;
    public int Reduction;
    public int Reduction1;
    public int Reduction2;
    public int Reduction3;
    public int Type;
    public int Reserved;
  }

  /// <summary>quern_scatter_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct ScatterArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr X;
    public IntPtr Ids;
    public IntPtr Out;
    public long First;
    public long Padding;
    public float Scale;
    public int Reserved;
  }

  /// <summary>quern_histogram_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct HistogramArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr X;
    public IntPtr Counts;
    public long First;
    public float Low;
    public float High;
  }

  /// <summary>quern_sort_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct SortArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr Keys;
    public IntPtr Values;
    public IntPtr Offsets;
    public IntPtr KeysOut;
    public IntPtr ValuesOut;
    public long MaxSegment;
  }

  /// <summary>quern_conv1d_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct Conv1dArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr X;
    public IntPtr Weight;
    public IntPtr Bias;
    public IntPtr Offsets;
    public IntPtr State;
    public IntPtr StateIds;
    public IntPtr HasState;
    public IntPtr Out;
    public int Stride;
    public int Dilation;
    public int Groups;
    public int PadBegin;
    public int PadEnd;
    public int Reserved;
  }

  /// <summary>quern_nms_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct NmsArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr Boxes;
    public IntPtr Scores;
    public IntPtr Classes;
    public IntPtr Lengths;
    public IntPtr Ids;
    public IntPtr Counts;
    public float IouThreshold;
    public float ScoreThreshold;
  }

  /// <summary>quern_conv2d_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct Conv2dArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr X;
    public IntPtr Weight;
    public IntPtr Bias;
    public IntPtr Out;
    public int StrideH;
    public int StrideW;
    public int DilationH;
    public int DilationW;
    public int Groups;
    public int PadTop;
    public int PadBottom;
    public int PadLeft;
    public int PadRight;
    public int Activation;
  }

  /// <summary>quern_quantized_gemm_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct QuantizedGemmArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr A;
    public IntPtr B;
    public IntPtr ScaleA;
    public IntPtr ScaleB;
    public IntPtr ZeroB;
    public IntPtr TensorScaleA;
    public IntPtr TensorScaleB;
    public IntPtr Out;
    public IntPtr Epilogue;
    public int AFormat;
    public int BFormat;
    public int ScaleAType;
    public int ScaleBType;
  }

  /// <summary>quern_fft_args.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct FftArgs {
    public uint Size;
    public uint Flags;
    public IntPtr Stream;
    public IntPtr Workspace;
    public ulong WorkspaceSize;
    public int Alignment;
    public int MaxSms;
    public IntPtr X;
    public IntPtr Window;
    public IntPtr Out;
    public int N;
    public int Kind;
    public int Result;
    public int Scaling;
    public int Hop;
    public int PadBegin;
    public int PadEnd;
    public int Padding;
  }

  internal static partial class Native {
    [DllImport(Library)]
    internal static extern int quern_attention(IntPtr context, ref AttentionArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_attention_prepare(
        IntPtr context, ref AttentionArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_attention_workspace(
        IntPtr context, ref AttentionArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_merge_state(IntPtr context, ref MergeStateArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_merge_state_prepare(
        IntPtr context, ref MergeStateArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_merge_state_workspace(
        IntPtr context, ref MergeStateArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_fp8_gemm(IntPtr context, ref Fp8GemmArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_fp8_gemm_prepare(
        IntPtr context, ref Fp8GemmArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_fp8_gemm_workspace(
        IntPtr context, ref Fp8GemmArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_grouped_fp8_gemm(IntPtr context, ref GroupedFp8GemmArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_grouped_fp8_gemm_prepare(
        IntPtr context, ref GroupedFp8GemmArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_grouped_fp8_gemm_workspace(
        IntPtr context, ref GroupedFp8GemmArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_gemm(IntPtr context, ref GemmArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_gemm_prepare(
        IntPtr context, ref GemmArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_gemm_workspace(
        IntPtr context, ref GemmArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_quantize(IntPtr context, ref QuantizeArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_quantize_prepare(
        IntPtr context, ref QuantizeArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_quantize_workspace(
        IntPtr context, ref QuantizeArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_dequantize(IntPtr context, ref DequantizeArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_dequantize_prepare(
        IntPtr context, ref DequantizeArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_dequantize_workspace(
        IntPtr context, ref DequantizeArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_moe_route(IntPtr context, ref MoeRouteArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_moe_route_prepare(
        IntPtr context, ref MoeRouteArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_moe_route_workspace(
        IntPtr context, ref MoeRouteArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_moe_combine(IntPtr context, ref MoeCombineArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_moe_combine_prepare(
        IntPtr context, ref MoeCombineArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_moe_combine_workspace(
        IntPtr context, ref MoeCombineArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_merge_states(IntPtr context, ref MergeStatesArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_merge_states_prepare(
        IntPtr context, ref MergeStatesArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_merge_states_workspace(
        IntPtr context, ref MergeStatesArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_rope(IntPtr context, ref RopeArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_rope_prepare(
        IntPtr context, ref RopeArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_rope_workspace(
        IntPtr context, ref RopeArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_kv_append(IntPtr context, ref KvAppendArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_kv_append_prepare(
        IntPtr context, ref KvAppendArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_kv_append_workspace(
        IntPtr context, ref KvAppendArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_kv_copy_pages(IntPtr context, ref KvCopyPagesArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_kv_copy_pages_prepare(
        IntPtr context, ref KvCopyPagesArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_kv_copy_pages_workspace(
        IntPtr context, ref KvCopyPagesArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_mla_decode(IntPtr context, ref MlaDecodeArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_mla_decode_prepare(
        IntPtr context, ref MlaDecodeArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_mla_decode_workspace(
        IntPtr context, ref MlaDecodeArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_rmsnorm(IntPtr context, ref RmsnormArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_rmsnorm_prepare(
        IntPtr context, ref RmsnormArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_rmsnorm_workspace(
        IntPtr context, ref RmsnormArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_sample(IntPtr context, ref SampleArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_sample_prepare(
        IntPtr context, ref SampleArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_sample_workspace(
        IntPtr context, ref SampleArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_gather(IntPtr context, ref GatherArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_gather_prepare(
        IntPtr context, ref GatherArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_gather_workspace(
        IntPtr context, ref GatherArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_mla_append(IntPtr context, ref MlaAppendArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_mla_append_prepare(
        IntPtr context, ref MlaAppendArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_mla_append_workspace(
        IntPtr context, ref MlaAppendArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_index_scores(IntPtr context, ref IndexScoresArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_index_scores_prepare(
        IntPtr context, ref IndexScoresArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_index_scores_workspace(
        IntPtr context, ref IndexScoresArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_softmax(IntPtr context, ref SoftmaxArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_softmax_prepare(
        IntPtr context, ref SoftmaxArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_softmax_workspace(
        IntPtr context, ref SoftmaxArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_argmax(IntPtr context, ref ArgmaxArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_argmax_prepare(
        IntPtr context, ref ArgmaxArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_argmax_workspace(
        IntPtr context, ref ArgmaxArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_top_k(IntPtr context, ref TopKArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_top_k_prepare(
        IntPtr context, ref TopKArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_top_k_workspace(
        IntPtr context, ref TopKArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_renormalise(IntPtr context, ref RenormaliseArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_renormalise_prepare(
        IntPtr context, ref RenormaliseArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_renormalise_workspace(
        IntPtr context, ref RenormaliseArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_verify_draft(IntPtr context, ref VerifyDraftArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_verify_draft_prepare(
        IntPtr context, ref VerifyDraftArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_verify_draft_workspace(
        IntPtr context, ref VerifyDraftArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_pointwise(IntPtr context, ref PointwiseArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_pointwise_prepare(
        IntPtr context, ref PointwiseArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_pointwise_workspace(
        IntPtr context, ref PointwiseArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_copy(IntPtr context, ref CopyArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_copy_prepare(
        IntPtr context, ref CopyArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_copy_workspace(
        IntPtr context, ref CopyArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_norm(IntPtr context, ref NormArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_norm_prepare(
        IntPtr context, ref NormArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_norm_workspace(
        IntPtr context, ref NormArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_norm_backward(IntPtr context, ref NormBackwardArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_norm_backward_prepare(
        IntPtr context, ref NormBackwardArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_norm_backward_workspace(
        IntPtr context, ref NormBackwardArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_reduce(IntPtr context, ref ReduceArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_reduce_prepare(
        IntPtr context, ref ReduceArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_reduce_workspace(
        IntPtr context, ref ReduceArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_scatter(IntPtr context, ref ScatterArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_scatter_prepare(
        IntPtr context, ref ScatterArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_scatter_workspace(
        IntPtr context, ref ScatterArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_histogram(IntPtr context, ref HistogramArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_histogram_prepare(
        IntPtr context, ref HistogramArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_histogram_workspace(
        IntPtr context, ref HistogramArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_sort(IntPtr context, ref SortArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_sort_prepare(
        IntPtr context, ref SortArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_sort_workspace(
        IntPtr context, ref SortArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_conv1d(IntPtr context, ref Conv1dArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_conv1d_prepare(
        IntPtr context, ref Conv1dArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_conv1d_workspace(
        IntPtr context, ref Conv1dArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_nms(IntPtr context, ref NmsArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_nms_prepare(
        IntPtr context, ref NmsArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_nms_workspace(
        IntPtr context, ref NmsArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_conv2d(IntPtr context, ref Conv2dArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_conv2d_prepare(
        IntPtr context, ref Conv2dArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_conv2d_workspace(
        IntPtr context, ref Conv2dArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_quantized_gemm(IntPtr context, ref QuantizedGemmArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_quantized_gemm_prepare(
        IntPtr context, ref QuantizedGemmArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_quantized_gemm_workspace(
        IntPtr context, ref QuantizedGemmArgs args, out ulong bytes, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_fft(IntPtr context, ref FftArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_fft_prepare(
        IntPtr context, ref FftArgs args, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_fft_workspace(
        IntPtr context, ref FftArgs args, out ulong bytes, ref Error error);
  }

  public sealed partial class Context {
    public void Attention(AttentionArgs args) {
      args.Size = 240;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_attention_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_attention(Handle, ref args, ref error), error);
    }
    public void AttentionPrepare(AttentionArgs args) {
      args.Size = 240;
      var error = Error.Blank();
      Check(Native.quern_attention_prepare(Handle, ref args, ref error), error);
    }
    public ulong AttentionWorkspace(AttentionArgs args) {
      args.Size = 240;
      var error = Error.Blank();
      Check(Native.quern_attention_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void MergeState(MergeStateArgs args) {
      args.Size = 88;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_merge_state_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_merge_state(Handle, ref args, ref error), error);
    }
    public void MergeStatePrepare(MergeStateArgs args) {
      args.Size = 88;
      var error = Error.Blank();
      Check(Native.quern_merge_state_prepare(Handle, ref args, ref error), error);
    }
    public ulong MergeStateWorkspace(MergeStateArgs args) {
      args.Size = 88;
      var error = Error.Blank();
      Check(Native.quern_merge_state_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Fp8Gemm(Fp8GemmArgs args) {
      args.Size = 96;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_fp8_gemm_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_fp8_gemm(Handle, ref args, ref error), error);
    }
    public void Fp8GemmPrepare(Fp8GemmArgs args) {
      args.Size = 96;
      var error = Error.Blank();
      Check(Native.quern_fp8_gemm_prepare(Handle, ref args, ref error), error);
    }
    public ulong Fp8GemmWorkspace(Fp8GemmArgs args) {
      args.Size = 96;
      var error = Error.Blank();
      Check(Native.quern_fp8_gemm_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void GroupedFp8Gemm(GroupedFp8GemmArgs args) {
      args.Size = 136;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_grouped_fp8_gemm_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_grouped_fp8_gemm(Handle, ref args, ref error), error);
    }
    public void GroupedFp8GemmPrepare(GroupedFp8GemmArgs args) {
      args.Size = 136;
      var error = Error.Blank();
      Check(Native.quern_grouped_fp8_gemm_prepare(Handle, ref args, ref error), error);
    }
    public ulong GroupedFp8GemmWorkspace(GroupedFp8GemmArgs args) {
      args.Size = 136;
      var error = Error.Blank();
      Check(Native.quern_grouped_fp8_gemm_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Gemm(GemmArgs args) {
      args.Size = 72;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_gemm_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_gemm(Handle, ref args, ref error), error);
    }
    public void GemmPrepare(GemmArgs args) {
      args.Size = 72;
      var error = Error.Blank();
      Check(Native.quern_gemm_prepare(Handle, ref args, ref error), error);
    }
    public ulong GemmWorkspace(GemmArgs args) {
      args.Size = 72;
      var error = Error.Blank();
      Check(Native.quern_gemm_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Quantize(QuantizeArgs args) {
      args.Size = 120;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_quantize_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_quantize(Handle, ref args, ref error), error);
    }
    public void QuantizePrepare(QuantizeArgs args) {
      args.Size = 120;
      var error = Error.Blank();
      Check(Native.quern_quantize_prepare(Handle, ref args, ref error), error);
    }
    public ulong QuantizeWorkspace(QuantizeArgs args) {
      args.Size = 120;
      var error = Error.Blank();
      Check(Native.quern_quantize_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Dequantize(DequantizeArgs args) {
      args.Size = 72;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_dequantize_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_dequantize(Handle, ref args, ref error), error);
    }
    public void DequantizePrepare(DequantizeArgs args) {
      args.Size = 72;
      var error = Error.Blank();
      Check(Native.quern_dequantize_prepare(Handle, ref args, ref error), error);
    }
    public ulong DequantizeWorkspace(DequantizeArgs args) {
      args.Size = 72;
      var error = Error.Blank();
      Check(Native.quern_dequantize_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void MoeRoute(MoeRouteArgs args) {
      args.Size = 128;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_moe_route_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_moe_route(Handle, ref args, ref error), error);
    }
    public void MoeRoutePrepare(MoeRouteArgs args) {
      args.Size = 128;
      var error = Error.Blank();
      Check(Native.quern_moe_route_prepare(Handle, ref args, ref error), error);
    }
    public ulong MoeRouteWorkspace(MoeRouteArgs args) {
      args.Size = 128;
      var error = Error.Blank();
      Check(Native.quern_moe_route_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void MoeCombine(MoeCombineArgs args) {
      args.Size = 80;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_moe_combine_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_moe_combine(Handle, ref args, ref error), error);
    }
    public void MoeCombinePrepare(MoeCombineArgs args) {
      args.Size = 80;
      var error = Error.Blank();
      Check(Native.quern_moe_combine_prepare(Handle, ref args, ref error), error);
    }
    public ulong MoeCombineWorkspace(MoeCombineArgs args) {
      args.Size = 80;
      var error = Error.Blank();
      Check(Native.quern_moe_combine_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void MergeStates(MergeStatesArgs args) {
      args.Size = 72;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_merge_states_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_merge_states(Handle, ref args, ref error), error);
    }
    public void MergeStatesPrepare(MergeStatesArgs args) {
      args.Size = 72;
      var error = Error.Blank();
      Check(Native.quern_merge_states_prepare(Handle, ref args, ref error), error);
    }
    public ulong MergeStatesWorkspace(MergeStatesArgs args) {
      args.Size = 72;
      var error = Error.Blank();
      Check(Native.quern_merge_states_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Rope(RopeArgs args) {
      args.Size = 88;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_rope_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_rope(Handle, ref args, ref error), error);
    }
    public void RopePrepare(RopeArgs args) {
      args.Size = 88;
      var error = Error.Blank();
      Check(Native.quern_rope_prepare(Handle, ref args, ref error), error);
    }
    public ulong RopeWorkspace(RopeArgs args) {
      args.Size = 88;
      var error = Error.Blank();
      Check(Native.quern_rope_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void KvAppend(KvAppendArgs args) {
      args.Size = 208;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_kv_append_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_kv_append(Handle, ref args, ref error), error);
    }
    public void KvAppendPrepare(KvAppendArgs args) {
      args.Size = 208;
      var error = Error.Blank();
      Check(Native.quern_kv_append_prepare(Handle, ref args, ref error), error);
    }
    public ulong KvAppendWorkspace(KvAppendArgs args) {
      args.Size = 208;
      var error = Error.Blank();
      Check(Native.quern_kv_append_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void KvCopyPages(KvCopyPagesArgs args) {
      args.Size = 120;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_kv_copy_pages_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_kv_copy_pages(Handle, ref args, ref error), error);
    }
    public void KvCopyPagesPrepare(KvCopyPagesArgs args) {
      args.Size = 120;
      var error = Error.Blank();
      Check(Native.quern_kv_copy_pages_prepare(Handle, ref args, ref error), error);
    }
    public ulong KvCopyPagesWorkspace(KvCopyPagesArgs args) {
      args.Size = 120;
      var error = Error.Blank();
      Check(Native.quern_kv_copy_pages_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void MlaDecode(MlaDecodeArgs args) {
      args.Size = 192;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_mla_decode_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_mla_decode(Handle, ref args, ref error), error);
    }
    public void MlaDecodePrepare(MlaDecodeArgs args) {
      args.Size = 192;
      var error = Error.Blank();
      Check(Native.quern_mla_decode_prepare(Handle, ref args, ref error), error);
    }
    public ulong MlaDecodeWorkspace(MlaDecodeArgs args) {
      args.Size = 192;
      var error = Error.Blank();
      Check(Native.quern_mla_decode_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Rmsnorm(RmsnormArgs args) {
      args.Size = 88;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_rmsnorm_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_rmsnorm(Handle, ref args, ref error), error);
    }
    public void RmsnormPrepare(RmsnormArgs args) {
      args.Size = 88;
      var error = Error.Blank();
      Check(Native.quern_rmsnorm_prepare(Handle, ref args, ref error), error);
    }
    public ulong RmsnormWorkspace(RmsnormArgs args) {
      args.Size = 88;
      var error = Error.Blank();
      Check(Native.quern_rmsnorm_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Sample(SampleArgs args) {
      args.Size = 376;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_sample_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_sample(Handle, ref args, ref error), error);
    }
    public void SamplePrepare(SampleArgs args) {
      args.Size = 376;
      var error = Error.Blank();
      Check(Native.quern_sample_prepare(Handle, ref args, ref error), error);
    }
    public ulong SampleWorkspace(SampleArgs args) {
      args.Size = 376;
      var error = Error.Blank();
      Check(Native.quern_sample_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Gather(GatherArgs args) {
      args.Size = 88;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_gather_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_gather(Handle, ref args, ref error), error);
    }
    public void GatherPrepare(GatherArgs args) {
      args.Size = 88;
      var error = Error.Blank();
      Check(Native.quern_gather_prepare(Handle, ref args, ref error), error);
    }
    public ulong GatherWorkspace(GatherArgs args) {
      args.Size = 88;
      var error = Error.Blank();
      Check(Native.quern_gather_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void MlaAppend(MlaAppendArgs args) {
      args.Size = 208;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_mla_append_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_mla_append(Handle, ref args, ref error), error);
    }
    public void MlaAppendPrepare(MlaAppendArgs args) {
      args.Size = 208;
      var error = Error.Blank();
      Check(Native.quern_mla_append_prepare(Handle, ref args, ref error), error);
    }
    public ulong MlaAppendWorkspace(MlaAppendArgs args) {
      args.Size = 208;
      var error = Error.Blank();
      Check(Native.quern_mla_append_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void IndexScores(IndexScoresArgs args) {
      args.Size = 152;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_index_scores_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_index_scores(Handle, ref args, ref error), error);
    }
    public void IndexScoresPrepare(IndexScoresArgs args) {
      args.Size = 152;
      var error = Error.Blank();
      Check(Native.quern_index_scores_prepare(Handle, ref args, ref error), error);
    }
    public ulong IndexScoresWorkspace(IndexScoresArgs args) {
      args.Size = 152;
      var error = Error.Blank();
      Check(Native.quern_index_scores_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Softmax(SoftmaxArgs args) {
      args.Size = 80;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_softmax_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_softmax(Handle, ref args, ref error), error);
    }
    public void SoftmaxPrepare(SoftmaxArgs args) {
      args.Size = 80;
      var error = Error.Blank();
      Check(Native.quern_softmax_prepare(Handle, ref args, ref error), error);
    }
    public ulong SoftmaxWorkspace(SoftmaxArgs args) {
      args.Size = 80;
      var error = Error.Blank();
      Check(Native.quern_softmax_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Argmax(ArgmaxArgs args) {
      args.Size = 64;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_argmax_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_argmax(Handle, ref args, ref error), error);
    }
    public void ArgmaxPrepare(ArgmaxArgs args) {
      args.Size = 64;
      var error = Error.Blank();
      Check(Native.quern_argmax_prepare(Handle, ref args, ref error), error);
    }
    public ulong ArgmaxWorkspace(ArgmaxArgs args) {
      args.Size = 64;
      var error = Error.Blank();
      Check(Native.quern_argmax_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void TopK(TopKArgs args) {
      args.Size = 72;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_top_k_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_top_k(Handle, ref args, ref error), error);
    }
    public void TopKPrepare(TopKArgs args) {
      args.Size = 72;
      var error = Error.Blank();
      Check(Native.quern_top_k_prepare(Handle, ref args, ref error), error);
    }
    public ulong TopKWorkspace(TopKArgs args) {
      args.Size = 72;
      var error = Error.Blank();
      Check(Native.quern_top_k_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Renormalise(RenormaliseArgs args) {
      args.Size = 104;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_renormalise_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_renormalise(Handle, ref args, ref error), error);
    }
    public void RenormalisePrepare(RenormaliseArgs args) {
      args.Size = 104;
      var error = Error.Blank();
      Check(Native.quern_renormalise_prepare(Handle, ref args, ref error), error);
    }
    public ulong RenormaliseWorkspace(RenormaliseArgs args) {
      args.Size = 104;
      var error = Error.Blank();
      Check(Native.quern_renormalise_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void VerifyDraft(VerifyDraftArgs args) {
      args.Size = 328;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_verify_draft_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_verify_draft(Handle, ref args, ref error), error);
    }
    public void VerifyDraftPrepare(VerifyDraftArgs args) {
      args.Size = 328;
      var error = Error.Blank();
      Check(Native.quern_verify_draft_prepare(Handle, ref args, ref error), error);
    }
    public ulong VerifyDraftWorkspace(VerifyDraftArgs args) {
      args.Size = 328;
      var error = Error.Blank();
      Check(Native.quern_verify_draft_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Pointwise(PointwiseArgs args) {
      args.Size = 128;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_pointwise_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_pointwise(Handle, ref args, ref error), error);
    }
    public void PointwisePrepare(PointwiseArgs args) {
      args.Size = 128;
      var error = Error.Blank();
      Check(Native.quern_pointwise_prepare(Handle, ref args, ref error), error);
    }
    public ulong PointwiseWorkspace(PointwiseArgs args) {
      args.Size = 128;
      var error = Error.Blank();
      Check(Native.quern_pointwise_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Copy(CopyArgs args) {
      args.Size = 72;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_copy_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_copy(Handle, ref args, ref error), error);
    }
    public void CopyPrepare(CopyArgs args) {
      args.Size = 72;
      var error = Error.Blank();
      Check(Native.quern_copy_prepare(Handle, ref args, ref error), error);
    }
    public ulong CopyWorkspace(CopyArgs args) {
      args.Size = 72;
      var error = Error.Blank();
      Check(Native.quern_copy_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Norm(NormArgs args) {
      args.Size = 144;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_norm_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_norm(Handle, ref args, ref error), error);
    }
    public void NormPrepare(NormArgs args) {
      args.Size = 144;
      var error = Error.Blank();
      Check(Native.quern_norm_prepare(Handle, ref args, ref error), error);
    }
    public ulong NormWorkspace(NormArgs args) {
      args.Size = 144;
      var error = Error.Blank();
      Check(Native.quern_norm_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void NormBackward(NormBackwardArgs args) {
      args.Size = 104;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_norm_backward_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_norm_backward(Handle, ref args, ref error), error);
    }
    public void NormBackwardPrepare(NormBackwardArgs args) {
      args.Size = 104;
      var error = Error.Blank();
      Check(Native.quern_norm_backward_prepare(Handle, ref args, ref error), error);
    }
    public ulong NormBackwardWorkspace(NormBackwardArgs args) {
      args.Size = 104;
      var error = Error.Blank();
      Check(Native.quern_norm_backward_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Reduce(ReduceArgs args) {
      args.Size = 168;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_reduce_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_reduce(Handle, ref args, ref error), error);
    }
    public void ReducePrepare(ReduceArgs args) {
      args.Size = 168;
      var error = Error.Blank();
      Check(Native.quern_reduce_prepare(Handle, ref args, ref error), error);
    }
    public ulong ReduceWorkspace(ReduceArgs args) {
      args.Size = 168;
      var error = Error.Blank();
      Check(Native.quern_reduce_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Scatter(ScatterArgs args) {
      args.Size = 88;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_scatter_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_scatter(Handle, ref args, ref error), error);
    }
    public void ScatterPrepare(ScatterArgs args) {
      args.Size = 88;
      var error = Error.Blank();
      Check(Native.quern_scatter_prepare(Handle, ref args, ref error), error);
    }
    public ulong ScatterWorkspace(ScatterArgs args) {
      args.Size = 88;
      var error = Error.Blank();
      Check(Native.quern_scatter_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Histogram(HistogramArgs args) {
      args.Size = 72;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_histogram_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_histogram(Handle, ref args, ref error), error);
    }
    public void HistogramPrepare(HistogramArgs args) {
      args.Size = 72;
      var error = Error.Blank();
      Check(Native.quern_histogram_prepare(Handle, ref args, ref error), error);
    }
    public ulong HistogramWorkspace(HistogramArgs args) {
      args.Size = 72;
      var error = Error.Blank();
      Check(Native.quern_histogram_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Sort(SortArgs args) {
      args.Size = 88;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_sort_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_sort(Handle, ref args, ref error), error);
    }
    public void SortPrepare(SortArgs args) {
      args.Size = 88;
      var error = Error.Blank();
      Check(Native.quern_sort_prepare(Handle, ref args, ref error), error);
    }
    public ulong SortWorkspace(SortArgs args) {
      args.Size = 88;
      var error = Error.Blank();
      Check(Native.quern_sort_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Conv1d(Conv1dArgs args) {
      args.Size = 128;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_conv1d_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_conv1d(Handle, ref args, ref error), error);
    }
    public void Conv1dPrepare(Conv1dArgs args) {
      args.Size = 128;
      var error = Error.Blank();
      Check(Native.quern_conv1d_prepare(Handle, ref args, ref error), error);
    }
    public ulong Conv1dWorkspace(Conv1dArgs args) {
      args.Size = 128;
      var error = Error.Blank();
      Check(Native.quern_conv1d_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Nms(NmsArgs args) {
      args.Size = 96;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_nms_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_nms(Handle, ref args, ref error), error);
    }
    public void NmsPrepare(NmsArgs args) {
      args.Size = 96;
      var error = Error.Blank();
      Check(Native.quern_nms_prepare(Handle, ref args, ref error), error);
    }
    public ulong NmsWorkspace(NmsArgs args) {
      args.Size = 96;
      var error = Error.Blank();
      Check(Native.quern_nms_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Conv2d(Conv2dArgs args) {
      args.Size = 112;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_conv2d_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_conv2d(Handle, ref args, ref error), error);
    }
    public void Conv2dPrepare(Conv2dArgs args) {
      args.Size = 112;
      var error = Error.Blank();
      Check(Native.quern_conv2d_prepare(Handle, ref args, ref error), error);
    }
    public ulong Conv2dWorkspace(Conv2dArgs args) {
      args.Size = 112;
      var error = Error.Blank();
      Check(Native.quern_conv2d_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void QuantizedGemm(QuantizedGemmArgs args) {
      args.Size = 128;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_quantized_gemm_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_quantized_gemm(Handle, ref args, ref error), error);
    }
    public void QuantizedGemmPrepare(QuantizedGemmArgs args) {
      args.Size = 128;
      var error = Error.Blank();
      Check(Native.quern_quantized_gemm_prepare(Handle, ref args, ref error), error);
    }
    public ulong QuantizedGemmWorkspace(QuantizedGemmArgs args) {
      args.Size = 128;
      var error = Error.Blank();
      Check(Native.quern_quantized_gemm_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

    public void Fft(FftArgs args) {
      args.Size = 96;
      var error = Error.Blank();
      if (args.Workspace == IntPtr.Zero) {
        Check(Native.quern_fft_workspace(Handle, ref args, out var bytes, ref error), error);
        args.Workspace = WorkspaceOf(bytes);
        args.WorkspaceSize = bytes;
      }
      CheckRun(Native.quern_fft(Handle, ref args, ref error), error);
    }
    public void FftPrepare(FftArgs args) {
      args.Size = 96;
      var error = Error.Blank();
      Check(Native.quern_fft_prepare(Handle, ref args, ref error), error);
    }
    public ulong FftWorkspace(FftArgs args) {
      args.Size = 96;
      var error = Error.Blank();
      Check(Native.quern_fft_workspace(Handle, ref args, out var bytes, ref error), error);
      return bytes;
    }

  }

  /// <summary>The numbers of quern.h.</summary>
  public static class Constants {
    public const int VersionMajor = 0;
    public const int VersionMinor = 1;
    public const int VersionPatch = 0;
    public const int AbiVersion = 1;
    public const int Ok = 0;
    public const int Miss = 1;
    public const int Pending = 2;
    public const int Invalid = 3;
    public const int Unsupported = 4;
    public const int NotFound = 5;
    public const int Compile = 6;
    public const int Driver = 7;
    public const int Sticky = 8;
    public const int Capturing = 9;
    public const int NoMemory = 10;
    public const int Io = 11;
    public const int Damaged = 12;
    public const int Forked = 13;
    public const int Partial = 14;
    public const int Internal = 15;
    public const int Fault = 16;
    public const int MissCompile = 0;
    public const int MissCachedOnly = 1;
    public const int MissBackground = 2;
    public const int ContextNoCache = 1;
    public const int ContextReadOnlyCache = 2;
    public const int ContextSharedCache = 4;
    public const int ContextNvrtcInHelper = 8;
    public const int ContextHostSeed = 16;
    public const int ContextSignedOnly = 32;
    public const int ContextChecked = 64;
    public const int EventCompiled = 1;
    public const int EventLoaded = 2;
    public const int EventFailed = 3;
    public const int EventRejected = 4;
    public const int EventCache = 5;
    public const int EventFault = 6;
    public const int LogError = 1;
    public const int LogWarning = 2;
    public const int LogInfo = 3;
    public const int LogDebug = 4;
    public const int ModelSinks = 1;
    public const int ModelMla = 2;
    public const int ModelGatedMlp = 4;
    public const int ModelBlockFp8 = 8;
    public const int ModelFp8 = 16;
    public const int ModelBias = 32;
    public const int ModelQkNorm = 64;
    public const int ModelRopeInterleaved = 128;
    public const int ModelNoRope = 256;
    public const int ModelKvTokenScales = 512;
    public const int ModelLayerNorm = 1024;
    public const int ModelEmbeddingScale = 2048;
    public const int ModelFp8Queries = 4096;
    public const int ModelFp8Logits = 8192;
    public const int WarmListOnly = 1;
    public const int WarmAllowUnserved = 2;
    public const int WarmHit = 1;
    public const int WarmCompiled = 2;
    public const int WarmFailed = 3;
    public const int WarmAbsent = 4;
    public const int WarmUnserved = 5;
    public const int TuneAgain = 1;
    public const int TuneListOnly = 2;
    public const int TuneMeasured = 1;
    public const int TuneKnown = 2;
    public const int TuneFailed = 3;
    public const int TuneAbsent = 4;
    public const int TrimRebuild = 1;
    public const int TrimAll = 2;
    public const int CacheReady = 0;
    public const int CacheReadOnly = 1;
    public const int CacheOff = 2;
    public const int CacheDamaged = 3;
    public const int CacheRefused = 4;
    public const int VerifyAgrees = 1;
    public const int VerifyDiffers = 2;
    public const int VerifyFailed = 3;
    public const int VerifyNotRun = 4;
    public const int CallBatchInvariant = 1;
    public const int CallProgrammatic = 2;
    public const int CallCachedOnly = 4;
    public const int CallBackground = 8;
    public const int AttentionCausal = 65536;
    public const int AttentionWindowLeft = 131072;
    public const int AttentionWindowRight = 262144;
    public const int AttentionConstantPast = 524288;
    public const int MlaCausal = 65536;
    public const int MlaWindowLeft = 131072;
    public const int MlaWindowRight = 262144;
    public const int MlaSlots = 524288;
    public const int MlaCacheAsTensor = 0;
    public const int MlaCacheE4m3 = 1;
    public const int MlaCacheRows656 = 2;
    public const int MlaStatusLength = 1;
    public const int MlaStatusPage = 2;
    public const int MlaStatusIndex = 4;
    public const int MlaStatusQueries = 8;
    public const int RopePlain = 0;
    public const int RopeLinear = 1;
    public const int RopeNtk = 2;
    public const int RopeYarn = 3;
    public const int RopeLlama3 = 4;
    public const int RopeInterleaved = 1;
    public const int RopeExactRamp = 2;
    public const int KvAppendWeightPlusOne = 65536;
    public const int ActivationDefault = 0;
    public const int ActivationRelu = 1;
    public const int ActivationGelu = 2;
    public const int ActivationGeluTanh = 3;
    public const int ActivationSilu = 4;
    public const int ActivationNone = 5;
    public const int EpilogueGate = 1;
    public const int EpiloguePowerOfTwo = 2;
    public const int Fp8AsTensor = 0;
    public const int Fp8E4m3 = 1;
    public const int Fp8E5m2 = 2;
    public const int GroupOffsets = 1;
    public const int GroupCapacity = 2;
    public const int GroupIndex = 4;
    public const int GemmTf32 = 65536;
    public const int GemmConstantB = 131072;
    public const int QuantizedAsTensor = 0;
    public const int QuantizedE4m3 = 1;
    public const int QuantizedInt4 = 2;
    public const int QuantizedUint4 = 3;
    public const int QuantizedE2m1 = 4;
    public const int QuantizedScaleAsTensor = 0;
    public const int QuantizedScaleE4m3 = 1;
    public const int QuantizedScaleUe8m0 = 2;
    public const int FrontNone = 0;
    public const int FrontRmsnorm = 1;
    public const int FrontLayernorm = 2;
    public const int FrontSiluMul = 3;
    public const int FrontGeluMul = 4;
    public const int FrontGeluTanhMul = 5;
    public const int ScaleNone = 0;
    public const int ScaleStatic = 1;
    public const int ScaleTensor = 2;
    public const int ScaleToken = 3;
    public const int ScaleGroup = 4;
    public const int ScaleBlock = 5;
    public const int QuantizePowerOfTwo = 65536;
    public const int QuantizeWeightPlusOne = 131072;
    public const int MoeSigmoid = 65536;
    public const int MoeRenormalize = 131072;
    public const int RmsnormWeightPlusOne = 65536;
    public const int RmsnormConstantWeight = 131072;
    public const int GatherHasPadding = 65536;
    public const int GatherShard = 131072;
    public const int SampleTemperature = 65536;
    public const int SampleTopP = 131072;
    public const int SampleTypicalP = 262144;
    public const int SampleJoint = 524288;
    public const int SampleTemperatureLast = 1048576;
    public const int SampleLogprobsFiltered = 2097152;
    public const int SampleEmpty = 1;
    public const int SampleNan = 2;
    public const int SampleParameter = 4;
    public const int SampleIndex = 8;
    public const int SampleCapacity = 16;
    public const int MlaAppendPowerOfTwo = 65536;
    public const int IndexScoresCausal = 65536;
    public const int IndexScoresLeaveMasked = 131072;
    public const int SoftmaxTemperature = 65536;
    public const int SoftmaxLog = 131072;
    public const int TopKSorted = 65536;
    public const int RenormaliseTopP = 65536;
    public const int RenormaliseJoint = 131072;
    public const int VerifyTemperature = 65536;
    public const int VerifyTopP = 131072;
    public const int VerifyJoint = 262144;
    public const int VerifyLogits = 524288;
    public const int VerifyGreedy = 1048576;
    public const int VerifyWithoutReplacement = 2097152;
    public const int VerifyLogprobsFiltered = 4194304;
    public const int NormLayer = 0;
    public const int NormRms = 1;
    public const int NormL2 = 2;
    public const int NormGroup = 3;
    public const int NormWeightPlusOne = 65536;
    public const int NormScaleAlone = 131072;
    public const int NormPowerOfTwo = 262144;
    public const int NormBackwardWeightPlusOne = 65536;
    public const int ReduceSum = 0;
    public const int ReduceMean = 1;
    public const int ReduceMax = 2;
    public const int ReduceMin = 3;
    public const int ReduceArgmax = 4;
    public const int ReduceArgmin = 5;
    public const int ReduceL2 = 6;
    public const int ReduceDot = 7;
    public const int ReduceLogsumexp = 8;
    public const int ReduceAny = 9;
    public const int ReduceAll = 10;
    public const int ReduceF16Sums = 65536;
    public const int ScatterAdd = 65536;
    public const int ScatterHasPadding = 131072;
    public const int ScatterShard = 262144;
    public const int ScatterUnique = 524288;
    public const int HistogramAccumulate = 65536;
    public const int HistogramClamp = 131072;
    public const int SortDescending = 65536;
    public const int Conv1dSilu = 65536;
    public const int FftForward = 0;
    public const int FftInverse = 1;
    public const int FftReal = 2;
    public const int FftToReal = 3;
    public const int FftComplex = 0;
    public const int FftPower = 1;
    public const int FftMagnitude = 2;
    public const int FftUnscaled = 0;
    public const int FftByN = 1;
    public const int FftByRoot = 2;
    public const int FftZeros = 0;
    public const int FftReflect = 1;
    public const int NmsScoreThreshold = 65536;
  }
}
