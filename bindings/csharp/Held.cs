// Between managed values and the structs of quern.h: what Records.cs reads and writes with.
// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Runtime.ExceptionServices;
using System.Runtime.InteropServices;
using System.Text;

namespace Quern {
  internal static class Read {
    internal static int Int(IntPtr from, int offset) {
      return Marshal.ReadInt32(from, offset);
    }
    internal static uint Uint(IntPtr from, int offset) {
      return unchecked((uint)Marshal.ReadInt32(from, offset));
    }
    internal static long Long(IntPtr from, int offset) {
      return Marshal.ReadInt64(from, offset);
    }
    internal static ulong Ulong(IntPtr from, int offset) {
      return unchecked((ulong)Marshal.ReadInt64(from, offset));
    }
    internal static double Double(IntPtr from, int offset) {
      return BitConverter.Int64BitsToDouble(Marshal.ReadInt64(from, offset));
    }
    internal static string Text(IntPtr from, int offset) {
      return Utf8(Marshal.ReadIntPtr(from, offset), int.MaxValue);
    }
    internal static string Inline(IntPtr from, int offset, int most) {
      return Utf8(IntPtr.Add(from, offset), most);
    }
    internal static string Utf8(IntPtr start, int most) {
      if (start == IntPtr.Zero) return "";
      var length = 0;
      while (length < most && Marshal.ReadByte(start, length) != 0) ++length;
      var bytes = new byte[length];
      Marshal.Copy(start, bytes, 0, length);
      return Encoding.UTF8.GetString(bytes);
    }
    // null for what is asked for by key alone.
    internal static byte[] Memory(IntPtr from, int offset, int size) {
      var start = Marshal.ReadIntPtr(from, offset);
      if (start == IntPtr.Zero) return null;
      var bytes = new byte[checked((int)Marshal.ReadInt64(from, size))];
      Marshal.Copy(start, bytes, 0, bytes.Length);
      return bytes;
    }
  }

  /// <summary>Structs of quern.h in memory of their own, what they point to, and callbacks that they name.</summary>
  internal sealed class Held : IDisposable {
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    private delegate void LogCallback(IntPtr user, int level, IntPtr text);
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    private delegate void EventCallback(IntPtr user, IntPtr told);
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    private delegate int ProgressCallback(IntPtr user, ulong done, ulong total, IntPtr result);

    private readonly List<IntPtr> blocks = new List<IntPtr>();
    private readonly List<Delegate> callbacks = new List<Delegate>();  // the collector does not see what C has
    private ExceptionDispatchInfo thrown;

    internal IntPtr Keep(int bytes) {
      var place = Marshal.AllocHGlobal(Math.Max(bytes, 8));
      blocks.Add(place);
      Marshal.Copy(new byte[Math.Max(bytes, 8)], 0, place, Math.Max(bytes, 8));
      return place;
    }
    internal IntPtr Struct(int bytes) {
      var place = Keep(bytes);
      Marshal.WriteInt32(place, bytes);
      return place;
    }
    internal static byte[] Utf8(string argument, string value) {
      if (value == null) return null;
      var nul = value.IndexOf('\0');
      if (nul >= 0) {
        throw new ArgumentException(argument + ": a NUL given at character " + nul + "; allowed is text without one");
      }
      return Encoding.UTF8.GetBytes(value + "\0");
    }
    internal IntPtr Text(string argument, string value) {
      var bytes = Utf8(argument, value);
      if (bytes == null) return IntPtr.Zero;
      var place = Keep(bytes.Length);
      Marshal.Copy(bytes, 0, place, bytes.Length);
      return place;
    }

    internal void Put(IntPtr place, int value, int offset) {
      Marshal.WriteInt32(place, offset, value);
    }
    internal void Put(IntPtr place, uint value, int offset) {
      Marshal.WriteInt32(place, offset, unchecked((int)value));
    }
    internal void Put(IntPtr place, long value, int offset) {
      Marshal.WriteInt64(place, offset, value);
    }
    internal void Put(IntPtr place, ulong value, int offset) {
      Marshal.WriteInt64(place, offset, unchecked((long)value));
    }
    internal void Put(IntPtr place, float value, int offset) {
      Marshal.Copy(new[] { value }, 0, IntPtr.Add(place, offset), 1);
    }
    internal void Put(IntPtr place, double value, int offset) {
      Marshal.WriteInt64(place, offset, BitConverter.DoubleToInt64Bits(value));
    }
    internal void Text(IntPtr place, string argument, string value, int offset) {
      Marshal.WriteIntPtr(place, offset, Text(argument, value));
    }
    internal void Text(IntPtr place, string argument, string value, int offset, int length) {
      Text(place, argument, value, offset);
      Marshal.WriteInt64(place, length, value == null ? 0 : Encoding.UTF8.GetByteCount(value));
    }
    internal void Texts(IntPtr place, string argument, IList<string> values, int offset, int count) {
      if (values == null || values.Count == 0) return;
      var start = Keep(IntPtr.Size * values.Count);
      for (var i = 0; i < values.Count; ++i) {
        Marshal.WriteIntPtr(start, IntPtr.Size * i, Text(argument + "[" + i + "]", values[i]));
      }
      Marshal.WriteIntPtr(place, offset, start);
      Marshal.WriteInt64(place, count, values.Count);
    }
    internal void Numbers(IntPtr place, IList<long> values, int offset, int count) {
      if (values == null || values.Count == 0) return;
      var start = Keep(sizeof(long) * values.Count);
      for (var i = 0; i < values.Count; ++i) Marshal.WriteInt64(start, sizeof(long) * i, values[i]);
      Marshal.WriteIntPtr(place, offset, start);
      Marshal.WriteInt64(place, count, values.Count);
    }
    internal void Dtype(IntPtr place, ElementType? value, int offset) {
      if (value.HasValue) Marshal.WriteInt32(place, offset, (int)value.Value | 1 << 16);
    }
    internal void Part(IntPtr place, IntPtr? value, int offset) {
      Marshal.WriteIntPtr(place, offset, value ?? IntPtr.Zero);
    }

    internal void Log(IntPtr place, Action<int, string> told, int offset) {
      if (told == null) return;
      LogCallback made = (user, level, text) => Ending(() => told(level, Read.Utf8(text, int.MaxValue)));
      Callback(place, made, offset);
    }
    internal void Event(IntPtr place, Action<Event> told, int offset) {
      if (told == null) return;
      EventCallback made = (user, from) => Ending(() => told(new Event(from)));
      Callback(place, made, offset);
    }
    internal void Progress<T>(IntPtr place, Func<ulong, ulong, T, bool> told, int offset, Func<IntPtr, T> read) {
      if (told == null) return;
      ProgressCallback made = (user, done, total, result) => {
        try {
          return thrown != null || told(done, total, read(result)) ? 1 : 0;
        } catch (Exception any) {
          thrown = ExceptionDispatchInfo.Capture(any);
          return 1;
        }
      };
      Callback(place, made, offset);
    }
    private void Callback(IntPtr place, Delegate made, int offset) {
      callbacks.Add(made);
      Marshal.WriteIntPtr(place, offset, Marshal.GetFunctionPointerForDelegate(made));
    }
    // Nothing may be thrown into C, whose locks would stay held.
    private static void Ending(Action call) {
      try {
        call();
      } catch (Exception any) {
        Environment.FailFast("quern: a callback threw " + any, any);
      }
    }

    /// <summary>Goes on with what a progress callback has thrown.</summary>
    internal void Rethrow() {
      thrown?.Throw();
    }

    public void Dispose() {
      foreach (var block in blocks) Marshal.FreeHGlobal(block);
      blocks.Clear();
      callbacks.Clear();
    }
  }
}
