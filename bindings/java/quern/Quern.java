// quern by Java's foreign functions (Java 22 and later): contexts, tensors, errors, and how an op's arguments get into
// its struct. The ops are in Ops.java.
// SPDX-License-Identifier: Apache-2.0
package quern;

import static java.lang.foreign.ValueLayout.ADDRESS;
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
import java.lang.ref.Reference;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

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

  private static MethodHandle function(String name, boolean returns, int pointers) {
    return FUNCTIONS.computeIfAbsent(name, key -> {
      MemoryLayout[] parameters = new MemoryLayout[pointers];
      Arrays.fill(parameters, ADDRESS);
      MemorySegment address = LIBRARY.find(name)
          .orElseThrow(() -> new UnsupportedOperationException("this libquern has no " + name));
      return LINKER.downcallHandle(
          address, returns ? FunctionDescriptor.of(JAVA_INT, parameters) : FunctionDescriptor.ofVoid(parameters));
    });
  }

  // A function of quern.h that returns a status and takes a quern_error last.
  private static void call(String name, MemorySegment... pointers) {
    MemorySegment error = Arena.ofAuto().allocate(Ops.Layout.ERROR_BYTES, 8);
    error.set(JAVA_INT, 0, Ops.Layout.ERROR_BYTES);
    MethodHandle function = function(name, true, pointers.length + 1);
    int status;
    try {
      status = switch (pointers.length) {
        case 2 -> (int) function.invokeExact(pointers[0], pointers[1], error);
        case 3 -> (int) function.invokeExact(pointers[0], pointers[1], pointers[2], error);
        default -> throw new IllegalArgumentException(name);
      };
    } catch (RuntimeException | Error thrown) {
      throw thrown;
    } catch (Throwable thrown) {
      throw new IllegalStateException(name, thrown);
    }
    if (status != 0) {
      throw new Failure(status, error.get(JAVA_LONG, Ops.Layout.ERROR_NATIVE), error.getString(Ops.Layout.ERROR_TEXT));
    }
  }

  /** What a call was refused for or failed at. */
  public static final class Failure extends RuntimeException {
    private static final long serialVersionUID = 1;
    /** One of quern.h's QUERN_INVALID and so on: Ops.Constants. */
    public final int status;
    /** The driver's, compiler's or system's own code, 0 if none. */
    public final long nativeCode;

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

    protected Struct(int size) {
      memory = arena.allocate(size, 16);
      memory.set(JAVA_INT, 0, size);
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
    private MemorySegment handle;

    /** device: CPU (the `host` target), CUDA or ROCM. cachePath: a folder, or null. */
    public Context(int device, int ordinal, String cachePath) {
      this.device = device;
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment options = arena.allocate(Ops.Layout.CONTEXT_OPTIONS_BYTES, 8);
        options.set(JAVA_INT, 0, Ops.Layout.CONTEXT_OPTIONS_BYTES);
        options.set(JAVA_INT, Ops.Layout.CONTEXT_OPTIONS_DEVICE_TYPE, device);
        options.set(JAVA_INT, Ops.Layout.CONTEXT_OPTIONS_DEVICE_ID, ordinal);
        if (cachePath != null) {
          options.set(ADDRESS, Ops.Layout.CONTEXT_OPTIONS_CACHE_PATH, arena.allocateFrom(cachePath));
        }
        MemorySegment made = arena.allocate(ADDRESS);
        call("quern_context_create", options, made);
        handle = made.get(ADDRESS, 0);
      }
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

    private MemorySegment zeroed(long bytes) {
      MemorySegment found = kept.get();
      if (found == null || found.byteSize() < bytes) {
        found = Arena.ofAuto().allocate(bytes, ALIGNMENT);
        kept.set(found);
      }
      return found;
    }

    private MemorySegment open() {
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
      try {
        function("quern_context_destroy", false, 1).invokeExact(handle);
      } catch (Throwable thrown) {
        throw new IllegalStateException(thrown);
      }
      handle = null;
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
