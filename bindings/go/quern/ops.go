// The ops: each a struct of its arguments, which are the fields of quern_OP_args in quern.h, documented
// there. Made of quern.h by ./dev generate.
// SPDX-License-Identifier: Apache-2.0

package quern

// #include <quern.h>
import "C"

import "unsafe"

// The numbers of quern.h, but for those that Status and the like name.
const (
	VersionMajor              = 0
	VersionMinor              = 1
	VersionPatch              = 0
	AbiVersion                = 1
	Ok                        = 0
	Miss                      = 1
	Pending                   = 2
	Invalid                   = 3
	Unsupported               = 4
	NotFound                  = 5
	Compile                   = 6
	Driver                    = 7
	Sticky                    = 8
	Capturing                 = 9
	NoMemory                  = 10
	Io                        = 11
	Damaged                   = 12
	Forked                    = 13
	Partial                   = 14
	Internal                  = 15
	Fault                     = 16
	MissCompile               = 0
	MissCachedOnly            = 1
	MissBackground            = 2
	ContextNoCache            = 1
	ContextReadOnlyCache      = 2
	ContextSharedCache        = 4
	ContextNvrtcInHelper      = 8
	ContextHostSeed           = 16
	ContextSignedOnly         = 32
	ContextChecked            = 64
	EventCompiled             = 1
	EventLoaded               = 2
	EventFailed               = 3
	EventRejected             = 4
	EventCache                = 5
	EventFault                = 6
	LogError                  = 1
	LogWarning                = 2
	LogInfo                   = 3
	LogDebug                  = 4
	ModelSinks                = 1
	ModelMla                  = 2
	ModelGatedMlp             = 4
	ModelBlockFp8             = 8
	ModelFp8                  = 16
	ModelBias                 = 32
	ModelQkNorm               = 64
	ModelRopeInterleaved      = 128
	ModelNoRope               = 256
	ModelKvTokenScales        = 512
	ModelLayerNorm            = 1024
	ModelEmbeddingScale       = 2048
	ModelFp8Queries           = 4096
	ModelFp8Logits            = 8192
	WarmListOnly              = 1
	WarmAllowUnserved         = 2
	WarmHit                   = 1
	WarmCompiled              = 2
	WarmFailed                = 3
	WarmAbsent                = 4
	WarmUnserved              = 5
	TuneAgain                 = 1
	TuneListOnly              = 2
	TuneMeasured              = 1
	TuneKnown                 = 2
	TuneFailed                = 3
	TuneAbsent                = 4
	TrimRebuild               = 1
	TrimAll                   = 2
	CacheReady                = 0
	CacheReadOnly             = 1
	CacheOff                  = 2
	CacheDamaged              = 3
	CacheRefused              = 4
	VerifyAgrees              = 1
	VerifyDiffers             = 2
	VerifyFailed              = 3
	VerifyNotRun              = 4
	CallBatchInvariant        = 1
	CallProgrammatic          = 2
	CallCachedOnly            = 4
	CallBackground            = 8
	AttentionCausal           = 65536
	AttentionWindowLeft       = 131072
	AttentionWindowRight      = 262144
	AttentionConstantPast     = 524288
	MlaCausal                 = 65536
	MlaWindowLeft             = 131072
	MlaWindowRight            = 262144
	MlaSlots                  = 524288
	MlaCacheAsTensor          = 0
	MlaCacheE4m3              = 1
	MlaCacheRows656           = 2
	MlaStatusLength           = 1
	MlaStatusPage             = 2
	MlaStatusIndex            = 4
	MlaStatusQueries          = 8
	RopePlain                 = 0
	RopeLinear                = 1
	RopeNtk                   = 2
	RopeYarn                  = 3
	RopeLlama3                = 4
	RopeInterleaved           = 1
	RopeExactRamp             = 2
	KvAppendWeightPlusOne     = 65536
	ActivationDefault         = 0
	ActivationRelu            = 1
	ActivationGelu            = 2
	ActivationGeluTanh        = 3
	ActivationSilu            = 4
	ActivationNone            = 5
	EpilogueGate              = 1
	EpiloguePowerOfTwo        = 2
	Fp8AsTensor               = 0
	Fp8E4m3                   = 1
	Fp8E5m2                   = 2
	GroupOffsets              = 1
	GroupCapacity             = 2
	GroupIndex                = 4
	GemmTf32                  = 65536
	GemmConstantB             = 131072
	QuantizedAsTensor         = 0
	QuantizedE4m3             = 1
	QuantizedInt4             = 2
	QuantizedUint4            = 3
	QuantizedE2m1             = 4
	QuantizedScaleAsTensor    = 0
	QuantizedScaleE4m3        = 1
	QuantizedScaleUe8m0       = 2
	FrontNone                 = 0
	FrontRmsnorm              = 1
	FrontLayernorm            = 2
	FrontSiluMul              = 3
	FrontGeluMul              = 4
	FrontGeluTanhMul          = 5
	ScaleNone                 = 0
	ScaleStatic               = 1
	ScaleTensor               = 2
	ScaleToken                = 3
	ScaleGroup                = 4
	ScaleBlock                = 5
	QuantizePowerOfTwo        = 65536
	QuantizeWeightPlusOne     = 131072
	MoeSigmoid                = 65536
	MoeRenormalize            = 131072
	RmsnormWeightPlusOne      = 65536
	RmsnormConstantWeight     = 131072
	GatherHasPadding          = 65536
	GatherShard               = 131072
	SampleTemperature         = 65536
	SampleTopP                = 131072
	SampleTypicalP            = 262144
	SampleJoint               = 524288
	SampleTemperatureLast     = 1048576
	SampleLogprobsFiltered    = 2097152
	SampleEmpty               = 1
	SampleNan                 = 2
	SampleParameter           = 4
	SampleIndex               = 8
	SampleCapacity            = 16
	MlaAppendPowerOfTwo       = 65536
	IndexScoresCausal         = 65536
	IndexScoresLeaveMasked    = 131072
	SoftmaxTemperature        = 65536
	SoftmaxLog                = 131072
	TopKSorted                = 65536
	RenormaliseTopP           = 65536
	RenormaliseJoint          = 131072
	VerifyTemperature         = 65536
	VerifyTopP                = 131072
	VerifyJoint               = 262144
	VerifyLogits              = 524288
	VerifyGreedy              = 1048576
	VerifyWithoutReplacement  = 2097152
	VerifyLogprobsFiltered    = 4194304
	NormLayer                 = 0
	NormRms                   = 1
	NormL2                    = 2
	NormGroup                 = 3
	NormWeightPlusOne         = 65536
	NormScaleAlone            = 131072
	NormPowerOfTwo            = 262144
	NormBackwardWeightPlusOne = 65536
	ReduceSum                 = 0
	ReduceMean                = 1
	ReduceMax                 = 2
	ReduceMin                 = 3
	ReduceArgmax              = 4
	ReduceArgmin              = 5
	ReduceL2                  = 6
	ReduceDot                 = 7
	ReduceLogsumexp           = 8
	ReduceAny                 = 9
	ReduceAll                 = 10
	ReduceF16Sums             = 65536
	ScatterAdd                = 65536
	ScatterHasPadding         = 131072
	ScatterShard              = 262144
	ScatterUnique             = 524288
	HistogramAccumulate       = 65536
	HistogramClamp            = 131072
	SortDescending            = 65536
	Conv1dSilu                = 65536
	FftForward                = 0
	FftInverse                = 1
	FftReal                   = 2
	FftToReal                 = 3
	FftComplex                = 0
	FftPower                  = 1
	FftMagnitude              = 2
	FftUnscaled               = 0
	FftByN                    = 1
	FftByRoot                 = 2
	FftZeros                  = 0
	FftReflect                = 1
	NmsScoreThreshold         = 65536
)

// Epilogue is quern_epilogue.
type Epilogue struct {
	Flags      uint32
	Activation int32
	Bias       *Tensor
	C          *Tensor
	Expression *Expression
	Operands   []*Tensor
	Scalars    []float32
	OutScale   *Tensor
}

func (op *Epilogue) raw(held *holder) *C.quern_epilogue {
	if op == nil {
		return nil
	}
	args := (*C.quern_epilogue)(held.allocate(C.sizeof_quern_epilogue))
	args.size = C.sizeof_quern_epilogue
	args.flags = C.uint32_t(op.Flags)
	args.activation = C.int32_t(op.Activation)
	args.bias = op.Bias.raw()
	args.c = op.C.raw()
	args.expression = op.Expression.raw()
	args.operand_count = C.uint32_t(len(op.Operands))
	args.operands = held.tensors(op.Operands)
	args.scalar_count = C.uint32_t(len(op.Scalars))
	args.scalars = held.floats(op.Scalars)
	args.out_scale = op.OutScale.raw()
	return args
}

// RopeOptions is quern_rope_options.
type RopeOptions struct {
	Flags             uint32
	Scaling           int32
	RotaryDim         int32
	Theta             float64
	Factor            float64
	AttentionFactor   float64
	LowFreqFactor     float64
	HighFreqFactor    float64
	BetaFast          float64
	BetaSlow          float64
	OriginalPositions int32
	Table             *Tensor
}

func (op *RopeOptions) raw(held *holder) *C.quern_rope_options {
	if op == nil {
		return nil
	}
	args := (*C.quern_rope_options)(held.allocate(C.sizeof_quern_rope_options))
	args.size = C.sizeof_quern_rope_options
	args.flags = C.uint32_t(op.Flags)
	args.scaling = C.int32_t(op.Scaling)
	args.rotary_dim = C.int32_t(op.RotaryDim)
	args.theta = C.double(op.Theta)
	args.factor = C.double(op.Factor)
	args.attention_factor = C.double(op.AttentionFactor)
	args.low_freq_factor = C.double(op.LowFreqFactor)
	args.high_freq_factor = C.double(op.HighFreqFactor)
	args.beta_fast = C.double(op.BetaFast)
	args.beta_slow = C.double(op.BetaSlow)
	args.original_positions = C.int32_t(op.OriginalPositions)
	args.table = op.Table.raw()
	return args
}

// Attention is quern_attention.
type Attention struct {
	Flags       uint32
	Stream      unsafe.Pointer
	Alignment   int32
	MaxSms      int32
	Q           *Tensor
	K           *Tensor
	V           *Tensor
	Out         *Tensor
	Lse         *Tensor
	Lengths     *Tensor
	CuQ         *Tensor
	PageTable   *Tensor
	PageIndptr  *Tensor
	PageIndices *Tensor
	CuKv        *Tensor
	AlibiSlopes *Tensor
	Sinks       *Tensor
	MaxQLen     int32
	MaxKvLen    int32
	WindowLeft  int32
	WindowRight int32
	Scale       float32
	LogitCap    float32
	QScale      *Tensor
	KScale      *Tensor
	VScale      *Tensor
	Mask        *Tensor
	MaskIndptr  *Tensor
	MaskKeys    *Tensor
	QType       int32
	KvType      int32
	OutScale    *Tensor
	OutType     int32
}

func (op *Attention) args(held *holder) *C.quern_attention_args {
	args := (*C.quern_attention_args)(held.allocate(C.sizeof_quern_attention_args))
	args.size = C.sizeof_quern_attention_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.q = op.Q.raw()
	args.k = op.K.raw()
	args.v = op.V.raw()
	args.out = op.Out.raw()
	args.lse = op.Lse.raw()
	args.lengths = op.Lengths.raw()
	args.cu_q = op.CuQ.raw()
	args.page_table = op.PageTable.raw()
	args.page_indptr = op.PageIndptr.raw()
	args.page_indices = op.PageIndices.raw()
	args.cu_kv = op.CuKv.raw()
	args.alibi_slopes = op.AlibiSlopes.raw()
	args.sinks = op.Sinks.raw()
	args.max_q_len = C.int32_t(op.MaxQLen)
	args.max_kv_len = C.int32_t(op.MaxKvLen)
	args.window_left = C.int32_t(op.WindowLeft)
	args.window_right = C.int32_t(op.WindowRight)
	args.scale = C.float(op.Scale)
	args.logit_cap = C.float(op.LogitCap)
	args.q_scale = op.QScale.raw()
	args.k_scale = op.KScale.raw()
	args.v_scale = op.VScale.raw()
	args.mask = op.Mask.raw()
	args.mask_indptr = op.MaskIndptr.raw()
	args.mask_keys = op.MaskKeys.raw()
	args.q_type = C.int32_t(op.QType)
	args.kv_type = C.int32_t(op.KvType)
	args.out_scale = op.OutScale.raw()
	args.out_type = C.int32_t(op.OutType)
	return args
}

func (op *Attention) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_attention(context, args, failure)
}

func (op *Attention) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_attention_prepare(context, op.args(held), failure)
}

func (op *Attention) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_attention_workspace(context, op.args(held), size, failure)
}

// MergeState is quern_merge_state.
type MergeState struct {
	Flags     uint32
	Stream    unsafe.Pointer
	Alignment int32
	MaxSms    int32
	OutA      *Tensor
	LseA      *Tensor
	OutB      *Tensor
	LseB      *Tensor
	Out       *Tensor
	Lse       *Tensor
}

func (op *MergeState) args(held *holder) *C.quern_merge_state_args {
	args := (*C.quern_merge_state_args)(held.allocate(C.sizeof_quern_merge_state_args))
	args.size = C.sizeof_quern_merge_state_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.out_a = op.OutA.raw()
	args.lse_a = op.LseA.raw()
	args.out_b = op.OutB.raw()
	args.lse_b = op.LseB.raw()
	args.out = op.Out.raw()
	args.lse = op.Lse.raw()
	return args
}

func (op *MergeState) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_merge_state(context, args, failure)
}

func (op *MergeState) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_merge_state_prepare(context, op.args(held), failure)
}

func (op *MergeState) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_merge_state_workspace(context, op.args(held), size, failure)
}

// Fp8Gemm is quern_fp8_gemm.
type Fp8Gemm struct {
	Flags     uint32
	Stream    unsafe.Pointer
	Alignment int32
	MaxSms    int32
	A         *Tensor
	B         *Tensor
	ScaleA    *Tensor
	ScaleB    *Tensor
	Out       *Tensor
	Epilogue  *Epilogue
	AType     int32
	BType     int32
}

func (op *Fp8Gemm) args(held *holder) *C.quern_fp8_gemm_args {
	args := (*C.quern_fp8_gemm_args)(held.allocate(C.sizeof_quern_fp8_gemm_args))
	args.size = C.sizeof_quern_fp8_gemm_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.a = op.A.raw()
	args.b = op.B.raw()
	args.scale_a = op.ScaleA.raw()
	args.scale_b = op.ScaleB.raw()
	args.out = op.Out.raw()
	args.epilogue = op.Epilogue.raw(held)
	args.a_type = C.int32_t(op.AType)
	args.b_type = C.int32_t(op.BType)
	return args
}

func (op *Fp8Gemm) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_fp8_gemm(context, args, failure)
}

func (op *Fp8Gemm) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_fp8_gemm_prepare(context, op.args(held), failure)
}

func (op *Fp8Gemm) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_fp8_gemm_workspace(context, op.args(held), size, failure)
}

// GroupedFp8Gemm is quern_grouped_fp8_gemm.
type GroupedFp8Gemm struct {
	Flags        uint32
	Stream       unsafe.Pointer
	Alignment    int32
	MaxSms       int32
	A            *Tensor
	B            *Tensor
	ScaleA       *Tensor
	ScaleB       *Tensor
	Out          *Tensor
	Offsets      *Tensor
	Counts       *Tensor
	Indices      *Tensor
	Status       *Tensor
	Epilogue     *Epilogue
	AType        int32
	BType        int32
	ExpectedRows int32
}

func (op *GroupedFp8Gemm) args(held *holder) *C.quern_grouped_fp8_gemm_args {
	args := (*C.quern_grouped_fp8_gemm_args)(held.allocate(C.sizeof_quern_grouped_fp8_gemm_args))
	args.size = C.sizeof_quern_grouped_fp8_gemm_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.a = op.A.raw()
	args.b = op.B.raw()
	args.scale_a = op.ScaleA.raw()
	args.scale_b = op.ScaleB.raw()
	args.out = op.Out.raw()
	args.offsets = op.Offsets.raw()
	args.counts = op.Counts.raw()
	args.indices = op.Indices.raw()
	args.status = op.Status.raw()
	args.epilogue = op.Epilogue.raw(held)
	args.a_type = C.int32_t(op.AType)
	args.b_type = C.int32_t(op.BType)
	args.expected_rows = C.int32_t(op.ExpectedRows)
	return args
}

func (op *GroupedFp8Gemm) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_grouped_fp8_gemm(context, args, failure)
}

func (op *GroupedFp8Gemm) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_grouped_fp8_gemm_prepare(context, op.args(held), failure)
}

func (op *GroupedFp8Gemm) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_grouped_fp8_gemm_workspace(context, op.args(held), size, failure)
}

// Gemm is quern_gemm.
type Gemm struct {
	Flags     uint32
	Stream    unsafe.Pointer
	Alignment int32
	MaxSms    int32
	A         *Tensor
	B         *Tensor
	Out       *Tensor
	Epilogue  *Epilogue
}

func (op *Gemm) args(held *holder) *C.quern_gemm_args {
	args := (*C.quern_gemm_args)(held.allocate(C.sizeof_quern_gemm_args))
	args.size = C.sizeof_quern_gemm_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.a = op.A.raw()
	args.b = op.B.raw()
	args.out = op.Out.raw()
	args.epilogue = op.Epilogue.raw(held)
	return args
}

func (op *Gemm) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_gemm(context, args, failure)
}

func (op *Gemm) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_gemm_prepare(context, op.args(held), failure)
}

func (op *Gemm) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_gemm_workspace(context, op.args(held), size, failure)
}

// Quantize is quern_quantize.
type Quantize struct {
	Flags       uint32
	Stream      unsafe.Pointer
	Alignment   int32
	MaxSms      int32
	X           *Tensor
	Out         *Tensor
	Scale       *Tensor
	Residual    *Tensor
	ResidualOut *Tensor
	Weight      *Tensor
	Bias        *Tensor
	Dense       *Tensor
	Front       int32
	ScaleKind   int32
	Type        int32
	Eps         float32
}

func (op *Quantize) args(held *holder) *C.quern_quantize_args {
	args := (*C.quern_quantize_args)(held.allocate(C.sizeof_quern_quantize_args))
	args.size = C.sizeof_quern_quantize_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.x = op.X.raw()
	args.out = op.Out.raw()
	args.scale = op.Scale.raw()
	args.residual = op.Residual.raw()
	args.residual_out = op.ResidualOut.raw()
	args.weight = op.Weight.raw()
	args.bias = op.Bias.raw()
	args.dense = op.Dense.raw()
	args.front = C.int32_t(op.Front)
	args.scale_kind = C.int32_t(op.ScaleKind)
	args._type = C.int32_t(op.Type)
	args.eps = C.float(op.Eps)
	return args
}

func (op *Quantize) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_quantize(context, args, failure)
}

func (op *Quantize) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_quantize_prepare(context, op.args(held), failure)
}

func (op *Quantize) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_quantize_workspace(context, op.args(held), size, failure)
}

// Dequantize is quern_dequantize.
type Dequantize struct {
	Flags     uint32
	Stream    unsafe.Pointer
	Alignment int32
	MaxSms    int32
	X         *Tensor
	Scale     *Tensor
	Out       *Tensor
	ScaleKind int32
	Type      int32
}

func (op *Dequantize) args(held *holder) *C.quern_dequantize_args {
	args := (*C.quern_dequantize_args)(held.allocate(C.sizeof_quern_dequantize_args))
	args.size = C.sizeof_quern_dequantize_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.x = op.X.raw()
	args.scale = op.Scale.raw()
	args.out = op.Out.raw()
	args.scale_kind = C.int32_t(op.ScaleKind)
	args._type = C.int32_t(op.Type)
	return args
}

func (op *Dequantize) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_dequantize(context, args, failure)
}

func (op *Dequantize) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_dequantize_prepare(context, op.args(held), failure)
}

func (op *Dequantize) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_dequantize_workspace(context, op.args(held), size, failure)
}

// MoeRoute is quern_moe_route.
type MoeRoute struct {
	Flags        uint32
	Stream       unsafe.Pointer
	Alignment    int32
	MaxSms       int32
	Logits       *Tensor
	Bias         *Tensor
	Weights      *Tensor
	Ids          *Tensor
	Offsets      *Tensor
	Indices      *Tensor
	Positions    *Tensor
	Counts       *Tensor
	TopK         int32
	Groups       int32
	TopGroups    int32
	FirstExpert  int32
	LocalExperts int32
	Scale        float32
}

func (op *MoeRoute) args(held *holder) *C.quern_moe_route_args {
	args := (*C.quern_moe_route_args)(held.allocate(C.sizeof_quern_moe_route_args))
	args.size = C.sizeof_quern_moe_route_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.logits = op.Logits.raw()
	args.bias = op.Bias.raw()
	args.weights = op.Weights.raw()
	args.ids = op.Ids.raw()
	args.offsets = op.Offsets.raw()
	args.indices = op.Indices.raw()
	args.positions = op.Positions.raw()
	args.counts = op.Counts.raw()
	args.top_k = C.int32_t(op.TopK)
	args.groups = C.int32_t(op.Groups)
	args.top_groups = C.int32_t(op.TopGroups)
	args.first_expert = C.int32_t(op.FirstExpert)
	args.local_experts = C.int32_t(op.LocalExperts)
	args.scale = C.float(op.Scale)
	return args
}

func (op *MoeRoute) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_moe_route(context, args, failure)
}

func (op *MoeRoute) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_moe_route_prepare(context, op.args(held), failure)
}

func (op *MoeRoute) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_moe_route_workspace(context, op.args(held), size, failure)
}

// MoeCombine is quern_moe_combine.
type MoeCombine struct {
	Flags     uint32
	Stream    unsafe.Pointer
	Alignment int32
	MaxSms    int32
	X         *Tensor
	Positions *Tensor
	Weights   *Tensor
	Add       *Tensor
	Out       *Tensor
}

func (op *MoeCombine) args(held *holder) *C.quern_moe_combine_args {
	args := (*C.quern_moe_combine_args)(held.allocate(C.sizeof_quern_moe_combine_args))
	args.size = C.sizeof_quern_moe_combine_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.x = op.X.raw()
	args.positions = op.Positions.raw()
	args.weights = op.Weights.raw()
	args.add = op.Add.raw()
	args.out = op.Out.raw()
	return args
}

func (op *MoeCombine) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_moe_combine(context, args, failure)
}

func (op *MoeCombine) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_moe_combine_prepare(context, op.args(held), failure)
}

func (op *MoeCombine) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_moe_combine_workspace(context, op.args(held), size, failure)
}

// MergeStates is quern_merge_states.
type MergeStates struct {
	Flags     uint32
	Stream    unsafe.Pointer
	Alignment int32
	MaxSms    int32
	Parts     *Tensor
	PartLses  *Tensor
	Out       *Tensor
	Lse       *Tensor
}

func (op *MergeStates) args(held *holder) *C.quern_merge_states_args {
	args := (*C.quern_merge_states_args)(held.allocate(C.sizeof_quern_merge_states_args))
	args.size = C.sizeof_quern_merge_states_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.parts = op.Parts.raw()
	args.part_lses = op.PartLses.raw()
	args.out = op.Out.raw()
	args.lse = op.Lse.raw()
	return args
}

func (op *MergeStates) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_merge_states(context, args, failure)
}

func (op *MergeStates) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_merge_states_prepare(context, op.args(held), failure)
}

func (op *MergeStates) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_merge_states_workspace(context, op.args(held), size, failure)
}

// Rope is quern_rope.
type Rope struct {
	Flags     uint32
	Stream    unsafe.Pointer
	Alignment int32
	MaxSms    int32
	Q         *Tensor
	K         *Tensor
	QOut      *Tensor
	KOut      *Tensor
	Positions *Tensor
	Rope      *RopeOptions
}

func (op *Rope) args(held *holder) *C.quern_rope_args {
	args := (*C.quern_rope_args)(held.allocate(C.sizeof_quern_rope_args))
	args.size = C.sizeof_quern_rope_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.q = op.Q.raw()
	args.k = op.K.raw()
	args.q_out = op.QOut.raw()
	args.k_out = op.KOut.raw()
	args.positions = op.Positions.raw()
	args.rope = op.Rope.raw(held)
	return args
}

func (op *Rope) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_rope(context, args, failure)
}

func (op *Rope) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_rope_prepare(context, op.args(held), failure)
}

func (op *Rope) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_rope_workspace(context, op.args(held), size, failure)
}

// KvAppend is quern_kv_append.
type KvAppend struct {
	Flags       uint32
	Stream      unsafe.Pointer
	Alignment   int32
	MaxSms      int32
	K           *Tensor
	V           *Tensor
	KCache      *Tensor
	VCache      *Tensor
	KScale      *Tensor
	VScale      *Tensor
	Slots       *Tensor
	PageTable   *Tensor
	PageIndptr  *Tensor
	PageIndices *Tensor
	CuQ         *Tensor
	Lengths     *Tensor
	Positions   *Tensor
	Q           *Tensor
	QOut        *Tensor
	QScale      *Tensor
	QWeight     *Tensor
	KWeight     *Tensor
	Rope        *RopeOptions
	Eps         float32
	QType       int32
	KvType      int32
}

func (op *KvAppend) args(held *holder) *C.quern_kv_append_args {
	args := (*C.quern_kv_append_args)(held.allocate(C.sizeof_quern_kv_append_args))
	args.size = C.sizeof_quern_kv_append_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.k = op.K.raw()
	args.v = op.V.raw()
	args.k_cache = op.KCache.raw()
	args.v_cache = op.VCache.raw()
	args.k_scale = op.KScale.raw()
	args.v_scale = op.VScale.raw()
	args.slots = op.Slots.raw()
	args.page_table = op.PageTable.raw()
	args.page_indptr = op.PageIndptr.raw()
	args.page_indices = op.PageIndices.raw()
	args.cu_q = op.CuQ.raw()
	args.lengths = op.Lengths.raw()
	args.positions = op.Positions.raw()
	args.q = op.Q.raw()
	args.q_out = op.QOut.raw()
	args.q_scale = op.QScale.raw()
	args.q_weight = op.QWeight.raw()
	args.k_weight = op.KWeight.raw()
	args.rope = op.Rope.raw(held)
	args.eps = C.float(op.Eps)
	args.q_type = C.int32_t(op.QType)
	args.kv_type = C.int32_t(op.KvType)
	return args
}

func (op *KvAppend) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_kv_append(context, args, failure)
}

func (op *KvAppend) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_kv_append_prepare(context, op.args(held), failure)
}

func (op *KvAppend) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_kv_append_workspace(context, op.args(held), size, failure)
}

// KvCopyPages is quern_kv_copy_pages.
type KvCopyPages struct {
	Flags        uint32
	Stream       unsafe.Pointer
	Alignment    int32
	MaxSms       int32
	K            *Tensor
	V            *Tensor
	KTo          *Tensor
	VTo          *Tensor
	KScale       *Tensor
	VScale       *Tensor
	KScaleTo     *Tensor
	VScaleTo     *Tensor
	Sources      *Tensor
	Destinations *Tensor
}

func (op *KvCopyPages) args(held *holder) *C.quern_kv_copy_pages_args {
	args := (*C.quern_kv_copy_pages_args)(held.allocate(C.sizeof_quern_kv_copy_pages_args))
	args.size = C.sizeof_quern_kv_copy_pages_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.k = op.K.raw()
	args.v = op.V.raw()
	args.k_to = op.KTo.raw()
	args.v_to = op.VTo.raw()
	args.k_scale = op.KScale.raw()
	args.v_scale = op.VScale.raw()
	args.k_scale_to = op.KScaleTo.raw()
	args.v_scale_to = op.VScaleTo.raw()
	args.sources = op.Sources.raw()
	args.destinations = op.Destinations.raw()
	return args
}

func (op *KvCopyPages) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_kv_copy_pages(context, args, failure)
}

func (op *KvCopyPages) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_kv_copy_pages_prepare(context, op.args(held), failure)
}

func (op *KvCopyPages) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_kv_copy_pages_workspace(context, op.args(held), size, failure)
}

// MlaDecode is quern_mla_decode.
type MlaDecode struct {
	Flags       uint32
	Stream      unsafe.Pointer
	Alignment   int32
	MaxSms      int32
	Q           *Tensor
	QRope       *Tensor
	Cache       *Tensor
	CacheRope   *Tensor
	CacheScale  *Tensor
	Out         *Tensor
	Lse         *Tensor
	Lengths     *Tensor
	CuQ         *Tensor
	PageTable   *Tensor
	PageIndptr  *Tensor
	PageIndices *Tensor
	Indices     *Tensor
	Sinks       *Tensor
	Status      *Tensor
	MaxQLen     int32
	MaxKvLen    int32
	WindowLeft  int32
	WindowRight int32
	CacheType   int32
	Scale       float32
	LogitCap    float32
}

func (op *MlaDecode) args(held *holder) *C.quern_mla_decode_args {
	args := (*C.quern_mla_decode_args)(held.allocate(C.sizeof_quern_mla_decode_args))
	args.size = C.sizeof_quern_mla_decode_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.q = op.Q.raw()
	args.q_rope = op.QRope.raw()
	args.cache = op.Cache.raw()
	args.cache_rope = op.CacheRope.raw()
	args.cache_scale = op.CacheScale.raw()
	args.out = op.Out.raw()
	args.lse = op.Lse.raw()
	args.lengths = op.Lengths.raw()
	args.cu_q = op.CuQ.raw()
	args.page_table = op.PageTable.raw()
	args.page_indptr = op.PageIndptr.raw()
	args.page_indices = op.PageIndices.raw()
	args.indices = op.Indices.raw()
	args.sinks = op.Sinks.raw()
	args.status = op.Status.raw()
	args.max_q_len = C.int32_t(op.MaxQLen)
	args.max_kv_len = C.int32_t(op.MaxKvLen)
	args.window_left = C.int32_t(op.WindowLeft)
	args.window_right = C.int32_t(op.WindowRight)
	args.cache_type = C.int32_t(op.CacheType)
	args.scale = C.float(op.Scale)
	args.logit_cap = C.float(op.LogitCap)
	return args
}

func (op *MlaDecode) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_mla_decode(context, args, failure)
}

func (op *MlaDecode) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_mla_decode_prepare(context, op.args(held), failure)
}

func (op *MlaDecode) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_mla_decode_workspace(context, op.args(held), size, failure)
}

// Rmsnorm is quern_rmsnorm.
type Rmsnorm struct {
	Flags       uint32
	Stream      unsafe.Pointer
	Alignment   int32
	MaxSms      int32
	X           *Tensor
	Residual    *Tensor
	Weight      *Tensor
	Out         *Tensor
	ResidualOut *Tensor
	Eps         float32
}

func (op *Rmsnorm) args(held *holder) *C.quern_rmsnorm_args {
	args := (*C.quern_rmsnorm_args)(held.allocate(C.sizeof_quern_rmsnorm_args))
	args.size = C.sizeof_quern_rmsnorm_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.x = op.X.raw()
	args.residual = op.Residual.raw()
	args.weight = op.Weight.raw()
	args.out = op.Out.raw()
	args.residual_out = op.ResidualOut.raw()
	args.eps = C.float(op.Eps)
	return args
}

func (op *Rmsnorm) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_rmsnorm(context, args, failure)
}

func (op *Rmsnorm) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_rmsnorm_prepare(context, op.args(held), failure)
}

func (op *Rmsnorm) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_rmsnorm_workspace(context, op.args(held), size, failure)
}

// Sample is quern_sample.
type Sample struct {
	Flags            uint32
	Stream           unsafe.Pointer
	Alignment        int32
	MaxSms           int32
	Logits           *Tensor
	Rows             *Tensor
	Ids              *Tensor
	Logprobs         *Tensor
	TopIds           *Tensor
	TopLogprobs      *Tensor
	Status           *Tensor
	Seeds            *Tensor
	Offsets          *Tensor
	Temperatures     *Tensor
	TopKs            *Tensor
	TopPs            *Tensor
	MinPs            *Tensor
	TypicalPs        *Tensor
	NSigmas          *Tensor
	XtcProbabilities *Tensor
	XtcThresholds    *Tensor
	DynamicRanges    *Tensor
	DynamicExponents *Tensor
	Repetitions      *Tensor
	Presences        *Tensor
	Frequencies      *Tensor
	PromptMask       *Tensor
	PromptTokens     *Tensor
	PromptLengths    *Tensor
	OutputCounts     *Tensor
	OutputTokens     *Tensor
	OutputLengths    *Tensor
	BiasOffsets      *Tensor
	BiasIds          *Tensor
	BiasValues       *Tensor
	Allowed          *Tensor
	Banned           *Tensor
	Seed             uint64
	Offset           uint64
	Temperature      float32
	TopK             int32
	TopP             float32
	MinP             float32
	TypicalP         float32
	NSigma           float32
	XtcProbability   float32
	XtcThreshold     float32
	DynamicRange     float32
	DynamicExponent  float32
	Repetition       float32
	Presence         float32
	Frequency        float32
	MaxBias          int32
}

func (op *Sample) args(held *holder) *C.quern_sample_args {
	args := (*C.quern_sample_args)(held.allocate(C.sizeof_quern_sample_args))
	args.size = C.sizeof_quern_sample_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.logits = op.Logits.raw()
	args.rows = op.Rows.raw()
	args.ids = op.Ids.raw()
	args.logprobs = op.Logprobs.raw()
	args.top_ids = op.TopIds.raw()
	args.top_logprobs = op.TopLogprobs.raw()
	args.status = op.Status.raw()
	args.seeds = op.Seeds.raw()
	args.offsets = op.Offsets.raw()
	args.temperatures = op.Temperatures.raw()
	args.top_ks = op.TopKs.raw()
	args.top_ps = op.TopPs.raw()
	args.min_ps = op.MinPs.raw()
	args.typical_ps = op.TypicalPs.raw()
	args.n_sigmas = op.NSigmas.raw()
	args.xtc_probabilities = op.XtcProbabilities.raw()
	args.xtc_thresholds = op.XtcThresholds.raw()
	args.dynamic_ranges = op.DynamicRanges.raw()
	args.dynamic_exponents = op.DynamicExponents.raw()
	args.repetitions = op.Repetitions.raw()
	args.presences = op.Presences.raw()
	args.frequencies = op.Frequencies.raw()
	args.prompt_mask = op.PromptMask.raw()
	args.prompt_tokens = op.PromptTokens.raw()
	args.prompt_lengths = op.PromptLengths.raw()
	args.output_counts = op.OutputCounts.raw()
	args.output_tokens = op.OutputTokens.raw()
	args.output_lengths = op.OutputLengths.raw()
	args.bias_offsets = op.BiasOffsets.raw()
	args.bias_ids = op.BiasIds.raw()
	args.bias_values = op.BiasValues.raw()
	args.allowed = op.Allowed.raw()
	args.banned = op.Banned.raw()
	args.seed = C.uint64_t(op.Seed)
	args.offset = C.uint64_t(op.Offset)
	args.temperature = C.float(op.Temperature)
	args.top_k = C.int32_t(op.TopK)
	args.top_p = C.float(op.TopP)
	args.min_p = C.float(op.MinP)
	args.typical_p = C.float(op.TypicalP)
	args.n_sigma = C.float(op.NSigma)
	args.xtc_probability = C.float(op.XtcProbability)
	args.xtc_threshold = C.float(op.XtcThreshold)
	args.dynamic_range = C.float(op.DynamicRange)
	args.dynamic_exponent = C.float(op.DynamicExponent)
	args.repetition = C.float(op.Repetition)
	args.presence = C.float(op.Presence)
	args.frequency = C.float(op.Frequency)
	args.max_bias = C.int32_t(op.MaxBias)
	return args
}

func (op *Sample) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_sample(context, args, failure)
}

func (op *Sample) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_sample_prepare(context, op.args(held), failure)
}

func (op *Sample) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_sample_workspace(context, op.args(held), size, failure)
}

// Gather is quern_gather.
type Gather struct {
	Flags     uint32
	Stream    unsafe.Pointer
	Alignment int32
	MaxSms    int32
	Table     *Tensor
	Ids       *Tensor
	Out       *Tensor
	First     int64
	Padding   int64
	Scale     float32
}

func (op *Gather) args(held *holder) *C.quern_gather_args {
	args := (*C.quern_gather_args)(held.allocate(C.sizeof_quern_gather_args))
	args.size = C.sizeof_quern_gather_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.table = op.Table.raw()
	args.ids = op.Ids.raw()
	args.out = op.Out.raw()
	args.first = C.int64_t(op.First)
	args.padding = C.int64_t(op.Padding)
	args.scale = C.float(op.Scale)
	return args
}

func (op *Gather) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_gather(context, args, failure)
}

func (op *Gather) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_gather_prepare(context, op.args(held), failure)
}

func (op *Gather) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_gather_workspace(context, op.args(held), size, failure)
}

// MlaAppend is quern_mla_append.
type MlaAppend struct {
	Flags       uint32
	Stream      unsafe.Pointer
	Alignment   int32
	MaxSms      int32
	Kv          *Tensor
	KRope       *Tensor
	Weight      *Tensor
	Cache       *Tensor
	CacheRope   *Tensor
	CacheScale  *Tensor
	Slots       *Tensor
	PageTable   *Tensor
	PageIndptr  *Tensor
	PageIndices *Tensor
	CuQ         *Tensor
	Lengths     *Tensor
	Positions   *Tensor
	QRope       *Tensor
	QRopeOut    *Tensor
	KvOut       *Tensor
	KRopeOut    *Tensor
	Status      *Tensor
	Rope        *RopeOptions
	Eps         float32
	DRope       int32
	CacheType   int32
}

func (op *MlaAppend) args(held *holder) *C.quern_mla_append_args {
	args := (*C.quern_mla_append_args)(held.allocate(C.sizeof_quern_mla_append_args))
	args.size = C.sizeof_quern_mla_append_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.kv = op.Kv.raw()
	args.k_rope = op.KRope.raw()
	args.weight = op.Weight.raw()
	args.cache = op.Cache.raw()
	args.cache_rope = op.CacheRope.raw()
	args.cache_scale = op.CacheScale.raw()
	args.slots = op.Slots.raw()
	args.page_table = op.PageTable.raw()
	args.page_indptr = op.PageIndptr.raw()
	args.page_indices = op.PageIndices.raw()
	args.cu_q = op.CuQ.raw()
	args.lengths = op.Lengths.raw()
	args.positions = op.Positions.raw()
	args.q_rope = op.QRope.raw()
	args.q_rope_out = op.QRopeOut.raw()
	args.kv_out = op.KvOut.raw()
	args.k_rope_out = op.KRopeOut.raw()
	args.status = op.Status.raw()
	args.rope = op.Rope.raw(held)
	args.eps = C.float(op.Eps)
	args.d_rope = C.int32_t(op.DRope)
	args.cache_type = C.int32_t(op.CacheType)
	return args
}

func (op *MlaAppend) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_mla_append(context, args, failure)
}

func (op *MlaAppend) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_mla_append_prepare(context, op.args(held), failure)
}

func (op *MlaAppend) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_mla_append_workspace(context, op.args(held), size, failure)
}

// IndexScores is quern_index_scores.
type IndexScores struct {
	Flags       uint32
	Stream      unsafe.Pointer
	Alignment   int32
	MaxSms      int32
	Q           *Tensor
	QScale      *Tensor
	Weights     *Tensor
	K           *Tensor
	KScale      *Tensor
	Out         *Tensor
	Lengths     *Tensor
	CuQ         *Tensor
	PageTable   *Tensor
	PageIndptr  *Tensor
	PageIndices *Tensor
	CuKv        *Tensor
	Status      *Tensor
	MaxQLen     int32
	QType       int32
}

func (op *IndexScores) args(held *holder) *C.quern_index_scores_args {
	args := (*C.quern_index_scores_args)(held.allocate(C.sizeof_quern_index_scores_args))
	args.size = C.sizeof_quern_index_scores_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.q = op.Q.raw()
	args.q_scale = op.QScale.raw()
	args.weights = op.Weights.raw()
	args.k = op.K.raw()
	args.k_scale = op.KScale.raw()
	args.out = op.Out.raw()
	args.lengths = op.Lengths.raw()
	args.cu_q = op.CuQ.raw()
	args.page_table = op.PageTable.raw()
	args.page_indptr = op.PageIndptr.raw()
	args.page_indices = op.PageIndices.raw()
	args.cu_kv = op.CuKv.raw()
	args.status = op.Status.raw()
	args.max_q_len = C.int32_t(op.MaxQLen)
	args.q_type = C.int32_t(op.QType)
	return args
}

func (op *IndexScores) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_index_scores(context, args, failure)
}

func (op *IndexScores) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_index_scores_prepare(context, op.args(held), failure)
}

func (op *IndexScores) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_index_scores_workspace(context, op.args(held), size, failure)
}

// Softmax is quern_softmax.
type Softmax struct {
	Flags        uint32
	Stream       unsafe.Pointer
	Alignment    int32
	MaxSms       int32
	Logits       *Tensor
	Temperatures *Tensor
	Out          *Tensor
	Status       *Tensor
	Temperature  float32
}

func (op *Softmax) args(held *holder) *C.quern_softmax_args {
	args := (*C.quern_softmax_args)(held.allocate(C.sizeof_quern_softmax_args))
	args.size = C.sizeof_quern_softmax_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.logits = op.Logits.raw()
	args.temperatures = op.Temperatures.raw()
	args.out = op.Out.raw()
	args.status = op.Status.raw()
	args.temperature = C.float(op.Temperature)
	return args
}

func (op *Softmax) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_softmax(context, args, failure)
}

func (op *Softmax) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_softmax_prepare(context, op.args(held), failure)
}

func (op *Softmax) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_softmax_workspace(context, op.args(held), size, failure)
}

// Argmax is quern_argmax.
type Argmax struct {
	Flags     uint32
	Stream    unsafe.Pointer
	Alignment int32
	MaxSms    int32
	Logits    *Tensor
	Ids       *Tensor
	Values    *Tensor
}

func (op *Argmax) args(held *holder) *C.quern_argmax_args {
	args := (*C.quern_argmax_args)(held.allocate(C.sizeof_quern_argmax_args))
	args.size = C.sizeof_quern_argmax_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.logits = op.Logits.raw()
	args.ids = op.Ids.raw()
	args.values = op.Values.raw()
	return args
}

func (op *Argmax) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_argmax(context, args, failure)
}

func (op *Argmax) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_argmax_prepare(context, op.args(held), failure)
}

func (op *Argmax) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_argmax_workspace(context, op.args(held), size, failure)
}

// TopK is quern_top_k.
type TopK struct {
	Flags     uint32
	Stream    unsafe.Pointer
	Alignment int32
	MaxSms    int32
	X         *Tensor
	Lengths   *Tensor
	Ids       *Tensor
	Values    *Tensor
}

func (op *TopK) args(held *holder) *C.quern_top_k_args {
	args := (*C.quern_top_k_args)(held.allocate(C.sizeof_quern_top_k_args))
	args.size = C.sizeof_quern_top_k_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.x = op.X.raw()
	args.lengths = op.Lengths.raw()
	args.ids = op.Ids.raw()
	args.values = op.Values.raw()
	return args
}

func (op *TopK) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_top_k(context, args, failure)
}

func (op *TopK) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_top_k_prepare(context, op.args(held), failure)
}

func (op *TopK) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_top_k_workspace(context, op.args(held), size, failure)
}

// Renormalise is quern_renormalise.
type Renormalise struct {
	Flags     uint32
	Stream    unsafe.Pointer
	Alignment int32
	MaxSms    int32
	Probs     *Tensor
	Out       *Tensor
	Status    *Tensor
	TopKs     *Tensor
	TopPs     *Tensor
	MinPs     *Tensor
	TopK      int32
	TopP      float32
	MinP      float32
}

func (op *Renormalise) args(held *holder) *C.quern_renormalise_args {
	args := (*C.quern_renormalise_args)(held.allocate(C.sizeof_quern_renormalise_args))
	args.size = C.sizeof_quern_renormalise_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.probs = op.Probs.raw()
	args.out = op.Out.raw()
	args.status = op.Status.raw()
	args.top_ks = op.TopKs.raw()
	args.top_ps = op.TopPs.raw()
	args.min_ps = op.MinPs.raw()
	args.top_k = C.int32_t(op.TopK)
	args.top_p = C.float(op.TopP)
	args.min_p = C.float(op.MinP)
	return args
}

func (op *Renormalise) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_renormalise(context, args, failure)
}

func (op *Renormalise) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_renormalise_prepare(context, op.args(held), failure)
}

func (op *Renormalise) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_renormalise_workspace(context, op.args(held), size, failure)
}

// VerifyDraft is quern_verify_draft.
type VerifyDraft struct {
	Flags         uint32
	Stream        unsafe.Pointer
	Alignment     int32
	MaxSms        int32
	Target        *Tensor
	Draft         *Tensor
	DraftIds      *Tensor
	Parents       *Tensor
	Lengths       *Tensor
	Accepted      *Tensor
	Ids           *Tensor
	Path          *Tensor
	Status        *Tensor
	Seeds         *Tensor
	Offsets       *Tensor
	Temperatures  *Tensor
	TopKs         *Tensor
	TopPs         *Tensor
	MinPs         *Tensor
	Seed          uint64
	Offset        uint64
	Temperature   float32
	TopK          int32
	TopP          float32
	MinP          float32
	Logprobs      *Tensor
	Repetitions   *Tensor
	Presences     *Tensor
	Frequencies   *Tensor
	PromptMask    *Tensor
	PromptTokens  *Tensor
	PromptLengths *Tensor
	OutputCounts  *Tensor
	OutputTokens  *Tensor
	OutputLengths *Tensor
	BiasOffsets   *Tensor
	BiasIds       *Tensor
	BiasValues    *Tensor
	Allowed       *Tensor
	Banned        *Tensor
	Repetition    float32
	Presence      float32
	Frequency     float32
	MaxBias       int32
}

func (op *VerifyDraft) args(held *holder) *C.quern_verify_draft_args {
	args := (*C.quern_verify_draft_args)(held.allocate(C.sizeof_quern_verify_draft_args))
	args.size = C.sizeof_quern_verify_draft_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.target = op.Target.raw()
	args.draft = op.Draft.raw()
	args.draft_ids = op.DraftIds.raw()
	args.parents = op.Parents.raw()
	args.lengths = op.Lengths.raw()
	args.accepted = op.Accepted.raw()
	args.ids = op.Ids.raw()
	args.path = op.Path.raw()
	args.status = op.Status.raw()
	args.seeds = op.Seeds.raw()
	args.offsets = op.Offsets.raw()
	args.temperatures = op.Temperatures.raw()
	args.top_ks = op.TopKs.raw()
	args.top_ps = op.TopPs.raw()
	args.min_ps = op.MinPs.raw()
	args.seed = C.uint64_t(op.Seed)
	args.offset = C.uint64_t(op.Offset)
	args.temperature = C.float(op.Temperature)
	args.top_k = C.int32_t(op.TopK)
	args.top_p = C.float(op.TopP)
	args.min_p = C.float(op.MinP)
	args.logprobs = op.Logprobs.raw()
	args.repetitions = op.Repetitions.raw()
	args.presences = op.Presences.raw()
	args.frequencies = op.Frequencies.raw()
	args.prompt_mask = op.PromptMask.raw()
	args.prompt_tokens = op.PromptTokens.raw()
	args.prompt_lengths = op.PromptLengths.raw()
	args.output_counts = op.OutputCounts.raw()
	args.output_tokens = op.OutputTokens.raw()
	args.output_lengths = op.OutputLengths.raw()
	args.bias_offsets = op.BiasOffsets.raw()
	args.bias_ids = op.BiasIds.raw()
	args.bias_values = op.BiasValues.raw()
	args.allowed = op.Allowed.raw()
	args.banned = op.Banned.raw()
	args.repetition = C.float(op.Repetition)
	args.presence = C.float(op.Presence)
	args.frequency = C.float(op.Frequency)
	args.max_bias = C.int32_t(op.MaxBias)
	return args
}

func (op *VerifyDraft) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_verify_draft(context, args, failure)
}

func (op *VerifyDraft) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_verify_draft_prepare(context, op.args(held), failure)
}

func (op *VerifyDraft) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_verify_draft_workspace(context, op.args(held), size, failure)
}

// Pointwise is quern_pointwise.
type Pointwise struct {
	Flags       uint32
	Stream      unsafe.Pointer
	Alignment   int32
	MaxSms      int32
	Operands    []*Tensor
	Out         *Tensor
	Out1        *Tensor
	Out2        *Tensor
	Out3        *Tensor
	Expression  *Expression
	Expression1 *Expression
	Expression2 *Expression
	Expression3 *Expression
	Scalars     []float32
}

func (op *Pointwise) args(held *holder) *C.quern_pointwise_args {
	args := (*C.quern_pointwise_args)(held.allocate(C.sizeof_quern_pointwise_args))
	args.size = C.sizeof_quern_pointwise_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.operand_count = C.uint32_t(len(op.Operands))
	args.operands = held.tensors(op.Operands)
	args.out = op.Out.raw()
	args.out1 = op.Out1.raw()
	args.out2 = op.Out2.raw()
	args.out3 = op.Out3.raw()
	args.expression = op.Expression.raw()
	args.expression1 = op.Expression1.raw()
	args.expression2 = op.Expression2.raw()
	args.expression3 = op.Expression3.raw()
	args.scalar_count = C.uint32_t(len(op.Scalars))
	args.scalars = held.floats(op.Scalars)
	return args
}

func (op *Pointwise) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_pointwise(context, args, failure)
}

func (op *Pointwise) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_pointwise_prepare(context, op.args(held), failure)
}

func (op *Pointwise) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_pointwise_workspace(context, op.args(held), size, failure)
}

// Copy is quern_copy.
type Copy struct {
	Flags     uint32
	Stream    unsafe.Pointer
	Alignment int32
	MaxSms    int32
	Inputs    []*Tensor
	Outputs   []*Tensor
	Fill      float64
}

func (op *Copy) args(held *holder) *C.quern_copy_args {
	args := (*C.quern_copy_args)(held.allocate(C.sizeof_quern_copy_args))
	args.size = C.sizeof_quern_copy_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.input_count = C.uint32_t(len(op.Inputs))
	args.inputs = held.tensors(op.Inputs)
	args.output_count = C.uint32_t(len(op.Outputs))
	args.outputs = held.tensors(op.Outputs)
	args.fill = C.double(op.Fill)
	return args
}

func (op *Copy) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_copy(context, args, failure)
}

func (op *Copy) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_copy_prepare(context, op.args(held), failure)
}

func (op *Copy) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_copy_workspace(context, op.args(held), size, failure)
}

// Norm is quern_norm.
type Norm struct {
	Flags       uint32
	Stream      unsafe.Pointer
	Alignment   int32
	MaxSms      int32
	X           *Tensor
	Residual    *Tensor
	Weight      *Tensor
	Bias        *Tensor
	Scale       *Tensor
	Shift       *Tensor
	Out         *Tensor
	ResidualOut *Tensor
	OutScale    *Tensor
	Dense       *Tensor
	Kind        int32
	Groups      int32
	ScaleKind   int32
	Type        int32
	Eps         float32
}

func (op *Norm) args(held *holder) *C.quern_norm_args {
	args := (*C.quern_norm_args)(held.allocate(C.sizeof_quern_norm_args))
	args.size = C.sizeof_quern_norm_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.x = op.X.raw()
	args.residual = op.Residual.raw()
	args.weight = op.Weight.raw()
	args.bias = op.Bias.raw()
	args.scale = op.Scale.raw()
	args.shift = op.Shift.raw()
	args.out = op.Out.raw()
	args.residual_out = op.ResidualOut.raw()
	args.out_scale = op.OutScale.raw()
	args.dense = op.Dense.raw()
	args.kind = C.int32_t(op.Kind)
	args.groups = C.int32_t(op.Groups)
	args.scale_kind = C.int32_t(op.ScaleKind)
	args._type = C.int32_t(op.Type)
	args.eps = C.float(op.Eps)
	return args
}

func (op *Norm) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_norm(context, args, failure)
}

func (op *Norm) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_norm_prepare(context, op.args(held), failure)
}

func (op *Norm) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_norm_workspace(context, op.args(held), size, failure)
}

// NormBackward is quern_norm_backward.
type NormBackward struct {
	Flags     uint32
	Stream    unsafe.Pointer
	Alignment int32
	MaxSms    int32
	Dout      *Tensor
	X         *Tensor
	Weight    *Tensor
	Add       *Tensor
	Dx        *Tensor
	Dweight   *Tensor
	Dbias     *Tensor
	Kind      int32
	Eps       float32
}

func (op *NormBackward) args(held *holder) *C.quern_norm_backward_args {
	args := (*C.quern_norm_backward_args)(held.allocate(C.sizeof_quern_norm_backward_args))
	args.size = C.sizeof_quern_norm_backward_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.dout = op.Dout.raw()
	args.x = op.X.raw()
	args.weight = op.Weight.raw()
	args.add = op.Add.raw()
	args.dx = op.Dx.raw()
	args.dweight = op.Dweight.raw()
	args.dbias = op.Dbias.raw()
	args.kind = C.int32_t(op.Kind)
	args.eps = C.float(op.Eps)
	return args
}

func (op *NormBackward) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_norm_backward(context, args, failure)
}

func (op *NormBackward) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_norm_backward_prepare(context, op.args(held), failure)
}

func (op *NormBackward) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_norm_backward_workspace(context, op.args(held), size, failure)
}

// Reduce is quern_reduce.
type Reduce struct {
	Flags      uint32
	Stream     unsafe.Pointer
	Alignment  int32
	MaxSms     int32
	X          *Tensor
	Y          *Tensor
	Before     *Expression
	Out        *Tensor
	Out1       *Tensor
	Out2       *Tensor
	Out3       *Tensor
	After      *Expression
	After1     *Expression
	After2     *Expression
	After3     *Expression
	Scalars    []float32
	Axes       uint32
	Reduction  int32
	Reduction1 int32
	Reduction2 int32
	Reduction3 int32
	Type       int32
}

func (op *Reduce) args(held *holder) *C.quern_reduce_args {
	args := (*C.quern_reduce_args)(held.allocate(C.sizeof_quern_reduce_args))
	args.size = C.sizeof_quern_reduce_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.x = op.X.raw()
	args.y = op.Y.raw()
	args.before = op.Before.raw()
	args.out = op.Out.raw()
	args.out1 = op.Out1.raw()
	args.out2 = op.Out2.raw()
	args.out3 = op.Out3.raw()
	args.after = op.After.raw()
	args.after1 = op.After1.raw()
	args.after2 = op.After2.raw()
	args.after3 = op.After3.raw()
	args.scalar_count = C.uint32_t(len(op.Scalars))
	args.scalars = held.floats(op.Scalars)
	args.axes = C.uint32_t(op.Axes)
	args.reduction = C.int32_t(op.Reduction)
	args.reduction1 = C.int32_t(op.Reduction1)
	args.reduction2 = C.int32_t(op.Reduction2)
	args.reduction3 = C.int32_t(op.Reduction3)
	args._type = C.int32_t(op.Type)
	return args
}

func (op *Reduce) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_reduce(context, args, failure)
}

func (op *Reduce) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_reduce_prepare(context, op.args(held), failure)
}

func (op *Reduce) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_reduce_workspace(context, op.args(held), size, failure)
}

// Scatter is quern_scatter.
type Scatter struct {
	Flags     uint32
	Stream    unsafe.Pointer
	Alignment int32
	MaxSms    int32
	X         *Tensor
	Ids       *Tensor
	Out       *Tensor
	First     int64
	Padding   int64
	Scale     float32
}

func (op *Scatter) args(held *holder) *C.quern_scatter_args {
	args := (*C.quern_scatter_args)(held.allocate(C.sizeof_quern_scatter_args))
	args.size = C.sizeof_quern_scatter_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.x = op.X.raw()
	args.ids = op.Ids.raw()
	args.out = op.Out.raw()
	args.first = C.int64_t(op.First)
	args.padding = C.int64_t(op.Padding)
	args.scale = C.float(op.Scale)
	return args
}

func (op *Scatter) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_scatter(context, args, failure)
}

func (op *Scatter) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_scatter_prepare(context, op.args(held), failure)
}

func (op *Scatter) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_scatter_workspace(context, op.args(held), size, failure)
}

// Histogram is quern_histogram.
type Histogram struct {
	Flags     uint32
	Stream    unsafe.Pointer
	Alignment int32
	MaxSms    int32
	X         *Tensor
	Counts    *Tensor
	First     int64
	Low       float32
	High      float32
}

func (op *Histogram) args(held *holder) *C.quern_histogram_args {
	args := (*C.quern_histogram_args)(held.allocate(C.sizeof_quern_histogram_args))
	args.size = C.sizeof_quern_histogram_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.x = op.X.raw()
	args.counts = op.Counts.raw()
	args.first = C.int64_t(op.First)
	args.low = C.float(op.Low)
	args.high = C.float(op.High)
	return args
}

func (op *Histogram) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_histogram(context, args, failure)
}

func (op *Histogram) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_histogram_prepare(context, op.args(held), failure)
}

func (op *Histogram) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_histogram_workspace(context, op.args(held), size, failure)
}

// Sort is quern_sort.
type Sort struct {
	Flags      uint32
	Stream     unsafe.Pointer
	Alignment  int32
	MaxSms     int32
	Keys       *Tensor
	Values     *Tensor
	Offsets    *Tensor
	KeysOut    *Tensor
	ValuesOut  *Tensor
	MaxSegment int64
}

func (op *Sort) args(held *holder) *C.quern_sort_args {
	args := (*C.quern_sort_args)(held.allocate(C.sizeof_quern_sort_args))
	args.size = C.sizeof_quern_sort_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.keys = op.Keys.raw()
	args.values = op.Values.raw()
	args.offsets = op.Offsets.raw()
	args.keys_out = op.KeysOut.raw()
	args.values_out = op.ValuesOut.raw()
	args.max_segment = C.int64_t(op.MaxSegment)
	return args
}

func (op *Sort) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_sort(context, args, failure)
}

func (op *Sort) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_sort_prepare(context, op.args(held), failure)
}

func (op *Sort) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_sort_workspace(context, op.args(held), size, failure)
}

// Conv1d is quern_conv1d.
type Conv1d struct {
	Flags     uint32
	Stream    unsafe.Pointer
	Alignment int32
	MaxSms    int32
	X         *Tensor
	Weight    *Tensor
	Bias      *Tensor
	Offsets   *Tensor
	State     *Tensor
	StateIds  *Tensor
	HasState  *Tensor
	Out       *Tensor
	Stride    int32
	Dilation  int32
	Groups    int32
	PadBegin  int32
	PadEnd    int32
}

func (op *Conv1d) args(held *holder) *C.quern_conv1d_args {
	args := (*C.quern_conv1d_args)(held.allocate(C.sizeof_quern_conv1d_args))
	args.size = C.sizeof_quern_conv1d_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.x = op.X.raw()
	args.weight = op.Weight.raw()
	args.bias = op.Bias.raw()
	args.offsets = op.Offsets.raw()
	args.state = op.State.raw()
	args.state_ids = op.StateIds.raw()
	args.has_state = op.HasState.raw()
	args.out = op.Out.raw()
	args.stride = C.int32_t(op.Stride)
	args.dilation = C.int32_t(op.Dilation)
	args.groups = C.int32_t(op.Groups)
	args.pad_begin = C.int32_t(op.PadBegin)
	args.pad_end = C.int32_t(op.PadEnd)
	return args
}

func (op *Conv1d) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_conv1d(context, args, failure)
}

func (op *Conv1d) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_conv1d_prepare(context, op.args(held), failure)
}

func (op *Conv1d) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_conv1d_workspace(context, op.args(held), size, failure)
}

// Nms is quern_nms.
type Nms struct {
	Flags          uint32
	Stream         unsafe.Pointer
	Alignment      int32
	MaxSms         int32
	Boxes          *Tensor
	Scores         *Tensor
	Classes        *Tensor
	Lengths        *Tensor
	Ids            *Tensor
	Counts         *Tensor
	IouThreshold   float32
	ScoreThreshold float32
}

func (op *Nms) args(held *holder) *C.quern_nms_args {
	args := (*C.quern_nms_args)(held.allocate(C.sizeof_quern_nms_args))
	args.size = C.sizeof_quern_nms_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.boxes = op.Boxes.raw()
	args.scores = op.Scores.raw()
	args.classes = op.Classes.raw()
	args.lengths = op.Lengths.raw()
	args.ids = op.Ids.raw()
	args.counts = op.Counts.raw()
	args.iou_threshold = C.float(op.IouThreshold)
	args.score_threshold = C.float(op.ScoreThreshold)
	return args
}

func (op *Nms) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_nms(context, args, failure)
}

func (op *Nms) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_nms_prepare(context, op.args(held), failure)
}

func (op *Nms) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_nms_workspace(context, op.args(held), size, failure)
}

// Conv2d is quern_conv2d.
type Conv2d struct {
	Flags      uint32
	Stream     unsafe.Pointer
	Alignment  int32
	MaxSms     int32
	X          *Tensor
	Weight     *Tensor
	Bias       *Tensor
	Out        *Tensor
	StrideH    int32
	StrideW    int32
	DilationH  int32
	DilationW  int32
	Groups     int32
	PadTop     int32
	PadBottom  int32
	PadLeft    int32
	PadRight   int32
	Activation int32
}

func (op *Conv2d) args(held *holder) *C.quern_conv2d_args {
	args := (*C.quern_conv2d_args)(held.allocate(C.sizeof_quern_conv2d_args))
	args.size = C.sizeof_quern_conv2d_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.x = op.X.raw()
	args.weight = op.Weight.raw()
	args.bias = op.Bias.raw()
	args.out = op.Out.raw()
	args.stride_h = C.int32_t(op.StrideH)
	args.stride_w = C.int32_t(op.StrideW)
	args.dilation_h = C.int32_t(op.DilationH)
	args.dilation_w = C.int32_t(op.DilationW)
	args.groups = C.int32_t(op.Groups)
	args.pad_top = C.int32_t(op.PadTop)
	args.pad_bottom = C.int32_t(op.PadBottom)
	args.pad_left = C.int32_t(op.PadLeft)
	args.pad_right = C.int32_t(op.PadRight)
	args.activation = C.int32_t(op.Activation)
	return args
}

func (op *Conv2d) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_conv2d(context, args, failure)
}

func (op *Conv2d) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_conv2d_prepare(context, op.args(held), failure)
}

func (op *Conv2d) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_conv2d_workspace(context, op.args(held), size, failure)
}

// QuantizedGemm is quern_quantized_gemm.
type QuantizedGemm struct {
	Flags        uint32
	Stream       unsafe.Pointer
	Alignment    int32
	MaxSms       int32
	A            *Tensor
	B            *Tensor
	ScaleA       *Tensor
	ScaleB       *Tensor
	ZeroB        *Tensor
	TensorScaleA *Tensor
	TensorScaleB *Tensor
	Out          *Tensor
	Epilogue     *Epilogue
	AFormat      int32
	BFormat      int32
	ScaleAType   int32
	ScaleBType   int32
}

func (op *QuantizedGemm) args(held *holder) *C.quern_quantized_gemm_args {
	args := (*C.quern_quantized_gemm_args)(held.allocate(C.sizeof_quern_quantized_gemm_args))
	args.size = C.sizeof_quern_quantized_gemm_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.a = op.A.raw()
	args.b = op.B.raw()
	args.scale_a = op.ScaleA.raw()
	args.scale_b = op.ScaleB.raw()
	args.zero_b = op.ZeroB.raw()
	args.tensor_scale_a = op.TensorScaleA.raw()
	args.tensor_scale_b = op.TensorScaleB.raw()
	args.out = op.Out.raw()
	args.epilogue = op.Epilogue.raw(held)
	args.a_format = C.int32_t(op.AFormat)
	args.b_format = C.int32_t(op.BFormat)
	args.scale_a_type = C.int32_t(op.ScaleAType)
	args.scale_b_type = C.int32_t(op.ScaleBType)
	return args
}

func (op *QuantizedGemm) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_quantized_gemm(context, args, failure)
}

func (op *QuantizedGemm) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_quantized_gemm_prepare(context, op.args(held), failure)
}

func (op *QuantizedGemm) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_quantized_gemm_workspace(context, op.args(held), size, failure)
}

// Fft is quern_fft.
type Fft struct {
	Flags     uint32
	Stream    unsafe.Pointer
	Alignment int32
	MaxSms    int32
	X         *Tensor
	Window    *Tensor
	Out       *Tensor
	N         int32
	Kind      int32
	Result    int32
	Scaling   int32
	Hop       int32
	PadBegin  int32
	PadEnd    int32
	Padding   int32
}

func (op *Fft) args(held *holder) *C.quern_fft_args {
	args := (*C.quern_fft_args)(held.allocate(C.sizeof_quern_fft_args))
	args.size = C.sizeof_quern_fft_args
	args.flags = C.uint32_t(op.Flags)
	args.stream = op.Stream
	args.alignment = C.int32_t(op.Alignment)
	args.max_sms = C.int32_t(op.MaxSms)
	args.x = op.X.raw()
	args.window = op.Window.raw()
	args.out = op.Out.raw()
	args.n = C.int32_t(op.N)
	args.kind = C.int32_t(op.Kind)
	args.result = C.int32_t(op.Result)
	args.scaling = C.int32_t(op.Scaling)
	args.hop = C.int32_t(op.Hop)
	args.pad_begin = C.int32_t(op.PadBegin)
	args.pad_end = C.int32_t(op.PadEnd)
	args.padding = C.int32_t(op.Padding)
	return args
}

func (op *Fft) run(context *C.quern_context, held *holder, memory unsafe.Pointer, size uint64, failure *C.quern_error) C.int32_t {
	args := op.args(held)
	args.workspace, args.workspace_size = memory, C.uint64_t(size)
	return C.quern_fft(context, args, failure)
}

func (op *Fft) prepare(context *C.quern_context, held *holder, failure *C.quern_error) C.int32_t {
	return C.quern_fft_prepare(context, op.args(held), failure)
}

func (op *Fft) workspace(context *C.quern_context, held *holder, size *C.uint64_t, failure *C.quern_error) C.int32_t {
	return C.quern_fft_workspace(context, op.args(held), size, failure)
}
