// A kernel of the caller's own: specialised, cached and compiled by quern, launched with raw arguments.
// SPDX-License-Identifier: Apache-2.0
package quern;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.ref.Reference;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import quern.Quern.Context;
import quern.Quern.Tensor;

/** A kernel that is ready to launch. It lives as long as its context. */
public final class Kernel {
  /** A kernel of the caller's own: quern_kernel_desc. All of it is part of its key. */
  public static final class Desc {
    private record Named(String name, String text) {}

    private final String entry;
    private final Named source;
    private final List<Named> headers = new ArrayList<>();
    private final Map<String, String> constants = new TreeMap<>();
    private final List<String> options = new ArrayList<>();
    private String target;
    private int flags;
    private int maxSharedBytes;

    /** name: as the compiler's log knows the source by. */
    public Desc(String entry, String name, String source) {
      this.entry = entry;
      this.source = new Named(name, source);
    }

    /** CALL_CACHED_ONLY, CALL_BACKGROUND. */
    public Desc flags(int value) {
      flags = value;
      return this;
    }

    /** What the source may include by this name; nothing else can be. */
    public Desc header(String name, String text) {
      headers.add(new Named(name, text));
      return this;
    }

    /** Becomes #define name value. */
    public Desc constant(String name, String value) {
      constants.put(name, value);
      return this;
    }

    public Desc option(String value) {
      options.add(value);
      return this;
    }

    /** Without, the context's device. Another is compiled and stored, not loaded. */
    public Desc target(String value) {
      target = value;
      return this;
    }

    public Desc maxSharedBytes(int value) {
      maxSharedBytes = value;
      return this;
    }

    private static void put(Arena arena, MemorySegment place, Named source) {
      place.set(JAVA_INT, 0, Ops.Layout.SOURCE_BYTES);
      place.set(ADDRESS, Ops.Layout.SOURCE_NAME, Quern.text(arena, "source", source.name));
      place.set(ADDRESS, Ops.Layout.SOURCE_TEXT, Quern.text(arena, source.name, source.text));
    }

    MemorySegment put(Arena arena) {
      MemorySegment made = Quern.sized(arena, Ops.Layout.KERNEL_DESC_BYTES);
      made.set(JAVA_INT, Ops.Layout.KERNEL_DESC_FLAGS, flags);
      made.set(JAVA_INT, Ops.Layout.KERNEL_DESC_MAX_SHARED_BYTES, maxSharedBytes);
      made.set(ADDRESS, Ops.Layout.KERNEL_DESC_ENTRY, Quern.text(arena, "entry", entry));
      made.set(ADDRESS, Ops.Layout.KERNEL_DESC_TARGET, Quern.text(arena, "target", target));
      MemorySegment sources = arena.allocate((long) Ops.Layout.SOURCE_BYTES * (headers.size() + 1), 8);
      put(arena, sources, source);
      made.set(ADDRESS, Ops.Layout.KERNEL_DESC_SOURCE, sources);
      for (int i = 0; i < headers.size(); ++i) {
        put(arena, sources.asSlice((long) Ops.Layout.SOURCE_BYTES * (i + 1), Ops.Layout.SOURCE_BYTES), headers.get(i));
      }
      made.set(ADDRESS, Ops.Layout.KERNEL_DESC_HEADERS, sources.asSlice(Ops.Layout.SOURCE_BYTES));
      made.set(JAVA_LONG, Ops.Layout.KERNEL_DESC_HEADER_COUNT, headers.size());
      MemorySegment named = arena.allocate((long) Ops.Layout.CONSTANT_BYTES * constants.size() + 8, 8);
      long place = 0;
      for (Map.Entry<String, String> constant : constants.entrySet()) {
        named.set(JAVA_INT, place, Ops.Layout.CONSTANT_BYTES);
        named.set(ADDRESS, place + Ops.Layout.CONSTANT_NAME, Quern.text(arena, "constant", constant.getKey()));
        MemorySegment value = Quern.text(arena, constant.getKey(), constant.getValue());
        named.set(ADDRESS, place + Ops.Layout.CONSTANT_VALUE, value);
        place += Ops.Layout.CONSTANT_BYTES;
      }
      made.set(ADDRESS, Ops.Layout.KERNEL_DESC_CONSTANTS, named);
      made.set(JAVA_LONG, Ops.Layout.KERNEL_DESC_CONSTANT_COUNT, constants.size());
      MemorySegment further = arena.allocate(8L * options.size() + 8, 8);
      for (int i = 0; i < options.size(); ++i) {
        further.setAtIndex(ADDRESS, i, Quern.text(arena, "options[" + i + "]", options.get(i)));
      }
      made.set(ADDRESS, Ops.Layout.KERNEL_DESC_OPTIONS, further);
      made.set(JAVA_LONG, Ops.Layout.KERNEL_DESC_OPTION_COUNT, options.size());
      return made;
    }
  }

  /** How a kernel is launched: grid, block and cluster have up to three extents; null is one. */
  public record Launch(int[] grid, int[] block, int[] cluster, int sharedBytes, long stream, int flags) {
    public Launch(int grid, int block) {
      this(new int[] {grid}, new int[] {block}, null, 0, 0, 0);
    }
  }

  private final Context context;
  private final MemorySegment handle;

  Kernel(Context context, MemorySegment handle) {
    this.context = context;
    this.handle = handle;
  }

  /** What the compiler made of it. */
  public Records.KernelInfo info() {
    context.open();
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment made = Quern.sized(arena, Records.KernelInfo.BYTES);
      Quern.call("quern_kernel_get_info", handle, made);
      return Records.KernelInfo.of(made);
    }
  }

  /** On a GPU it returns once the kernel is launched. arguments are the values of its parameters, which are not
   * checked against them: Integer, Long, Float, Double, Short, Byte, Boolean; a Tensor or a MemorySegment give their
   * address. */
  public void launch(Launch launch, Object... arguments) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment given = Quern.sized(arena, Ops.Layout.LAUNCH_BYTES);
      given.set(JAVA_INT, Ops.Layout.LAUNCH_FLAGS, launch.flags);
      given.set(JAVA_LONG, Ops.Layout.LAUNCH_STREAM, launch.stream);
      given.set(JAVA_INT, Ops.Layout.LAUNCH_SHARED_BYTES, launch.sharedBytes);
      extents(given, Ops.Layout.LAUNCH_GRID_X, "grid", launch.grid);
      extents(given, Ops.Layout.LAUNCH_BLOCK_X, "block", launch.block);
      extents(given, Ops.Layout.LAUNCH_CLUSTER_X, "cluster", launch.cluster);
      MemorySegment places = arena.allocate(8L * arguments.length + 8, 8);
      for (int i = 0; i < arguments.length; ++i) {
        places.setAtIndex(ADDRESS, i, value(arena, i, arguments[i]));
      }
      given.set(ADDRESS, Ops.Layout.LAUNCH_ARGS, places);
      given.set(JAVA_LONG, Ops.Layout.LAUNCH_ARG_COUNT, arguments.length);
      Quern.call("quern_kernel_launch", context.open(), handle, given);
    } finally {
      Reference.reachabilityFence(arguments);
    }
  }

  private static void extents(MemorySegment given, long offset, String name, int[] values) {
    if (values == null) {
      return;
    }
    if (values.length > 3) {
      throw new IllegalArgumentException(name + ": " + values.length + " extents given; allowed are up to 3");
    }
    MemorySegment.copy(values, 0, given, JAVA_INT, offset, values.length);
  }

  private static MemorySegment value(Arena arena, int index, Object given) {
    if (given instanceof Tensor tensor) {
      return arena.allocateFrom(ADDRESS, tensor.memory());
    } else if (MemorySegment.class.isInstance(given)) {
      return arena.allocateFrom(ADDRESS, MemorySegment.class.cast(given));
    } else if (given instanceof Integer number) {
      return arena.allocateFrom(JAVA_INT, number);
    } else if (given instanceof Long number) {
      return arena.allocateFrom(JAVA_LONG, number);
    } else if (given instanceof Float number) {
      return arena.allocateFrom(JAVA_FLOAT, number);
    } else if (given instanceof Double number) {
      return arena.allocateFrom(JAVA_DOUBLE, number);
    } else if (given instanceof Short number) {
      return arena.allocateFrom(JAVA_SHORT, number);
    } else if (given instanceof Byte number) {
      return arena.allocateFrom(JAVA_BYTE, number);
    } else if (given instanceof Boolean truth) {
      return arena.allocateFrom(JAVA_BYTE, (byte) (truth ? 1 : 0));
    }
    throw new IllegalArgumentException("arguments[" + index + "]: a "
        + (given == null ? "null" : given.getClass().getSimpleName())
        + " given; allowed are numbers, Boolean, Tensor and MemorySegment");
  }
}
