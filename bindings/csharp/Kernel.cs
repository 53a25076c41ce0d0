// A kernel of the caller's own: specialised, cached and compiled by quern, launched with raw arguments.
// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.InteropServices;

namespace Quern {
  internal static partial class Native {
    [DllImport(Library)]
    internal static extern int quern_kernel_prepare(
        IntPtr context, IntPtr desc, out IntPtr kernel, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_kernel_get_info(IntPtr kernel, IntPtr info, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_kernel_launch(IntPtr context, IntPtr kernel, IntPtr launch, ref Error error);
  }

  /// <summary>quern_kernel_desc. All of it is part of the kernel's key.</summary>
  public sealed class KernelDesc {
    public uint Flags;  // Constants.CallCachedOnly, CallBackground
    public string Entry;
    public string Name = "kernel.cu";  // as the compiler's log knows the source by
    public string Source;
    /// <summary>What the source may include, by name; nothing else can be.</summary>
    public IDictionary<string, string> Headers = new Dictionary<string, string>();
    /// <summary>Become #define NAME VALUE.</summary>
    public IDictionary<string, string> Constants = new Dictionary<string, string>();
    public IList<string> Options;
    public string Target;  // null: the context's device
    public uint MaxSharedBytes;

    internal IntPtr Write(Held held) {
      var place = held.Struct(Layout.KernelDescBytes);
      held.Put(place, Flags, Layout.KernelDescFlags);
      held.Put(place, MaxSharedBytes, Layout.KernelDescMaxSharedBytes);
      held.Text(place, "Entry", Entry, Layout.KernelDescEntry);
      held.Text(place, "Target", Target, Layout.KernelDescTarget);
      held.Texts(place, "Options", Options, Layout.KernelDescOptions, Layout.KernelDescOptionCount);
      var source = new Dictionary<string, string> { { Name, Source } };
      held.Part(place, Named(held, source, Layout.SourceBytes, Layout.SourceName, Layout.SourceText),
          Layout.KernelDescSource);
      held.Part(place, Named(held, Headers, Layout.SourceBytes, Layout.SourceName, Layout.SourceText),
          Layout.KernelDescHeaders);
      held.Put(place, (long)Headers.Count, Layout.KernelDescHeaderCount);
      held.Part(place, Named(held, Constants, Layout.ConstantBytes, Layout.ConstantName, Layout.ConstantValue),
          Layout.KernelDescConstants);
      held.Put(place, (long)Constants.Count, Layout.KernelDescConstantCount);
      return place;
    }

    // An array of structs of a name and a text, in the names' order: the same desc is the same kernel.
    private static IntPtr Named(Held held, IDictionary<string, string> given, int size, int name, int text) {
      var start = held.Keep(size * given.Count);
      var place = start;
      foreach (var each in given.OrderBy(each => each.Key, StringComparer.Ordinal)) {
        Marshal.WriteInt32(place, size);
        held.Text(place, "name", each.Key, name);
        held.Text(place, each.Key, each.Value, text);
        place = IntPtr.Add(place, size);
      }
      return start;
    }
  }

  /// <summary>How a kernel is launched: Grid, Block and Cluster have up to three extents; null is one.</summary>
  public sealed class Launch {
    public uint Flags;  // Constants.CallProgrammatic
    public IntPtr Stream;
    public uint[] Grid, Block, Cluster;
    public uint SharedBytes;

    internal IntPtr Write(Held held) {
      var place = held.Struct(Layout.LaunchBytes);
      held.Put(place, Flags, Layout.LaunchFlags);
      held.Part(place, Stream, Layout.LaunchStream);
      held.Put(place, SharedBytes, Layout.LaunchSharedBytes);
      Extents(place, "Grid", Grid, Layout.LaunchGridX);
      Extents(place, "Block", Block, Layout.LaunchBlockX);
      Extents(place, "Cluster", Cluster, Layout.LaunchClusterX);
      return place;
    }
    private static void Extents(IntPtr place, string name, uint[] values, int offset) {
      if (values == null) return;
      if (values.Length > 3) {
        throw new ArgumentException(name + ": " + values.Length + " extents given; allowed are up to 3");
      }
      for (var i = 0; i < values.Length; ++i) Marshal.WriteInt32(place, offset + 4 * i, unchecked((int)values[i]));
    }
  }

  /// <summary>A kernel that is ready to launch. It lives as long as its context.</summary>
  public sealed class Kernel {
    private readonly Context context;
    private readonly IntPtr handle;

    internal Kernel(Context context, IntPtr handle) {
      this.context = context;
      this.handle = handle;
    }
    /// <summary>What the compiler made of it.</summary>
    public KernelInfo Info() {
      var error = Error.Blank();
      using (var held = new Held()) {
        var place = held.Struct(KernelInfo.Bytes);
        GC.KeepAlive(context.Handle);  // it throws for a closed context, whose kernels are gone
        Context.Check(Native.quern_kernel_get_info(handle, place, ref error), error);
        return new KernelInfo(place);
      }
    }
    /// <summary>On a GPU it returns once the kernel is launched. arguments are the values of its parameters, which are
    /// not checked against them: numbers, bool, IntPtr; a Tensor gives the address of its data.</summary>
    public void Launch(Launch launch, params object[] arguments) {
      var error = Error.Blank();
      using (var held = new Held()) {
        var place = launch.Write(held);
        var values = held.Keep(IntPtr.Size * arguments.Length);
        for (var i = 0; i < arguments.Length; ++i) {
          var value = held.Keep(sizeof(long));
          Put(held, value, i, arguments[i]);
          Marshal.WriteIntPtr(values, IntPtr.Size * i, value);
        }
        held.Part(place, values, Layout.LaunchArgs);
        held.Put(place, (long)arguments.Length, Layout.LaunchArgCount);
        Context.Check(Native.quern_kernel_launch(context.Handle, handle, place, ref error), error);
      }
      GC.KeepAlive(arguments);
    }
    private static void Put(Held held, IntPtr place, int index, object given) {
      // By one `is` after the other: Mono's compiler has no patterns in a switch.
      if (given is Tensor) held.Part(place, ((Tensor)given).Data, 0);
      else if (given is IntPtr) held.Part(place, (IntPtr)given, 0);
      else if (given is int) held.Put(place, (int)given, 0);
      else if (given is uint) held.Put(place, (uint)given, 0);
      else if (given is long) held.Put(place, (long)given, 0);
      else if (given is ulong) held.Put(place, (ulong)given, 0);
      else if (given is float) held.Put(place, (float)given, 0);
      else if (given is double) held.Put(place, (double)given, 0);
      else if (given is short) Marshal.WriteInt16(place, (short)given);
      else if (given is ushort) Marshal.WriteInt16(place, unchecked((short)(ushort)given));
      else if (given is byte) Marshal.WriteByte(place, (byte)given);
      else if (given is bool) Marshal.WriteByte(place, (byte)((bool)given ? 1 : 0));
      else {
        throw new ArgumentException("arguments[" + index + "]: a " + (given?.GetType().Name ?? "null") +
            " given; allowed are numbers, bool, IntPtr and Tensor");
      }
    }
  }

  public sealed partial class Context {
    /// <summary>Readies a kernel of the caller's own; null for a target that is not the device's.</summary>
    public Kernel Kernel(KernelDesc desc) {
      var error = Error.Blank();
      using (var given = new Held()) {
        Check(Native.quern_kernel_prepare(Handle, desc.Write(given), out var made, ref error), error);
        return made == IntPtr.Zero ? null : new Kernel(this, made);
      }
    }
  }
}
