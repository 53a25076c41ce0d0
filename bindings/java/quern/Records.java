// What calls that are no ops' tell, and what they are given: the structs of quern.h, documented there. Made
// of quern.h by ./dev generate.
// SPDX-License-Identifier: Apache-2.0
package quern;

import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.function.Consumer;
import quern.Quern.Log;
import quern.Quern.Progress;
import quern.Quern.Struct;
import quern.Quern.Type;

public final class Records {
  private Records() {}

  /** quern_device_info. */
  public record DeviceInfo(
      int deviceType,
      int deviceId,
      int warpSize,
      int smCount,
      int sharedPerBlock,
      long l2Bytes,
      long memoryBytes,
      int driverVersion,
      String target,
      String name) {
    static final int BYTES = 168;

    static DeviceInfo of(MemorySegment from) {
      return new DeviceInfo(
          from.get(JAVA_INT, 4),
          from.get(JAVA_INT, 8),
          from.get(JAVA_INT, 12),
          from.get(JAVA_INT, 16),
          from.get(JAVA_INT, 20),
          from.get(JAVA_LONG, 24),
          from.get(JAVA_LONG, 32),
          from.get(JAVA_INT, 40),
          from.getString(48),
          from.getString(64));
    }
  }

  /** quern_stats. */
  public record Stats(
      long kernelsLoaded,
      long cacheHits,
      long cacheMisses,
      long compiled,
      long compileErrors,
      long rejected,
      long stored,
      long storeErrors,
      long flightWaits,
      long pending,
      double compileMs,
      double loadMs) {
    static final int BYTES = 104;

    static Stats of(MemorySegment from) {
      return new Stats(
          from.get(JAVA_LONG, 8),
          from.get(JAVA_LONG, 16),
          from.get(JAVA_LONG, 24),
          from.get(JAVA_LONG, 32),
          from.get(JAVA_LONG, 40),
          from.get(JAVA_LONG, 48),
          from.get(JAVA_LONG, 56),
          from.get(JAVA_LONG, 64),
          from.get(JAVA_LONG, 72),
          from.get(JAVA_LONG, 80),
          from.get(JAVA_DOUBLE, 88),
          from.get(JAVA_DOUBLE, 96));
    }
  }

  /** quern_event. */
  public record Event(
      int kind,
      String op,
      String target,
      String key,
      String text,
      double milliseconds,
      int status) {
    static final int BYTES = 56;

    static Event of(MemorySegment from) {
      return new Event(
          from.get(JAVA_INT, 4),
          Quern.string(from, 8),
          Quern.string(from, 16),
          Quern.string(from, 24),
          Quern.string(from, 32),
          from.get(JAVA_DOUBLE, 40),
          from.get(JAVA_INT, 48));
    }
  }

  /** quern_fault. */
  public record Fault(
      String op,
      String argument,
      String text,
      long call,
      long row,
      long column,
      long value,
      long least,
      long most) {
    static final int BYTES = 80;

    static Fault of(MemorySegment from) {
      return new Fault(
          Quern.string(from, 8),
          Quern.string(from, 16),
          Quern.string(from, 24),
          from.get(JAVA_LONG, 32),
          from.get(JAVA_LONG, 40),
          from.get(JAVA_LONG, 48),
          from.get(JAVA_LONG, 56),
          from.get(JAVA_LONG, 64),
          from.get(JAVA_LONG, 72));
    }
  }

  /** quern_warm_result. */
  public record WarmResult(
      int outcome,
      int status,
      int line,
      String op,
      String target,
      String key,
      String spec,
      String text,
      double milliseconds) {
    static final int BYTES = 64;

    static WarmResult of(MemorySegment from) {
      return new WarmResult(
          from.get(JAVA_INT, 4),
          from.get(JAVA_INT, 8),
          from.get(JAVA_INT, 12),
          Quern.string(from, 16),
          Quern.string(from, 24),
          Quern.string(from, 32),
          Quern.string(from, 40),
          Quern.string(from, 48),
          from.get(JAVA_DOUBLE, 56));
    }
  }

  /** quern_tune_result. */
  public record TuneResult(
      int outcome,
      int status,
      int line,
      String op,
      String product,
      String choice,
      String modelChoice,
      String text,
      long rows,
      double microseconds,
      double modelMicroseconds,
      int candidates) {
    static final int BYTES = 88;

    static TuneResult of(MemorySegment from) {
      return new TuneResult(
          from.get(JAVA_INT, 4),
          from.get(JAVA_INT, 8),
          from.get(JAVA_INT, 12),
          Quern.string(from, 16),
          Quern.string(from, 24),
          Quern.string(from, 32),
          Quern.string(from, 40),
          Quern.string(from, 48),
          from.get(JAVA_LONG, 56),
          from.get(JAVA_DOUBLE, 64),
          from.get(JAVA_DOUBLE, 72),
          from.get(JAVA_INT, 80));
    }
  }

  /** quern_entry. */
  public record Entry(
      int layer,
      String key,
      String op,
      String target,
      String entryName,
      String text,
      String compiler,
      String log,
      byte[] image,
      long imageSize,
      long created,
      long lastUse,
      double compileMs,
      int registers,
      int sharedBytes,
      int localBytes,
      int kind) {
    static final int BYTES = 120;

    static Entry of(MemorySegment from) {
      return new Entry(
          from.get(JAVA_INT, 4),
          Quern.string(from, 8),
          Quern.string(from, 16),
          Quern.string(from, 24),
          Quern.string(from, 32),
          Quern.string(from, 40),
          Quern.string(from, 48),
          Quern.string(from, 56),
          Quern.bytes(from, 64, 72),
          from.get(JAVA_LONG, 72),
          from.get(JAVA_LONG, 80),
          from.get(JAVA_LONG, 88),
          from.get(JAVA_DOUBLE, 96),
          from.get(JAVA_INT, 104),
          from.get(JAVA_INT, 108),
          from.get(JAVA_INT, 112),
          from.get(JAVA_INT, 116));
    }
  }

  /** quern_finding. */
  public record Finding(
      int status,
      String what,
      String text,
      String hint) {
    static final int BYTES = 32;

    static Finding of(MemorySegment from) {
      return new Finding(
          from.get(JAVA_INT, 4),
          Quern.string(from, 8),
          Quern.string(from, 16),
          Quern.string(from, 24));
    }
  }

  /** quern_trim_result. */
  public record TrimResult(
      long removed,
      long kept,
      long bytesBefore,
      long bytesAfter) {
    static final int BYTES = 40;

    static TrimResult of(MemorySegment from) {
      return new TrimResult(
          from.get(JAVA_LONG, 8),
          from.get(JAVA_LONG, 16),
          from.get(JAVA_LONG, 24),
          from.get(JAVA_LONG, 32));
    }
  }

  /** quern_cache_stats. */
  public record CacheStats(
      int state,
      long entries,
      long imageBytes,
      long fileBytes,
      long limit,
      long bundles,
      long bundleEntries,
      String path,
      String reason) {
    static final int BYTES = 2608;

    static CacheStats of(MemorySegment from) {
      return new CacheStats(
          from.get(JAVA_INT, 4),
          from.get(JAVA_LONG, 8),
          from.get(JAVA_LONG, 16),
          from.get(JAVA_LONG, 24),
          from.get(JAVA_LONG, 32),
          from.get(JAVA_LONG, 40),
          from.get(JAVA_LONG, 48),
          from.getString(56),
          from.getString(2104));
    }
  }

  /** quern_verify_result. */
  public record VerifyResult(
      int outcome,
      int status,
      int trials,
      String op,
      String target,
      String key,
      String spec,
      String text,
      double error,
      double truthError,
      double milliseconds) {
    static final int BYTES = 80;

    static VerifyResult of(MemorySegment from) {
      return new VerifyResult(
          from.get(JAVA_INT, 4),
          from.get(JAVA_INT, 8),
          from.get(JAVA_INT, 12),
          Quern.string(from, 16),
          Quern.string(from, 24),
          Quern.string(from, 32),
          Quern.string(from, 40),
          Quern.string(from, 48),
          from.get(JAVA_DOUBLE, 56),
          from.get(JAVA_DOUBLE, 64),
          from.get(JAVA_DOUBLE, 72));
    }
  }

  /** quern_kernel_info. */
  public record KernelInfo(
      int registers,
      int sharedBytes,
      int localBytes,
      int maxThreads,
      String key) {
    static final int BYTES = 64;

    static KernelInfo of(MemorySegment from) {
      return new KernelInfo(
          from.get(JAVA_INT, 4),
          from.get(JAVA_INT, 8),
          from.get(JAVA_INT, 12),
          from.get(JAVA_INT, 16),
          from.getString(24));
    }
  }

  /** quern_context_options. */
  public static final class ContextOptions extends Struct<ContextOptions> {
    static final int DEVICE_TYPE = 8;

    public ContextOptions() {
      super(192);
    }

    public ContextOptions flags(int value) {
      return integer(4, value);
    }

    public ContextOptions deviceType(int value) {
      return integer(8, value);
    }

    public ContextOptions deviceId(int value) {
      return integer(12, value);
    }

    public ContextOptions missPolicy(int value) {
      return integer(16, value);
    }

    public ContextOptions compileThreads(int value) {
      return integer(20, value);
    }

    public ContextOptions target(String value) {
      return text("target", 24, value);
    }

    public ContextOptions cachePath(String value) {
      return text("cachePath", 32, value);
    }

    public ContextOptions bundles(List<String> value) {
      return texts("bundles", 40, 48, value);
    }

    public ContextOptions searchDirs(List<String> value) {
      return texts("searchDirs", 56, 64, value);
    }

    public ContextOptions helperPath(String value) {
      return text("helperPath", 72, value);
    }

    public ContextOptions hostCompiler(String value) {
      return text("hostCompiler", 80, value);
    }

    public ContextOptions compilerPin(String value) {
      return text("compilerPin", 88, value);
    }

    public ContextOptions cacheLimit(long value) {
      return wide(96, value);
    }

    public ContextOptions compileTimeoutMs(int value) {
      return integer(104, value);
    }

    public ContextOptions flightTimeoutMs(int value) {
      return integer(108, value);
    }

    public ContextOptions hostSeed(long value) {
      return wide(112, value);
    }

    public ContextOptions hostThreads(int value) {
      return integer(120, value);
    }

    public ContextOptions logLevel(int value) {
      return integer(124, value);
    }

    public ContextOptions log(Log value) {
      return log(128, value);
    }

    public ContextOptions event(Consumer<Event> value) {
      return event(144, value);
    }

    public ContextOptions trustedKeys(List<String> value) {
      return texts("trustedKeys", 160, 168, value);
    }

    public ContextOptions cacheKey(String value) {
      return text("cacheKey", 176, value);
    }

    public ContextOptions maxKernels(long value) {
      return wide(184, value);
    }
  }

  /** quern_model. */
  public static final class Model extends Struct<Model> {
    public Model() {
      super(120);
    }

    public Model flags(int value) {
      return integer(4, value);
    }

    public Model tensorParallel(int value) {
      return integer(8, value);
    }

    public Model hiddenSize(int value) {
      return integer(12, value);
    }

    public Model intermediateSize(int value) {
      return integer(16, value);
    }

    public Model layers(int value) {
      return integer(20, value);
    }

    public Model heads(int value) {
      return integer(24, value);
    }

    public Model kvHeads(int value) {
      return integer(28, value);
    }

    public Model headDim(int value) {
      return integer(32, value);
    }

    public Model vHeadDim(int value) {
      return integer(36, value);
    }

    public Model vocabSize(int value) {
      return integer(40, value);
    }

    public Model maxPositions(int value) {
      return integer(44, value);
    }

    public Model slidingWindow(int value) {
      return integer(48, value);
    }

    public Model experts(int value) {
      return integer(52, value);
    }

    public Model expertsPerToken(int value) {
      return integer(56, value);
    }

    public Model expertIntermediateSize(int value) {
      return integer(60, value);
    }

    public Model kvLoraRank(int value) {
      return integer(64, value);
    }

    public Model qLoraRank(int value) {
      return integer(68, value);
    }

    public Model ropeHeadDim(int value) {
      return integer(72, value);
    }

    public Model pageSize(int value) {
      return integer(76, value);
    }

    public Model logitCap(float value) {
      return number(80, value);
    }

    public Model dtype(Type value) {
      return dtype(84, value);
    }

    public Model kvDtype(Type value) {
      return dtype(88, value);
    }

    public Model sharedExperts(int value) {
      return integer(92, value);
    }

    public Model activation(int value) {
      return integer(96, value);
    }

    public Model rotaryDim(int value) {
      return integer(100, value);
    }

    public Model finalLogitCap(float value) {
      return number(104, value);
    }

    public Model indexHeads(int value) {
      return integer(108, value);
    }

    public Model indexHeadDim(int value) {
      return integer(112, value);
    }

    public Model indexTopK(int value) {
      return integer(116, value);
    }
  }

  /** quern_warm_options. */
  public static final class WarmOptions extends Struct<WarmOptions> {
    public WarmOptions() {
      super(64);
    }

    public WarmOptions flags(int value) {
      return integer(4, value);
    }

    public WarmOptions targets(List<String> value) {
      return texts("targets", 8, 16, value);
    }

    public WarmOptions manifest(String value) {
      return text("manifest", 24, 32, value);
    }

    public WarmOptions model(Model value) {
      return part(40, value);
    }

    public WarmOptions progress(Progress<WarmResult> value) {
      return progress(48, value, WarmResult.BYTES, WarmResult::of);
    }
  }

  /** quern_tune_options. */
  public static final class TuneOptions extends Struct<TuneOptions> {
    public TuneOptions() {
      super(72);
    }

    public TuneOptions flags(int value) {
      return integer(4, value);
    }

    public TuneOptions manifest(String value) {
      return text("manifest", 8, 16, value);
    }

    public TuneOptions model(Model value) {
      return part(24, value);
    }

    public TuneOptions rows(long[] value) {
      return wides(32, 40, value);
    }

    public TuneOptions milliseconds(double value) {
      return wideNumber(48, value);
    }

    public TuneOptions progress(Progress<TuneResult> value) {
      return progress(56, value, TuneResult.BYTES, TuneResult::of);
    }
  }

  /** quern_trim_options. */
  public static final class TrimOptions extends Struct<TrimOptions> {
    public TrimOptions() {
      super(16);
    }

    public TrimOptions flags(int value) {
      return integer(4, value);
    }

    public TrimOptions limit(long value) {
      return wide(8, value);
    }
  }

  /** quern_verify_options. */
  public static final class VerifyOptions extends Struct<VerifyOptions> {
    public VerifyOptions() {
      super(40);
    }

    public VerifyOptions flags(int value) {
      return integer(4, value);
    }

    public VerifyOptions prefix(String value) {
      return text("prefix", 8, value);
    }

    public VerifyOptions seed(long value) {
      return wide(16, value);
    }

    public VerifyOptions progress(Progress<VerifyResult> value) {
      return progress(24, value, VerifyResult.BYTES, VerifyResult::of);
    }
  }
}
