// What calls that are no ops' tell, and what they are given: the structs of quern.h, documented there. Made
// of quern.h by ./dev generate.
// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;

namespace Quern {
  /// <summary>quern_device_info.</summary>
  public sealed class DeviceInfo {
    internal const int Bytes = 168;
    public readonly int DeviceType;
    public readonly int DeviceId;
    public readonly uint WarpSize;
    public readonly uint SmCount;
    public readonly uint SharedPerBlock;
    public readonly ulong L2Bytes;
    public readonly ulong MemoryBytes;
    public readonly uint DriverVersion;
    public readonly string Target;
    public readonly string Name;

    internal DeviceInfo(IntPtr from) {
      DeviceType = Read.Int(from, 4);
      DeviceId = Read.Int(from, 8);
      WarpSize = Read.Uint(from, 12);
      SmCount = Read.Uint(from, 16);
      SharedPerBlock = Read.Uint(from, 20);
      L2Bytes = Read.Ulong(from, 24);
      MemoryBytes = Read.Ulong(from, 32);
      DriverVersion = Read.Uint(from, 40);
      Target = Read.Inline(from, 48, 16);
      Name = Read.Inline(from, 64, 104);
    }
  }

  /// <summary>quern_stats.</summary>
  public sealed class Stats {
    internal const int Bytes = 104;
    public readonly ulong KernelsLoaded;
    public readonly ulong CacheHits;
    public readonly ulong CacheMisses;
    public readonly ulong Compiled;
    public readonly ulong CompileErrors;
    public readonly ulong Rejected;
    public readonly ulong Stored;
    public readonly ulong StoreErrors;
    public readonly ulong FlightWaits;
    public readonly ulong Pending;
    public readonly double CompileMs;
    public readonly double LoadMs;

    internal Stats(IntPtr from) {
      KernelsLoaded = Read.Ulong(from, 8);
      CacheHits = Read.Ulong(from, 16);
      CacheMisses = Read.Ulong(from, 24);
      Compiled = Read.Ulong(from, 32);
      CompileErrors = Read.Ulong(from, 40);
      Rejected = Read.Ulong(from, 48);
      Stored = Read.Ulong(from, 56);
      StoreErrors = Read.Ulong(from, 64);
      FlightWaits = Read.Ulong(from, 72);
      Pending = Read.Ulong(from, 80);
      CompileMs = Read.Double(from, 88);
      LoadMs = Read.Double(from, 96);
    }
  }

  /// <summary>quern_event.</summary>
  public sealed class Event {
    internal const int Bytes = 56;
    public readonly int Kind;
    public readonly string Op;
    public readonly string Target;
    public readonly string Key;
    public readonly string Text;
    public readonly double Milliseconds;
    public readonly int Status;

    internal Event(IntPtr from) {
      Kind = Read.Int(from, 4);
      Op = Read.Text(from, 8);
      Target = Read.Text(from, 16);
      Key = Read.Text(from, 24);
      Text = Read.Text(from, 32);
      Milliseconds = Read.Double(from, 40);
      Status = Read.Int(from, 48);
    }
  }

  /// <summary>quern_fault.</summary>
  public sealed class Fault {
    internal const int Bytes = 80;
    public readonly string Op;
    public readonly string Argument;
    public readonly string Text;
    public readonly ulong Call;
    public readonly long Row;
    public readonly long Column;
    public readonly long Value;
    public readonly long Least;
    public readonly long Most;

    internal Fault(IntPtr from) {
      Op = Read.Text(from, 8);
      Argument = Read.Text(from, 16);
      Text = Read.Text(from, 24);
      Call = Read.Ulong(from, 32);
      Row = Read.Long(from, 40);
      Column = Read.Long(from, 48);
      Value = Read.Long(from, 56);
      Least = Read.Long(from, 64);
      Most = Read.Long(from, 72);
    }
  }

  /// <summary>quern_warm_result.</summary>
  public sealed class WarmResult {
    internal const int Bytes = 64;
    public readonly int Outcome;
    public readonly int Status;
    public readonly uint Line;
    public readonly string Op;
    public readonly string Target;
    public readonly string Key;
    public readonly string Spec;
    public readonly string Text;
    public readonly double Milliseconds;

    internal WarmResult(IntPtr from) {
      Outcome = Read.Int(from, 4);
      Status = Read.Int(from, 8);
      Line = Read.Uint(from, 12);
      Op = Read.Text(from, 16);
      Target = Read.Text(from, 24);
      Key = Read.Text(from, 32);
      Spec = Read.Text(from, 40);
      Text = Read.Text(from, 48);
      Milliseconds = Read.Double(from, 56);
    }
  }

  /// <summary>quern_tune_result.</summary>
  public sealed class TuneResult {
    internal const int Bytes = 88;
    public readonly int Outcome;
    public readonly int Status;
    public readonly uint Line;
    public readonly string Op;
    public readonly string Product;
    public readonly string Choice;
    public readonly string ModelChoice;
    public readonly string Text;
    public readonly long Rows;
    public readonly double Microseconds;
    public readonly double ModelMicroseconds;
    public readonly uint Candidates;

    internal TuneResult(IntPtr from) {
      Outcome = Read.Int(from, 4);
      Status = Read.Int(from, 8);
      Line = Read.Uint(from, 12);
      Op = Read.Text(from, 16);
      Product = Read.Text(from, 24);
      Choice = Read.Text(from, 32);
      ModelChoice = Read.Text(from, 40);
      Text = Read.Text(from, 48);
      Rows = Read.Long(from, 56);
      Microseconds = Read.Double(from, 64);
      ModelMicroseconds = Read.Double(from, 72);
      Candidates = Read.Uint(from, 80);
    }
  }

  /// <summary>quern_entry.</summary>
  public sealed class Entry {
    internal const int Bytes = 120;
    public readonly int Layer;
    public readonly string Key;
    public readonly string Op;
    public readonly string Target;
    public readonly string EntryName;
    public readonly string Text;
    public readonly string Compiler;
    public readonly string Log;
    public readonly byte[] Image;
    public readonly ulong ImageSize;
    public readonly long Created;
    public readonly ulong LastUse;
    public readonly double CompileMs;
    public readonly int Registers;
    public readonly int SharedBytes;
    public readonly int LocalBytes;
    public readonly int Kind;

    internal Entry(IntPtr from) {
      Layer = Read.Int(from, 4);
      Key = Read.Text(from, 8);
      Op = Read.Text(from, 16);
      Target = Read.Text(from, 24);
      EntryName = Read.Text(from, 32);
      Text = Read.Text(from, 40);
      Compiler = Read.Text(from, 48);
      Log = Read.Text(from, 56);
      Image = Read.Memory(from, 64, 72);
      ImageSize = Read.Ulong(from, 72);
      Created = Read.Long(from, 80);
      LastUse = Read.Ulong(from, 88);
      CompileMs = Read.Double(from, 96);
      Registers = Read.Int(from, 104);
      SharedBytes = Read.Int(from, 108);
      LocalBytes = Read.Int(from, 112);
      Kind = Read.Int(from, 116);
    }
  }

  /// <summary>quern_finding.</summary>
  public sealed class Finding {
    internal const int Bytes = 32;
    public readonly int Status;
    public readonly string What;
    public readonly string Text;
    public readonly string Hint;

    internal Finding(IntPtr from) {
      Status = Read.Int(from, 4);
      What = Read.Text(from, 8);
      Text = Read.Text(from, 16);
      Hint = Read.Text(from, 24);
    }
  }

  /// <summary>quern_trim_result.</summary>
  public sealed class TrimResult {
    internal const int Bytes = 40;
    public readonly ulong Removed;
    public readonly ulong Kept;
    public readonly ulong BytesBefore;
    public readonly ulong BytesAfter;

    internal TrimResult(IntPtr from) {
      Removed = Read.Ulong(from, 8);
      Kept = Read.Ulong(from, 16);
      BytesBefore = Read.Ulong(from, 24);
      BytesAfter = Read.Ulong(from, 32);
    }
  }

  /// <summary>quern_cache_stats.</summary>
  public sealed class CacheStats {
    internal const int Bytes = 2608;
    public readonly int State;
    public readonly ulong Entries;
    public readonly ulong ImageBytes;
    public readonly ulong FileBytes;
    public readonly ulong Limit;
    public readonly ulong Bundles;
    public readonly ulong BundleEntries;
    public readonly string Path;
    public readonly string Reason;

    internal CacheStats(IntPtr from) {
      State = Read.Int(from, 4);
      Entries = Read.Ulong(from, 8);
      ImageBytes = Read.Ulong(from, 16);
      FileBytes = Read.Ulong(from, 24);
      Limit = Read.Ulong(from, 32);
      Bundles = Read.Ulong(from, 40);
      BundleEntries = Read.Ulong(from, 48);
      Path = Read.Inline(from, 56, 2048);
      Reason = Read.Inline(from, 2104, 504);
    }
  }

  /// <summary>quern_verify_result.</summary>
  public sealed class VerifyResult {
    internal const int Bytes = 80;
    public readonly int Outcome;
    public readonly int Status;
    public readonly uint Trials;
    public readonly string Op;
    public readonly string Target;
    public readonly string Key;
    public readonly string Spec;
    public readonly string Text;
    public readonly double Error;
    public readonly double TruthError;
    public readonly double Milliseconds;

    internal VerifyResult(IntPtr from) {
      Outcome = Read.Int(from, 4);
      Status = Read.Int(from, 8);
      Trials = Read.Uint(from, 12);
      Op = Read.Text(from, 16);
      Target = Read.Text(from, 24);
      Key = Read.Text(from, 32);
      Spec = Read.Text(from, 40);
      Text = Read.Text(from, 48);
      Error = Read.Double(from, 56);
      TruthError = Read.Double(from, 64);
      Milliseconds = Read.Double(from, 72);
    }
  }

  /// <summary>quern_kernel_info.</summary>
  public sealed class KernelInfo {
    internal const int Bytes = 64;
    public readonly int Registers;
    public readonly int SharedBytes;
    public readonly int LocalBytes;
    public readonly int MaxThreads;
    public readonly string Key;

    internal KernelInfo(IntPtr from) {
      Registers = Read.Int(from, 4);
      SharedBytes = Read.Int(from, 8);
      LocalBytes = Read.Int(from, 12);
      MaxThreads = Read.Int(from, 16);
      Key = Read.Inline(from, 24, 40);
    }
  }

  /// <summary>quern_context_options.</summary>
  public sealed class ContextOptions {
    public uint Flags;
    public DeviceType DeviceType;
    public int DeviceId;
    public int MissPolicy;
    public int CompileThreads;
    public string Target;
    public string CachePath;
    public IList<string> Bundles;
    public IList<string> SearchDirs;
    public string HelperPath;
    public string HostCompiler;
    public string CompilerPin;
    public ulong CacheLimit;
    public uint CompileTimeoutMs;
    public uint FlightTimeoutMs;
    public ulong HostSeed;
    public uint HostThreads;
    public int LogLevel;
    public Action<int, string> Log;
    public Action<Event> Event;
    public IList<string> TrustedKeys;
    public string CacheKey;
    public ulong MaxKernels;

    internal IntPtr Write(Held held) {
      var place = held.Struct(192);
      held.Put(place, Flags, 4);
      held.Put(place, (int)DeviceType, 8);
      held.Put(place, DeviceId, 12);
      held.Put(place, MissPolicy, 16);
      held.Put(place, CompileThreads, 20);
      held.Text(place, "Target", Target, 24);
      held.Text(place, "CachePath", CachePath, 32);
      held.Texts(place, "Bundles", Bundles, 40, 48);
      held.Texts(place, "SearchDirs", SearchDirs, 56, 64);
      held.Text(place, "HelperPath", HelperPath, 72);
      held.Text(place, "HostCompiler", HostCompiler, 80);
      held.Text(place, "CompilerPin", CompilerPin, 88);
      held.Put(place, CacheLimit, 96);
      held.Put(place, CompileTimeoutMs, 104);
      held.Put(place, FlightTimeoutMs, 108);
      held.Put(place, HostSeed, 112);
      held.Put(place, HostThreads, 120);
      held.Put(place, LogLevel, 124);
      held.Log(place, Log, 128);
      held.Event(place, Event, 144);
      held.Texts(place, "TrustedKeys", TrustedKeys, 160, 168);
      held.Text(place, "CacheKey", CacheKey, 176);
      held.Put(place, MaxKernels, 184);
      return place;
    }
  }

  /// <summary>quern_model.</summary>
  public sealed class Model {
    public uint Flags;
    public uint TensorParallel;
    public uint HiddenSize;
    public uint IntermediateSize;
    public uint Layers;
    public uint Heads;
    public uint KvHeads;
    public uint HeadDim;
    public uint VHeadDim;
    public uint VocabSize;
    public uint MaxPositions;
    public uint SlidingWindow;
    public uint Experts;
    public uint ExpertsPerToken;
    public uint ExpertIntermediateSize;
    public uint KvLoraRank;
    public uint QLoraRank;
    public uint RopeHeadDim;
    public uint PageSize;
    public float LogitCap;
    public ElementType? Dtype;
    public ElementType? KvDtype;
    public uint SharedExperts;
    public int Activation;
    public uint RotaryDim;
    public float FinalLogitCap;
    public uint IndexHeads;
    public uint IndexHeadDim;
    public uint IndexTopK;

    internal IntPtr Write(Held held) {
      var place = held.Struct(120);
      held.Put(place, Flags, 4);
      held.Put(place, TensorParallel, 8);
      held.Put(place, HiddenSize, 12);
      held.Put(place, IntermediateSize, 16);
      held.Put(place, Layers, 20);
      held.Put(place, Heads, 24);
      held.Put(place, KvHeads, 28);
      held.Put(place, HeadDim, 32);
      held.Put(place, VHeadDim, 36);
      held.Put(place, VocabSize, 40);
      held.Put(place, MaxPositions, 44);
      held.Put(place, SlidingWindow, 48);
      held.Put(place, Experts, 52);
      held.Put(place, ExpertsPerToken, 56);
      held.Put(place, ExpertIntermediateSize, 60);
      held.Put(place, KvLoraRank, 64);
      held.Put(place, QLoraRank, 68);
      held.Put(place, RopeHeadDim, 72);
      held.Put(place, PageSize, 76);
      held.Put(place, LogitCap, 80);
      held.Dtype(place, Dtype, 84);
      held.Dtype(place, KvDtype, 88);
      held.Put(place, SharedExperts, 92);
      held.Put(place, Activation, 96);
      held.Put(place, RotaryDim, 100);
      held.Put(place, FinalLogitCap, 104);
      held.Put(place, IndexHeads, 108);
      held.Put(place, IndexHeadDim, 112);
      held.Put(place, IndexTopK, 116);
      return place;
    }
  }

  /// <summary>quern_warm_options.</summary>
  public sealed class WarmOptions {
    public uint Flags;
    public IList<string> Targets;
    public string Manifest;
    public Model Model;
    public Func<ulong, ulong, WarmResult, bool> Progress;

    internal IntPtr Write(Held held) {
      var place = held.Struct(64);
      held.Put(place, Flags, 4);
      held.Texts(place, "Targets", Targets, 8, 16);
      held.Text(place, "Manifest", Manifest, 24, 32);
      held.Part(place, Model?.Write(held), 40);
      held.Progress(place, Progress, 48, from => new WarmResult(from));
      return place;
    }
  }

  /// <summary>quern_tune_options.</summary>
  public sealed class TuneOptions {
    public uint Flags;
    public string Manifest;
    public Model Model;
    public IList<long> Rows;
    public double Milliseconds;
    public Func<ulong, ulong, TuneResult, bool> Progress;

    internal IntPtr Write(Held held) {
      var place = held.Struct(72);
      held.Put(place, Flags, 4);
      held.Text(place, "Manifest", Manifest, 8, 16);
      held.Part(place, Model?.Write(held), 24);
      held.Numbers(place, Rows, 32, 40);
      held.Put(place, Milliseconds, 48);
      held.Progress(place, Progress, 56, from => new TuneResult(from));
      return place;
    }
  }

  /// <summary>quern_trim_options.</summary>
  public sealed class TrimOptions {
    public uint Flags;
    public ulong Limit;

    internal IntPtr Write(Held held) {
      var place = held.Struct(16);
      held.Put(place, Flags, 4);
      held.Put(place, Limit, 8);
      return place;
    }
  }

  /// <summary>quern_verify_options.</summary>
  public sealed class VerifyOptions {
    public uint Flags;
    public string Prefix;
    public ulong Seed;
    public Func<ulong, ulong, VerifyResult, bool> Progress;

    internal IntPtr Write(Held held) {
      var place = held.Struct(40);
      held.Put(place, Flags, 4);
      held.Text(place, "Prefix", Prefix, 8);
      held.Put(place, Seed, 16);
      held.Progress(place, Progress, 24, from => new VerifyResult(from));
      return place;
    }
  }

  /// <summary>Where the fields of the structs lie that Kernel.cs fills.</summary>
  internal static class Layout {
    internal const int SourceBytes = 32;
    internal const int SourceSize = 0;
    internal const int SourceReserved = 4;
    internal const int SourceName = 8;
    internal const int SourceText = 16;
    internal const int SourceLength = 24;
    internal const int ConstantBytes = 24;
    internal const int ConstantSize = 0;
    internal const int ConstantReserved = 4;
    internal const int ConstantName = 8;
    internal const int ConstantValue = 16;
    internal const int KernelDescBytes = 88;
    internal const int KernelDescSize = 0;
    internal const int KernelDescFlags = 4;
    internal const int KernelDescEntry = 8;
    internal const int KernelDescSource = 16;
    internal const int KernelDescHeaders = 24;
    internal const int KernelDescHeaderCount = 32;
    internal const int KernelDescConstants = 40;
    internal const int KernelDescConstantCount = 48;
    internal const int KernelDescOptions = 56;
    internal const int KernelDescOptionCount = 64;
    internal const int KernelDescTarget = 72;
    internal const int KernelDescMaxSharedBytes = 80;
    internal const int KernelDescReserved = 84;
    internal const int LaunchBytes = 72;
    internal const int LaunchSize = 0;
    internal const int LaunchFlags = 4;
    internal const int LaunchStream = 8;
    internal const int LaunchGridX = 16;
    internal const int LaunchGridY = 20;
    internal const int LaunchGridZ = 24;
    internal const int LaunchBlockX = 28;
    internal const int LaunchBlockY = 32;
    internal const int LaunchBlockZ = 36;
    internal const int LaunchClusterX = 40;
    internal const int LaunchClusterY = 44;
    internal const int LaunchClusterZ = 48;
    internal const int LaunchSharedBytes = 52;
    internal const int LaunchArgs = 56;
    internal const int LaunchArgCount = 64;
  }
}
