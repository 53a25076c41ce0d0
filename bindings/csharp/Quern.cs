// quern by P/Invoke: contexts, tensors, errors. The ops are in Ops.cs, what is about the cache in Administration.cs,
// kernels of one's own in Kernel.cs. Plain C# 7 and no unsafe code, so that Mono and .NET Framework take it as .NET
// does.
// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;

namespace Quern {
  internal static partial class Native {
    // libquern.so where the system finds libraries; .NET: NativeLibrary.SetDllImportResolver for another place.
    internal const string Library = "quern";

    [DllImport(Library)]
    internal static extern int quern_context_create(IntPtr options, out IntPtr context, ref Error error);
    [DllImport(Library)]
    internal static extern void quern_context_destroy(IntPtr context);
    [DllImport(Library)]
    internal static extern int quern_expression_create(
        IntPtr context, byte[] text, out IntPtr expression, ref Error error);
  }

  /// <summary>quern_error.</summary>
  [StructLayout(LayoutKind.Sequential)]
  public struct Error {
    private const int TextBytes = 4080;
    internal uint Size;
    public int Status;
    public long NativeCode;
    [MarshalAs(UnmanagedType.ByValArray, SizeConst = TextBytes)]
    internal byte[] Bytes;

    internal static Error Blank() {
      return new Error { Size = (uint)Marshal.SizeOf(typeof(Error)), Bytes = new byte[TextBytes] };
    }

    public string Text {
      get {
        var end = Array.IndexOf(Bytes, (byte)0);
        return Encoding.UTF8.GetString(Bytes, 0, end < 0 ? Bytes.Length : end);
      }
    }
  }

  /// <summary>What a call was refused for or failed at; Status is one of Constants.Invalid and so on.</summary>
  public sealed class QuernException : Exception {
    public QuernException(Error error) : base(error.Text) {
      Status = error.Status;
      NativeCode = error.NativeCode;
    }
    public int Status { get; }
    public long NativeCode { get; }
    /// <summary>What there is of a list that the call was to give: with Constants.Partial and Damaged.</summary>
    public IReadOnlyList<object> Results { get; internal set; } = new object[0];
  }

  /// <summary>DLPack's device types.</summary>
  public enum DeviceType { Host = 1, Cuda = 2, Rocm = 10 }

  /// <summary>Element types: DLPack's code in the low byte, the bits above.</summary>
  public enum ElementType {
    F16 = 2 | 16 << 8, F32 = 2 | 32 << 8, Bf16 = 4 | 16 << 8, E4m3 = 10 | 8 << 8, E5m2 = 12 | 8 << 8,
    I8 = 0 | 8 << 8, I32 = 0 | 32 << 8, I64 = 0 | 64 << 8, U8 = 1 | 8 << 8,
    Bool = 6 | 8 << 8, I16 = 0 | 16 << 8, U32 = 1 | 32 << 8
  }

  /// <summary>A tensor: a DLTensor over memory of its own, or of a device's. It is disposed by hand, when no call uses
  /// it: what args structs hold is its address, which keeps nothing alive.</summary>
  public sealed class Tensor : IDisposable {
    private const int Alignment = 256;
    [StructLayout(LayoutKind.Sequential)]
    private struct DLTensor {
      internal IntPtr Data;
      internal int DeviceType;
      internal int DeviceId;
      internal int Ndim;
      internal int Dtype;
      internal IntPtr Shape;
      internal IntPtr Strides;
      internal ulong ByteOffset;
    }
    private readonly DeviceType device;
    private readonly int ordinal;
    private IntPtr owned;
    private IntPtr block;

    /// <summary>Zeros in the host's memory.</summary>
    public Tensor(ElementType type, params long[] shape) {
      Type = type;
      Shape = shape;
      Count = Product(shape);
      device = DeviceType.Host;
      var bytes = checked((int)(Count * Bits(type) / 8 + Alignment));
      owned = Marshal.AllocHGlobal(bytes);
      Marshal.Copy(new byte[bytes], 0, owned, bytes);
      Data = new IntPtr((owned.ToInt64() + Alignment - 1) / Alignment * Alignment);
      Describe(null);
    }

    /// <summary>Memory of a device, which stays the caller's; strides in elements, or null: compact.</summary>
    public Tensor(IntPtr data, DeviceType device, int ordinal, ElementType type, long[] shape, long[] strides) {
      if (strides != null && strides.Length != shape.Length) {
        throw new ArgumentException("strides: " + strides.Length + " given for " + shape.Length + " dimensions");
      }
      Type = type;
      Shape = shape;
      Count = Product(shape);
      Data = data;
      this.device = device;
      this.ordinal = ordinal;
      Describe(strides);
    }

    public ElementType Type { get; }
    public long[] Shape { get; }
    public long Count { get; }
    public IntPtr Data { get; }

    /// <summary>The same memory, which stays this one's, in another shape; it must be compact.</summary>
    public Tensor Reshape(params long[] shape) {
      return new Tensor(Data, device, ordinal, Type, shape, null);
    }

    public static implicit operator IntPtr(Tensor tensor) {
      if (tensor == null) return IntPtr.Zero;
      if (tensor.block == IntPtr.Zero) throw new ObjectDisposedException("tensor");
      return tensor.block;
    }

    public static int Bits(ElementType type) {
      return (int)type >> 8;
    }

    private static long Product(long[] shape) {
      var count = 1L;
      foreach (var extent in shape) count = checked(count * extent);
      return count;
    }

    private void Describe(long[] strides) {
      var size = Marshal.SizeOf(typeof(DLTensor));
      block = Marshal.AllocHGlobal(size + 16 * Shape.Length);
      var extents = IntPtr.Add(block, size);
      Marshal.Copy(Shape, 0, extents, Shape.Length);
      var steps = IntPtr.Zero;
      if (strides != null) {
        steps = IntPtr.Add(extents, 8 * Shape.Length);
        Marshal.Copy(strides, 0, steps, Shape.Length);
      }
      var described = new DLTensor {
        Data = Data, DeviceType = (int)device, DeviceId = ordinal, Ndim = Shape.Length, Dtype = (int)Type | 1 << 16,
        Shape = extents, Strides = steps
      };
      Marshal.StructureToPtr(described, block, false);
    }

    public void Dispose() {
      Marshal.FreeHGlobal(block);
      Marshal.FreeHGlobal(owned);
      block = owned = IntPtr.Zero;
    }
  }

  /// <summary>Memory for what args structs point to, for as long as it is not disposed: lists, and structs beside them.
  /// </summary>
  public sealed class Scope : IDisposable {
    private readonly List<IntPtr> held = new List<IntPtr>();

    public IntPtr Struct<T>(T value) where T : struct {
      var place = Keep(Marshal.SizeOf(typeof(T)));
      Marshal.StructureToPtr(value, place, false);
      return place;
    }
    public IntPtr Tensors(params Tensor[] tensors) {
      var place = Keep(IntPtr.Size * tensors.Length);
      for (var i = 0; i < tensors.Length; ++i) Marshal.WriteIntPtr(place, i * IntPtr.Size, tensors[i]);
      return place;
    }
    public IntPtr Numbers(params float[] numbers) {
      var place = Keep(sizeof(float) * numbers.Length);
      Marshal.Copy(numbers, 0, place, numbers.Length);
      return place;
    }
    /// <summary>The size that a struct such as Epilogue begins with.</summary>
    public static uint SizeOf<T>() where T : struct {
      return (uint)Marshal.SizeOf(typeof(T));
    }
    public void Dispose() {
      foreach (var place in held) Marshal.FreeHGlobal(place);
      held.Clear();
    }
    private IntPtr Keep(int bytes) {
      held.Add(Marshal.AllocHGlobal(Math.Max(bytes, 1)));
      return held[held.Count - 1];
    }
  }

  /// <summary>One device and its kernels. To be disposed when no call is in flight. Every op is a method.</summary>
  public sealed partial class Context : IDisposable {
    private readonly DeviceType device;
    private readonly ThreadLocal<Tensor> kept = new ThreadLocal<Tensor>(true);
    private readonly Held held = new Held();  // has the callbacks
    private IntPtr handle;

    public Context(DeviceType device, int ordinal = 0, string cachePath = null)
        : this(new ContextOptions { DeviceType = device, DeviceId = ordinal, CachePath = cachePath }) {}

    /// <summary>With everything that quern_context_options has. Log and Event are called by threads of the library's,
    /// too; one that throws ends the program.</summary>
    public Context(ContextOptions options) {
      device = options.DeviceType;
      var error = Error.Blank();
      try {
        Check(Native.quern_context_create(options.Write(held), out handle, ref error), error);
      } catch {
        held.Dispose();
        throw;
      }
    }

    /// <summary>A formula, checked: its handle lives as long as the context.</summary>
    public IntPtr Expression(string formula) {
      var error = Error.Blank();
      Check(Native.quern_expression_create(Handle, Held.Utf8("formula", formula), out var made, ref error), error);
      return made;
    }

    internal IntPtr Handle {
      get {
        if (handle == IntPtr.Zero) throw new ObjectDisposedException("context");
        return handle;
      }
    }

    // On the host one is kept for each thread, zeroed once; on a GPU the caller gives it.
    private IntPtr WorkspaceOf(ulong bytes) {
      if (bytes == 0 || device != DeviceType.Host) return IntPtr.Zero;
      if (kept.Value == null || (ulong)kept.Value.Count < bytes) {
        kept.Value?.Dispose();
        kept.Value = new Tensor(ElementType.U8, (long)bytes);
      }
      return kept.Value.Data;
    }

    internal static void Check(int status, Error error) {
      if (status != 0) throw new QuernException(error);
    }

    private void CheckRun(int status, Error error) {
      if (status != 0 && status != Constants.Invalid) {
        kept.Value?.Dispose();  // it may be half-written
        kept.Value = null;
      }
      Check(status, error);
    }

    public void Dispose() {
      if (handle == IntPtr.Zero) return;
      Native.quern_context_destroy(handle);
      handle = IntPtr.Zero;
      held.Dispose();
      foreach (var workspace in kept.Values) workspace?.Dispose();
      kept.Dispose();
    }
  }
}
