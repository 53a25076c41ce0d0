// A step of decoding on the CPU: paged attention of two sequences over a KV cache in bf16, a product behind it, a
// formula of one's own, and what a refused call looks like.
// SPDX-License-Identifier: Apache-2.0
using System;
using System.Globalization;
using System.Runtime.InteropServices;
using Quern;

public static class DecodeStep {
  private const int Batch = 2, Heads = 4, KvHeads = 2, Dim = 64, Pages = 8, PageSize = 4, MaxPages = 3, Columns = 8;
  private const int Row = KvHeads * Dim, Width = Heads * Dim;

  // Rounded to nearest even; NaN stays one.
  private static short Bf16(float value) {
    var bits = BitConverter.ToInt32(BitConverter.GetBytes(value), 0);
    return float.IsNaN(value) ? (short)0x7fc0 : unchecked((short)((uint)(bits + 0x7fff + (bits >> 16 & 1)) >> 16));
  }

  private static Tensor Halves(Func<int, float> value, params long[] shape) {
    var made = new Tensor(ElementType.Bf16, shape);
    var numbers = new short[made.Count];
    for (var i = 0; i < numbers.Length; ++i) numbers[i] = Bf16(value(i));
    Marshal.Copy(numbers, 0, made.Data, numbers.Length);
    return made;
  }

  private static Tensor Integers(int[] values, params long[] shape) {
    var made = new Tensor(ElementType.I32, shape);
    Marshal.Copy(values, 0, made.Data, values.Length);
    return made;
  }

  private static float[] Floats(Tensor tensor) {
    var numbers = new float[tensor.Count];
    Marshal.Copy(tensor.Data, numbers, 0, numbers.Length);
    return numbers;
  }

  private static void Decode(Context context, Scope scope) {
    int[] lengths = { 5, 9 }, table = { 6, 1, 0, 3, 7, 2 };
    // Slots that no sequence uses hold NaN: nothing of them may be seen.
    var values = new float[Pages * PageSize * Row];
    for (var i = 0; i < values.Length; ++i) values[i] = float.NaN;
    for (var b = 0; b < Batch; ++b) {
      for (var j = 0; j < lengths[b]; ++j) {
        var slot = table[b * MaxPages + j / PageSize] * PageSize + j % PageSize;
        for (var i = 0; i < Row; ++i) values[slot * Row + i] = j + 10 * (i / Dim);
      }
    }
    using (var q = Halves(i => 1, Batch, Heads, Dim))
    using (var k = new Tensor(ElementType.Bf16, Pages, PageSize, KvHeads, Dim))
    using (var v = Halves(i => values[i], Pages, PageSize, KvHeads, Dim))
    using (var weight = Halves(i => (i / Width + 1.0f) / Width, Columns, Width))
    using (var attended = new Tensor(ElementType.Bf16, Batch, Heads, Dim))
    using (var given = Integers(lengths, Batch))
    using (var pages = Integers(table, Batch, MaxPages))
    using (var rows = attended.Reshape(Batch, Width))
    using (var bias = new Tensor(ElementType.F32, Columns))
    using (var output = new Tensor(ElementType.F32, Batch, Columns))
    using (var doubled = new Tensor(ElementType.F32, Batch, Columns))
    using (var narrow = new Tensor(ElementType.Bf16, Columns, 32)) {
      context.Attention(new AttentionArgs {
        Flags = Constants.AttentionCausal, Q = q, K = k, V = v, Out = attended, Lengths = given, PageTable = pages,
        MaxKvLen = MaxPages * PageSize
      });
      Marshal.Copy(new float[] { 0, 1, 2, 3, 4, 5, 6, 7 }, 0, bias.Data, Columns);
      var epilogue = new Epilogue { Size = Scope.SizeOf<Epilogue>(), Bias = bias };
      context.Gemm(new GemmArgs { A = rows, B = weight, Out = output, Epilogue = scope.Struct(epilogue) });
      var sums = Floats(output);
      for (var b = 0; b < Batch; ++b) {
        for (var n = 0; n < Columns; ++n) {
          double got = sums[b * Columns + n], wanted = ((lengths[b] - 1) / 2.0 + 5) * (n + 1) + n;
          if (!(Math.Abs(got - wanted) <= 1e-3 * wanted)) {
            throw new Exception("out[" + b + "][" + n + "] is " + got + ", it should be " + wanted);
          }
        }
      }

      // A formula of one's own, over columns and a number: the same sums, twice.
      epilogue = new Epilogue {
        Size = Scope.SizeOf<Epilogue>(), Expression = context.Expression("(acc + col0) * scalar0"),
        Operands = scope.Tensors(bias), OperandCount = 1, Scalars = scope.Numbers(2), ScalarCount = 1
      };
      context.Gemm(new GemmArgs { A = rows, B = weight, Out = doubled, Epilogue = scope.Struct(epilogue) });
      var twice = Floats(doubled);
      for (var i = 0; i < twice.Length; ++i) {
        if (!(Math.Abs(twice[i] - 2 * sums[i]) <= 1e-3 * twice[i])) {
          throw new Exception("doubled[" + i + "] is " + twice[i] + ", it should be twice " + sums[i]);
        }
      }

      // The error path: what is wrong comes as an exception with its text; nothing has run.
      try {
        context.Gemm(new GemmArgs { A = rows, B = narrow, Out = output });
        throw new Exception("a product of two widths was not refused");
      } catch (QuernException refused) {
        if (refused.Status != Constants.Invalid || !refused.Message.Contains("b.shape[1] is 32")) throw;
      }
      Console.WriteLine(string.Format(CultureInfo.InvariantCulture,
          "decode step: {0:F1} and {1:F1}, as they should be", sums[0], sums[Columns]));
    }
  }

  public static void Main() {
    using (var context = new Context(DeviceType.Host))
    using (var scope = new Scope()) {
      Decode(context, scope);
    }
  }
}
