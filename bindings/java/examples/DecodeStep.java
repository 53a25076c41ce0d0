// A step of decoding on the CPU: paged attention of two sequences over a KV cache in bf16, a product behind it, a
// formula of one's own, and what a refused call looks like.
// SPDX-License-Identifier: Apache-2.0
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.util.List;
import quern.Ops;
import quern.Quern;
import quern.Quern.Tensor;
import quern.Quern.Type;

public final class DecodeStep {
  static final int BATCH = 2, HEADS = 4, KV_HEADS = 2, DIM = 64, PAGES = 8, PAGE_SIZE = 4, MAX_PAGES = 3, COLUMNS = 8;
  static final int ROW = KV_HEADS * DIM, WIDTH = HEADS * DIM;

  static void fill(Tensor tensor, long count, java.util.function.LongToDoubleFunction value) {
    for (long i = 0; i < count; ++i) {
      tensor.memory().setAtIndex(JAVA_SHORT, i, Quern.bf16((float) value.applyAsDouble(i)));
    }
  }

  static Tensor integers(int[] values, long... shape) {
    Tensor made = Tensor.zeros(Type.I32, shape);
    for (int i = 0; i < values.length; ++i) {
      made.memory().setAtIndex(JAVA_INT, i, values[i]);
    }
    return made;
  }

  static void decode(Quern.Context context) {
    int[] lengths = {5, 9}, table = {6, 1, 0, 3, 7, 2};
    Tensor q = Tensor.zeros(Type.BF16, BATCH, HEADS, DIM), k = Tensor.zeros(Type.BF16, PAGES, PAGE_SIZE, KV_HEADS, DIM);
    Tensor v = Tensor.zeros(Type.BF16, PAGES, PAGE_SIZE, KV_HEADS, DIM);
    Tensor weight = Tensor.zeros(Type.BF16, COLUMNS, WIDTH);
    Tensor attended = Tensor.zeros(Type.BF16, BATCH, HEADS, DIM), out = Tensor.zeros(Type.F32, BATCH, COLUMNS);
    fill(q, (long) BATCH * WIDTH, i -> 1);
    // Slots that no sequence uses hold NaN: nothing of them may be seen.
    fill(v, (long) PAGES * PAGE_SIZE * ROW, i -> Double.NaN);
    for (int b = 0; b < BATCH; ++b) {
      for (int j = 0; j < lengths[b]; ++j) {
        long slot = (long) table[b * MAX_PAGES + j / PAGE_SIZE] * PAGE_SIZE + j % PAGE_SIZE;
        for (int i = 0; i < ROW; ++i) {
          v.memory().setAtIndex(JAVA_SHORT, slot * ROW + i, Quern.bf16(j + 10 * (i / DIM)));
        }
      }
    }
    fill(weight, (long) COLUMNS * WIDTH, i -> (i / WIDTH + 1.0) / WIDTH);

    context.run(new Ops.Attention().flags(Ops.Constants.ATTENTION_CAUSAL).q(q).k(k).v(v).out(attended)
        .lengths(integers(lengths, BATCH)).pageTable(integers(table, BATCH, MAX_PAGES))
        .maxKvLen(MAX_PAGES * PAGE_SIZE));
    Tensor rows = attended.reshape(Type.BF16, BATCH, WIDTH), bias = Tensor.zeros(Type.F32, COLUMNS);
    for (int n = 0; n < COLUMNS; ++n) {
      bias.memory().setAtIndex(JAVA_FLOAT, n, n);
    }
    context.run(new Ops.Gemm().a(rows).b(weight).out(out).epilogue(new Ops.Epilogue().bias(bias)));
    for (int b = 0; b < BATCH; ++b) {
      for (int n = 0; n < COLUMNS; ++n) {
        double got = out.memory().getAtIndex(JAVA_FLOAT, b * COLUMNS + n);
        double wanted = ((lengths[b] - 1) / 2.0 + 5) * (n + 1) + n;
        if (!(Math.abs(got - wanted) <= 1e-3 * wanted)) {
          throw new AssertionError("out[" + b + "][" + n + "] is " + got + ", it should be " + wanted);
        }
      }
    }

    // A formula of one's own, over columns and a number: the same sums, twice.
    Tensor doubled = Tensor.zeros(Type.F32, BATCH, COLUMNS);
    context.run(new Ops.Gemm().a(rows).b(weight).out(doubled).epilogue(new Ops.Epilogue()
        .expression(context.expression("(acc + col0) * scalar0")).operands(List.of(bias)).scalars(new float[] {2})));
    for (int i = 0; i < BATCH * COLUMNS; ++i) {
      float got = doubled.memory().getAtIndex(JAVA_FLOAT, i), once = out.memory().getAtIndex(JAVA_FLOAT, i);
      if (!(Math.abs(got - 2 * once) <= 1e-3 * got)) {
        throw new AssertionError("doubled[" + i + "] is " + got + ", it should be twice " + once);
      }
    }

    // The error path: what is wrong comes as an exception with its text; nothing has run.
    try {
      context.run(new Ops.Gemm().a(rows).b(Tensor.zeros(Type.BF16, COLUMNS, 32)).out(out));
      throw new AssertionError("a product of two widths was not refused");
    } catch (Quern.Failure refused) {
      if (refused.status != Ops.Constants.INVALID || !refused.getMessage().contains("b.shape[1] is 32")) {
        throw new AssertionError("refused in other words than it should be", refused);
      }
    }
    System.out.printf(java.util.Locale.ROOT, "decode step: %.1f and %.1f, as they should be%n",
        out.memory().getAtIndex(JAVA_FLOAT, 0), out.memory().getAtIndex(JAVA_FLOAT, COLUMNS));
  }

  public static void main(String[] arguments) {
    try (Quern.Context context = new Quern.Context(Quern.CPU, 0, null)) {
      decode(context);
    }
  }
}
