// quern by Java's foreign functions (Java 22 and later): contexts, tensors, errors, and how an op's arguments get into
// its struct; warming, the cache and kernels of one's own. The ops are in Ops.java, what calls tell in Records.java.
// SPDX-License-Identifier: Apache-2.0
package quern;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.ref.Reference;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.function.Function;

public final class Quern {
  /** DLPack's device types. */
  public static final int CPU = 1, CUDA = 2, ROCM = 10;

  private static final long ALIGNMENT = 256;
  private static final Linker LINKER = Linker.nativeLinker();
  private static final SymbolLookup LIBRARY = open();
  private static final Map<String, MethodHandle> FUNCTIONS = new ConcurrentHashMap<>();

  private Quern() {}

  // QUERN_LIBRARY, a full path, else libquern.so.1 where the system finds libraries.
  private static SymbolLookup open() {
    String named = System.getenv("QUERN_LIBRARY");
    return SymbolLookup.libraryLookup(named == null || named.isEmpty() ? "libquern.so.1" : named, Arena.global());
  }

  private static MethodHandle function(String name, FunctionDescriptor described) {
    return FUNCTIONS.computeIfAbsent(name, key -> {
      MemorySegment address = LIBRARY.find(name)
          .orElseThrow(() -> new UnsupportedOperationException("this libquern has no " + name));
      return LINKER.downcallHandle(address, described);
    });
  }

  private static FunctionDescriptor pointers(int count) {
    MemoryLayout[] parameters = new MemoryLayout[count];
    Arrays.fill(parameters, ADDRESS);
    return FunctionDescriptor.of(JAVA_INT, parameters);
  }

  private static MemorySegment blank() {
    MemorySegment error = Arena.ofAuto().allocate(Ops.Layout.ERROR_BYTES, 8);
    error.set(JAVA_INT, 0, Ops.Layout.ERROR_BYTES);
    return error;
  }

  private static void check(int status, MemorySegment error) {
    if (status != 0) {
      throw new Failure(status, error.get(JAVA_LONG, Ops.Layout.ERROR_NATIVE), error.getString(Ops.Layout.ERROR_TEXT));
    }
  }

  // A function of quern.h that returns a status and takes a quern_error last.
  static void call(String name, MemorySegment... pointers) {
    MemorySegment error = blank();
    MethodHandle function = function(name, pointers(pointers.length + 1));
    int status;
    try {
      status = switch (pointers.length) {
        case 1 -> (int) function.invokeExact(pointers[0], error);
        case 2 -> (int) function.invokeExact(pointers[0], pointers[1], error);
        case 3 -> (int) function.invokeExact(pointers[0], pointers[1], pointers[2], error);
        case 4 -> (int) function.invokeExact(pointers[0], pointers[1], pointers[2], pointers[3], error);
        default -> throw new IllegalArgumentException(name);
      };
    } catch (RuntimeException | Error thrown) {
      throw thrown;
    } catch (Throwable thrown) {
      throw new IllegalStateException(name, thrown);
    }
    check(status, error);
  }

  // Any other function of quern.h.
  private static Object call(String name, FunctionDescriptor described, Object... arguments) {
    try {
      return function(name, described).invokeWithArguments(arguments);
    } catch (RuntimeException | Error thrown) {
      throw thrown;
    } catch (Throwable thrown) {
      throw new IllegalStateException(name, thrown);
    }
  }

  static String string(MemorySegment from, long offset) {
    return string(from.get(ADDRESS, offset));
  }

  private static String string(MemorySegment text) {
    return text.address() == 0 ? "" : text.reinterpret(Long.MAX_VALUE).getString(0);
  }

  // null for what is asked for by key alone.
  static byte[] bytes(MemorySegment from, long offset, long size) {
    MemorySegment start = from.get(ADDRESS, offset);
    return start.address() == 0 ? null : start.reinterpret(from.get(JAVA_LONG, size)).toArray(JAVA_BYTE);
  }

  // A string as C takes it; null as NULL.
  static MemorySegment text(Arena arena, String argument, String value) {
    if (value == null) {
      return MemorySegment.NULL;
    }
    if (value.indexOf(0) >= 0) {
      throw new IllegalArgumentException(
          argument + ": a NUL given at character " + value.indexOf(0) + "; allowed is text without one");
    }
    return arena.allocateFrom(value);
  }

  /** Called for every line of a context's log, by threads of the library's, too. */
  @FunctionalInterface
  public interface Log {
    void told(int level, String text);
  }

  /** Called on the calling thread for each result as it is done; true cancels. */
  @FunctionalInterface
  public interface Progress<Result> {
    boolean told(long done, long total, Result result);
  }

  // What the library calls. Nothing may be thrown into C.
  private static final class Callback<Result> {
    private static final FunctionDescriptor LOG = FunctionDescriptor.ofVoid(ADDRESS, JAVA_INT, ADDRESS);
    private static final FunctionDescriptor EVENT = FunctionDescriptor.ofVoid(ADDRESS, ADDRESS);
    private static final FunctionDescriptor PROGRESS =
        FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG, ADDRESS);
    private final Progress<Result> told;
    private final int bytes;
    private final Function<MemorySegment, Result> read;
    private Throwable thrown;

    Callback(Progress<Result> told, int bytes, Function<MemorySegment, Result> read) {
      this.told = told;
      this.bytes = bytes;
      this.read = read;
    }

    int progress(MemorySegment user, long done, long total, MemorySegment result) {
      if (thrown != null) {
        return 1;
      }
      try {
        return told.told(done, total, read.apply(result.reinterpret(bytes))) ? 1 : 0;
      } catch (Throwable any) {
        thrown = any;
        return 1;
      }
    }

    void log(MemorySegment user, int level, MemorySegment text) {
      tell(level, text);
    }

    void event(MemorySegment user, MemorySegment event) {
      tell(0, event);
    }

    private void tell(int level, MemorySegment what) {
      try {
        told.told(level, 0, read.apply(what.reinterpret(bytes)));
      } catch (Throwable any) {
        Thread thread = Thread.currentThread();
        thread.getUncaughtExceptionHandler().uncaughtException(thread, any);
      }
    }

    MemorySegment stub(String method, FunctionDescriptor described, Arena arena) {
      try {
        MethodHandle handle = MethodHandles.lookup().findVirtual(Callback.class, method, described.toMethodType());
        return LINKER.upcallStub(handle.bindTo(this), described, arena);
      } catch (ReflectiveOperationException impossible) {
        throw new IllegalStateException(impossible);
      }
    }

    void rethrow() {
      Throwable told = thrown;
      thrown = null;
      if (told instanceof Error error) {
        throw error;
      }
      if (told instanceof RuntimeException failure) {
        throw failure;
      }
      if (told != null) {
        throw new IllegalStateException("progress", told);
      }
    }
  }

  /** What a call was refused for or failed at. */
  public static final class Failure extends RuntimeException {
    private static final long serialVersionUID = 1;
    /** One of quern.h's QUERN_INVALID and so on: Ops.Constants. */
    public final int status;
    /** The driver's, compiler's or system's own code, 0 if none. */
    public final long nativeCode;
    /** What there is of a list that the call was to give: with PARTIAL and DAMAGED. */
    public transient List<?> results = List.of();

    Failure(int status, long nativeCode, String text) {
      super(text);
      this.status = status;
      this.nativeCode = nativeCode;
    }
  }

  /** Element types by their DLPack code and bits. */
  public enum Type {
    F16(2, 16), F32(2, 32), BF16(4, 16), E4M3(10, 8), E5M2(12, 8), I8(0, 8), I32(0, 32), I64(0, 64), U8(1, 8),
    BOOL(6, 8), I16(0, 16), U32(1, 32);

    final int code;
    final int bits;

    Type(int code, int bits) {
      this.code = code;
      this.bits = bits;
    }
  }

  /** A tensor: a DLTensor over memory that it has, or over a device's, which is the caller's. */
  public static final class Tensor {
    private final MemorySegment memory;
    private final MemorySegment struct;

    private Tensor(MemorySegment memory, int device, int ordinal, Type type, long[] shape, long[] strides) {
      if (strides != null && strides.length != shape.length) {
        throw new IllegalArgumentException("strides: " + strides.length + " given for " + shape.length + " dimensions");
      }
      Arena arena = Arena.ofAuto();
      this.memory = memory;
      struct = arena.allocate(Ops.Layout.DLTENSOR_BYTES, 8);
      MemorySegment extents = arena.allocate(16L * shape.length + 8, 8);
      for (int i = 0; i < shape.length; ++i) {
        extents.setAtIndex(JAVA_LONG, i, shape[i]);
        if (strides != null) {
          extents.setAtIndex(JAVA_LONG, shape.length + i, strides[i]);
        }
      }
      struct.set(ADDRESS, Ops.Layout.DLTENSOR_DATA, memory);
      struct.set(JAVA_INT, Ops.Layout.DLTENSOR_DEVICE, device);
      struct.set(JAVA_INT, Ops.Layout.DLTENSOR_DEVICE + 4, ordinal);
      struct.set(JAVA_INT, Ops.Layout.DLTENSOR_NDIM, shape.length);
      struct.set(JAVA_INT, Ops.Layout.DLTENSOR_DTYPE, type.code | type.bits << 8 | 1 << 16);
      struct.set(ADDRESS, Ops.Layout.DLTENSOR_SHAPE, extents);
      if (strides != null) {
        struct.set(ADDRESS, Ops.Layout.DLTENSOR_STRIDES, extents.asSlice(8L * shape.length));
      }
    }

    /** Zeros in memory of its own, which lives as long as it is reachable. */
    public static Tensor zeros(Type type, long... shape) {
      long count = 1;
      for (long extent : shape) {
        count = Math.multiplyExact(count, extent);
      }
      long bytes = Math.max(1, Math.multiplyExact(count, type.bits) / 8);
      return new Tensor(Arena.ofAuto().allocate(bytes, ALIGNMENT), CPU, 0, type, shape, null);
    }

    /** Memory of a device; strides in elements, or null: compact. */
    public static Tensor at(long address, int device, int ordinal, Type type, long[] shape, long[] strides) {
      return new Tensor(MemorySegment.ofAddress(address), device, ordinal, type, shape, strides);
    }

    /** The same memory in another shape; it must be compact. */
    public Tensor reshape(Type type, long... shape) {
      return new Tensor(memory, struct.get(JAVA_INT, Ops.Layout.DLTENSOR_DEVICE),
          struct.get(JAVA_INT, Ops.Layout.DLTENSOR_DEVICE + 4), type, shape, null);
    }

    public MemorySegment memory() {
      return memory;
    }
  }

  /** A formula, checked, of one context: quern_expression_create. */
  public static final class Expression {
    private final MemorySegment handle;

    private Expression(MemorySegment handle) {
      this.handle = handle;
    }
  }

  /** A struct of quern.h that begins with its size, and what it points to. */
  public abstract static class Struct<Self extends Struct<Self>> {
    final MemorySegment memory;
    private final Arena arena = Arena.ofAuto();
    private final List<Object> held = new ArrayList<>();
    private Callback<?> progress;

    protected Struct(int size) {
      memory = arena.allocate(size, 16);
      memory.set(JAVA_INT, 0, size);
    }

    /** Goes on with what a callback has thrown. */
    void rethrow() {
      if (progress != null) {
        progress.rethrow();
      }
    }

    @SuppressWarnings("unchecked")
    private Self self() {
      return (Self) this;
    }

    protected Self tensor(long offset, Tensor value) {
      held.add(value);
      memory.set(ADDRESS, offset, value == null ? MemorySegment.NULL : value.struct);
      return self();
    }

    protected Self tensors(long offset, long count, List<Tensor> values) {
      MemorySegment pointers = arena.allocate(8L * values.size() + 8, 8);
      for (int i = 0; i < values.size(); ++i) {
        held.add(values.get(i));
        pointers.setAtIndex(ADDRESS, i, values.get(i) == null ? MemorySegment.NULL : values.get(i).struct);
      }
      memory.set(ADDRESS, offset, pointers);
      memory.set(JAVA_INT, count, values.size());
      return self();
    }

    protected Self numbers(long offset, long count, float[] values) {
      memory.set(ADDRESS, offset, arena.allocateFrom(JAVA_FLOAT, values));
      memory.set(JAVA_INT, count, values.length);
      return self();
    }

    protected Self integer(long offset, int value) {
      memory.set(JAVA_INT, offset, value);
      return self();
    }

    protected Self wide(long offset, long value) {
      memory.set(JAVA_LONG, offset, value);
      return self();
    }

    protected Self number(long offset, float value) {
      memory.set(JAVA_FLOAT, offset, value);
      return self();
    }

    protected Self wideNumber(long offset, double value) {
      memory.set(JAVA_DOUBLE, offset, value);
      return self();
    }

    protected Self expression(long offset, Expression value) {
      memory.set(ADDRESS, offset, value.handle);
      return self();
    }

    protected Self part(long offset, Struct<?> value) {
      held.add(value);
      memory.set(ADDRESS, offset, value.memory);
      return self();
    }

    protected Self text(String argument, long offset, String value) {
      memory.set(ADDRESS, offset, Quern.text(arena, argument, value));
      return self();
    }

    protected Self text(String argument, long offset, long length, String value) {
      memory.set(JAVA_LONG, length, value == null ? 0 : value.getBytes(StandardCharsets.UTF_8).length);
      return text(argument, offset, value);
    }

    protected Self texts(String argument, long offset, long count, List<String> values) {
      MemorySegment pointers = arena.allocate(8L * values.size() + 8, 8);
      for (int i = 0; i < values.size(); ++i) {
        pointers.setAtIndex(ADDRESS, i, Quern.text(arena, argument + "[" + i + "]", values.get(i)));
      }
      memory.set(ADDRESS, offset, pointers);
      memory.set(JAVA_LONG, count, values.size());
      return self();
    }

    protected Self wides(long offset, long count, long[] values) {
      memory.set(ADDRESS, offset, arena.allocateFrom(JAVA_LONG, values));
      memory.set(JAVA_LONG, count, values.length);
      return self();
    }

    protected Self dtype(long offset, Type value) {
      return integer(offset, value.code | value.bits << 8 | 1 << 16);
    }

    // A callback lives as long as the struct's memory.
    protected Self log(long offset, Log value) {
      Callback<String> made = new Callback<>((level, none, text) -> {
        value.told((int) level, text);
        return false;
      }, 0, Quern::string);
      memory.set(ADDRESS, offset, made.stub("log", Callback.LOG, arena));
      return self();
    }

    protected Self event(long offset, Consumer<Records.Event> value) {
      Callback<Records.Event> made = new Callback<>((none, nothing, event) -> {
        value.accept(event);
        return false;
      }, Records.Event.BYTES, Records.Event::of);
      memory.set(ADDRESS, offset, made.stub("event", Callback.EVENT, arena));
      return self();
    }

    protected <Result> Self progress(
        long offset, Progress<Result> value, int bytes, Function<MemorySegment, Result> read) {
      Callback<Result> made = new Callback<>(value, bytes, read);
      progress = made;
      memory.set(ADDRESS, offset, made.stub("progress", Callback.PROGRESS, arena));
      return self();
    }
  }

  /** An op's arguments. */
  public abstract static class Op<Self extends Op<Self>> extends Struct<Self> {
    private static final long STREAM = 8, WORKSPACE = 16, WORKSPACE_SIZE = 24;
    final String name;

    protected Op(String name, int size) {
      super(size);
      this.name = name;
    }

    /** A CUstream or hipStream_t; without, the default stream. */
    public Self stream(long handle) {
      return wide(STREAM, handle);
    }

    /** On the device, 256-byte aligned, zeroed once; without, a context on the host keeps one. */
    public Self workspace(long address, long bytes) {
      wide(WORKSPACE, address);
      return wide(WORKSPACE_SIZE, bytes);
    }

    boolean hasWorkspace() {
      return memory.get(JAVA_LONG, WORKSPACE) != 0;
    }

    void keep(MemorySegment workspace, long bytes) {
      workspace(workspace.address(), bytes);
    }
  }

  /** One device and its kernels. To be closed when no call is in flight. */
  public static final class Context implements AutoCloseable {
    private final int device;
    private final ThreadLocal<MemorySegment> kept = new ThreadLocal<>();
    private final Records.ContextOptions options; // has the callbacks
    private MemorySegment handle;

    /** device: CPU (the `host` target), CUDA or ROCM. cachePath: a folder, or null. */
    public Context(int device, int ordinal, String cachePath) {
      this(new Records.ContextOptions().deviceType(device).deviceId(ordinal).cachePath(cachePath));
    }

    /** With everything that quern_context_options has. */
    public Context(Records.ContextOptions options) {
      this.options = options;
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment made = arena.allocate(ADDRESS);
        call("quern_context_create", options.memory, made);
        handle = made.get(ADDRESS, 0);
      }
      device = options.memory.get(JAVA_INT, Records.ContextOptions.DEVICE_TYPE);
    }

    /** Launches an op; on a GPU it returns before the kernel has finished. */
    public void run(Op<?> op) {
      boolean own = device == CPU && !op.hasWorkspace();
      if (own) {
        long bytes = workspace(op);
        if (bytes > 0) {
          op.keep(zeroed(bytes), bytes);
        }
      }
      try {
        call("quern_" + op.name, open(), op.memory);
      } catch (Failure failure) {
        if (failure.status != Ops.Constants.INVALID) {
          kept.remove(); // it may be half-written
        }
        throw failure;
      } finally {
        if (own) {
          op.workspace(0, 0);
        }
        Reference.reachabilityFence(op); // whose tensors the call reads
      }
    }

    /** Readies every kernel that calls with the same types and no larger maxima can reach. */
    public void prepare(Op<?> op) {
      try {
        call("quern_" + op.name + "_prepare", open(), op.memory);
      } finally {
        Reference.reachabilityFence(op);
      }
    }

    /** The bytes of workspace that a call needs. */
    public long workspace(Op<?> op) {
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment bytes = arena.allocate(JAVA_LONG);
        call("quern_" + op.name + "_workspace", open(), op.memory, bytes);
        return bytes.get(JAVA_LONG, 0);
      } finally {
        Reference.reachabilityFence(op);
      }
    }

    public Expression expression(String formula) {
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment made = arena.allocate(ADDRESS);
        call("quern_expression_create", open(), arena.allocateFrom(formula), made);
        return new Expression(made.get(ADDRESS, 0));
      }
    }

    /** What the device is. */
    public Records.DeviceInfo deviceInfo() {
      return told("quern_device", Records.DeviceInfo.BYTES, Records.DeviceInfo::of);
    }

    /** Counts of kernels, hits, misses and compilations. */
    public Records.Stats stats() {
      return told("quern_get_stats", Records.Stats.BYTES, Records.Stats::of);
    }

    /** Where the cache is, what is in it and whether it serves. */
    public Records.CacheStats cacheStats() {
      return told("quern_cache_get_stats", Records.CacheStats.BYTES, Records.CacheStats::of);
    }

    /** Compiles and stores what of the manifest and the model is not in the cache or a bundle, without touching a
     * device. Where some failed, or progress cancelled, the Failure is PARTIAL and has the results there are. */
    public List<Records.WarmResult> warm(Records.WarmOptions options) {
      return warmed("quern_warm", options);
    }

    /** Makes what warm makes of the context's own target, as its miss policy has it, and loads it on the device. */
    public List<Records.WarmResult> load(Records.WarmOptions options) {
      return warmed("quern_load", options);
    }

    /** Unloads the kernels of an op, or those whose key begins with prefix; null: all. None of them may be running, or
     * be in a captured graph that is launched again. Returns how many they were. */
    public long unload(String prefix) {
      return counted("quern_unload", "prefix", prefix);
    }

    /** Waits until nothing is being compiled in the background, for at most so many milliseconds; false where something
     * still is. */
    public boolean await(long milliseconds) {
      MemorySegment error = blank();
      FunctionDescriptor described = FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS);
      int status = (int) call("quern_wait", described, open(), milliseconds, error);
      if (status != Ops.Constants.PENDING) {
        check(status, error);
      }
      return status == 0;
    }

    /** Drops the compilations in the background that have not begun. Returns how many they were. */
    public long cancel() {
      return counted("quern_cancel");
    }

    /** Everything this context has specialised, as warm and `quern warm` read it. */
    public String manifest() {
      for (long room = 1;;) {
        try (Arena arena = Arena.ofConfined()) {
          MemorySegment buffer = arena.allocate(room), length = arena.allocateFrom(JAVA_LONG, room);
          call("quern_manifest", open(), buffer, length);
          if (length.get(JAVA_LONG, 0) < room) {
            return buffer.getString(0);
          }
          room = length.get(JAVA_LONG, 0) + 1;
        }
      }
    }

    /** Measures on the context's device which kernels do matrix products fastest, and keeps them in the cache. */
    public List<Records.TuneResult> tune(Records.TuneOptions options) {
      return listed("quern_tune", "quern_list_tune_result", Records.TuneResult.BYTES, Records.TuneResult::of, options);
    }

    /** Runs every cached kernel on the context's device and holds it against the `host` target's execution. Where one
     * differs or failed, the Failure is DAMAGED and has the results. */
    public List<Records.VerifyResult> verify(Records.VerifyOptions options) {
      return listed(
          "quern_verify", "quern_list_verify_result", Records.VerifyResult.BYTES, Records.VerifyResult::of, options);
    }

    /** Every entry whose key begins with prefix, or whose op or target equals it; null: all. */
    public List<Records.Entry> cacheList(String prefix) {
      return entries("quern_cache_list", "prefix", prefix);
    }

    /** The one entry whose key begins with key (at least 4 digits), image and all. */
    public Records.Entry cacheInspect(String key) {
      return entries("quern_cache_inspect", "key", key).get(0);
    }

    /** Reads and checks every row and bundle. Where one does not verify, the Failure is DAMAGED and has findings. */
    public List<Records.Finding> cacheVerify() {
      return findings("quern_cache_verify");
    }

    /** What is here: drivers, devices, compilers, the helper, the cache. */
    public List<Records.Finding> doctor() {
      return findings("quern_doctor");
    }

    /** Every kernel that a compiler has refused in this context and not made since, with the compiler's log. */
    public List<Records.Finding> failures() {
      return findings("quern_failures");
    }

    /** What calls of a checked context found wrong in their index tensors since this was asked last. */
    public List<Records.Fault> faults() {
      return listed("quern_list_fault", Records.Fault.BYTES, Records.Fault::of,
          list -> call("quern_faults", open(), list, MemorySegment.NULL));
    }

    /** Removes entries, least recently used first. */
    public Records.TrimResult cacheTrim(Records.TrimOptions options) {
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment made = sized(arena, Records.TrimResult.BYTES);
        call("quern_cache_trim", open(), options.memory, made);
        return Records.TrimResult.of(made);
      } finally {
        Reference.reachabilityFence(options);
      }
    }

    /** Writes the cache, or what prefix selects as in cacheList, as a bundle; path is absolute. Returns the number of
     * entries. */
    public long cacheExport(String path, String prefix) {
      return counted("quern_cache_export", "path", path, "prefix", prefix);
    }

    /** Adds a bundle's entries to the cache, all verified before the first is written. Returns how many were not
     * there. */
    public long cacheImport(String path) {
      return counted("quern_cache_import", "path", path);
    }

    /** Readies a kernel of the caller's own; null for a target that is not the device's. */
    public Kernel kernel(Kernel.Desc desc) {
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment made = arena.allocate(ADDRESS);
        call("quern_kernel_prepare", open(), desc.put(arena), made);
        MemorySegment kernel = made.get(ADDRESS, 0);
        return kernel.address() == 0 ? null : new Kernel(this, kernel);
      }
    }

    private List<Records.WarmResult> warmed(String name, Records.WarmOptions options) {
      return listed(name, "quern_list_warm_result", Records.WarmResult.BYTES, Records.WarmResult::of, options);
    }

    private List<Records.Entry> entries(String name, String argument, String value) {
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment given = text(arena, argument, value);
        return listed(
            "quern_list_entry", Records.Entry.BYTES, Records.Entry::of, list -> call(name, open(), given, list));
      }
    }

    private List<Records.Finding> findings(String name) {
      return listed("quern_list_finding", Records.Finding.BYTES, Records.Finding::of, list -> call(name, open(), list));
    }

    private <Item> List<Item> listed(
        String name, String getter, int bytes, Function<MemorySegment, Item> read, Struct<?> options) {
      try {
        return listed(getter, bytes, read, list -> {
          try {
            call(name, open(), options.memory, list);
          } finally {
            options.rethrow();
          }
        });
      } finally {
        Reference.reachabilityFence(options);
      }
    }

    // What a call that gives a list has put there. Where it failed with some of it, that goes with the Failure.
    private <Item> List<Item> listed(
        String getter, int bytes, Function<MemorySegment, Item> read, Consumer<MemorySegment> ask) {
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment list = arena.allocate(ADDRESS);
        try {
          ask.accept(list);
          return taken(list.get(ADDRESS, 0), getter, bytes, read);
        } catch (Failure failure) {
          if (list.get(ADDRESS, 0).address() != 0) {
            failure.results = taken(list.get(ADDRESS, 0), getter, bytes, read);
          }
          throw failure;
        } finally {
          call("quern_list_free", FunctionDescriptor.ofVoid(ADDRESS), list.get(ADDRESS, 0));
        }
      }
    }

    private static <Item> List<Item> taken(
        MemorySegment list, String getter, int bytes, Function<MemorySegment, Item> read) {
      long count = (long) call("quern_list_count", FunctionDescriptor.of(JAVA_LONG, ADDRESS), list);
      FunctionDescriptor described = FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS);
      List<Item> items = new ArrayList<>();
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment item = sized(arena, bytes);
        for (long i = 0; i < count; ++i) {
          int status = (int) call(getter, described, list, i, item);
          if (status != 0) {
            throw new Failure(status, 0, "item " + i + " of a list cannot be read");
          }
          items.add(read.apply(item));
        }
      }
      return items;
    }

    // given: names of arguments and what they are.
    private long counted(String name, String... given) {
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment[] pointers = new MemorySegment[given.length / 2 + 2];
        pointers[0] = open();
        for (int i = 0; i < given.length; i += 2) {
          pointers[1 + i / 2] = text(arena, given[i], given[i + 1]);
        }
        MemorySegment count = pointers[pointers.length - 1] = arena.allocate(JAVA_LONG);
        call(name, pointers);
        return count.get(JAVA_LONG, 0);
      }
    }

    private <Told> Told told(String name, int bytes, Function<MemorySegment, Told> read) {
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment made = sized(arena, bytes);
        call(name, open(), made);
        return read.apply(made);
      }
    }

    private MemorySegment zeroed(long bytes) {
      MemorySegment found = kept.get();
      if (found == null || found.byteSize() < bytes) {
        found = Arena.ofAuto().allocate(bytes, ALIGNMENT);
        kept.set(found);
      }
      return found;
    }

    MemorySegment open() {
      if (handle == null) {
        throw new IllegalStateException("context: is closed");
      }
      return handle;
    }

    @Override
    public void close() {
      if (handle == null) {
        return;
      }
      call("quern_context_destroy", FunctionDescriptor.ofVoid(ADDRESS), handle);
      handle = null;
      Reference.reachabilityFence(options);
    }
  }

  static MemorySegment sized(Arena arena, int bytes) {
    MemorySegment made = arena.allocate(bytes, 16);
    made.set(JAVA_INT, 0, bytes);
    return made;
  }

  /** A pair of keys: the secret one is for signBundle, the other for ContextOptions.trustedKeys. */
  public record Keys(String secretKey, String publicKey) {
    private static final int BYTES = 65; // 64 digits and a NUL

    public static Keys make() {
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment secret = arena.allocate(BYTES), made = arena.allocate(BYTES);
        call("quern_keys_make", secret, made);
        return new Keys(secret.getString(0), made.getString(0));
      }
    }

    /** The pair of a secret key. */
    public static Keys of(String secretKey) {
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment made = arena.allocate(BYTES);
        call("quern_keys_public", text(arena, "secretKey", secretKey), made);
        return new Keys(secretKey, made.getString(0));
      }
    }
  }

  /** Verifies a bundle and puts a signature over all of it behind those that it has. */
  public static void signBundle(String path, String secretKey) {
    try (Arena arena = Arena.ofConfined()) {
      call("quern_bundle_sign", text(arena, "path", path), text(arena, "secretKey", secretKey));
    }
  }

  /** bf16 of a number, rounded to nearest even. */
  public static short bf16(float value) {
    int bits = Float.floatToRawIntBits(value);
    if (Float.isNaN(value)) {
      return (short) 0x7fc0;
    }
    return (short) (bits + 0x7fff + (bits >>> 16 & 1) >>> 16);
  }
}
