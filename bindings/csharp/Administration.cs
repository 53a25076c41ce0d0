// Warming, the record of what was specialised, the cache, and what is installed: the calls that are no ops'.
// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;

namespace Quern {
  internal static partial class Native {
    [DllImport(Library)]
    internal static extern int quern_device(IntPtr context, IntPtr told, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_get_stats(IntPtr context, IntPtr told, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_cache_get_stats(IntPtr context, IntPtr told, ref Error error);
    [DllImport(Library)]
    internal static extern ulong quern_list_count(IntPtr list);
    [DllImport(Library)]
    internal static extern void quern_list_free(IntPtr list);
    [DllImport(Library)]
    internal static extern int quern_list_warm_result(IntPtr list, ulong index, IntPtr item);
    [DllImport(Library)]
    internal static extern int quern_list_tune_result(IntPtr list, ulong index, IntPtr item);
    [DllImport(Library)]
    internal static extern int quern_list_verify_result(IntPtr list, ulong index, IntPtr item);
    [DllImport(Library)]
    internal static extern int quern_list_entry(IntPtr list, ulong index, IntPtr item);
    [DllImport(Library)]
    internal static extern int quern_list_finding(IntPtr list, ulong index, IntPtr item);
    [DllImport(Library)]
    internal static extern int quern_list_fault(IntPtr list, ulong index, IntPtr item);
    [DllImport(Library)]
    internal static extern int quern_warm(IntPtr context, IntPtr options, out IntPtr list, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_load(IntPtr context, IntPtr options, out IntPtr list, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_tune(IntPtr context, IntPtr options, out IntPtr list, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_verify(IntPtr context, IntPtr options, out IntPtr list, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_cache_list(IntPtr context, byte[] prefix, out IntPtr list, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_cache_inspect(IntPtr context, byte[] key, out IntPtr list, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_cache_verify(IntPtr context, out IntPtr list, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_doctor(IntPtr context, out IntPtr list, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_failures(IntPtr context, out IntPtr list, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_faults(IntPtr context, out IntPtr list, IntPtr total, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_unload(IntPtr context, byte[] prefix, out ulong count, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_wait(IntPtr context, ulong milliseconds, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_cancel(IntPtr context, out ulong count, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_manifest(IntPtr context, IntPtr buffer, ref ulong length, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_cache_trim(IntPtr context, IntPtr options, IntPtr result, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_cache_export(
        IntPtr context, byte[] path, byte[] prefix, out ulong count, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_cache_import(IntPtr context, byte[] path, out ulong count, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_keys_make(IntPtr secret, IntPtr made, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_keys_public(byte[] secret, IntPtr made, ref Error error);
    [DllImport(Library)]
    internal static extern int quern_bundle_sign(byte[] path, byte[] secret, ref Error error);
  }

  /// <summary>A pair of keys: the secret one signs bundles, the other goes into ContextOptions.TrustedKeys.</summary>
  public sealed class Keys {
    private const int Bytes = 65;  // 64 digits and a NUL
    public readonly string SecretKey;
    public readonly string PublicKey;

    private Keys(string secretKey, string publicKey) {
      SecretKey = secretKey;
      PublicKey = publicKey;
    }
    public static Keys Make() {
      var error = Error.Blank();
      using (var held = new Held()) {
        IntPtr secret = held.Keep(Bytes), made = held.Keep(Bytes);
        Context.Check(Native.quern_keys_make(secret, made, ref error), error);
        return new Keys(Read.Utf8(secret, Bytes), Read.Utf8(made, Bytes));
      }
    }
    /// <summary>The pair of a secret key.</summary>
    public static Keys Of(string secretKey) {
      var error = Error.Blank();
      using (var held = new Held()) {
        var made = held.Keep(Bytes);
        Context.Check(Native.quern_keys_public(Held.Utf8("secretKey", secretKey), made, ref error), error);
        return new Keys(secretKey, Read.Utf8(made, Bytes));
      }
    }
    /// <summary>Verifies a bundle and puts a signature over all of it behind those that it has.</summary>
    public void Sign(string path) {
      var error = Error.Blank();
      var file = Held.Utf8("path", path);
      Context.Check(Native.quern_bundle_sign(file, Held.Utf8("SecretKey", SecretKey), ref error), error);
    }
  }

  public sealed partial class Context {
    private delegate int Telling(IntPtr context, IntPtr told, ref Error error);
    private delegate int Listing(out IntPtr list, ref Error error);
    private delegate int Asking(IntPtr context, IntPtr options, out IntPtr list, ref Error error);
    private delegate int Inspecting(IntPtr context, out IntPtr list, ref Error error);
    private delegate int Getting(IntPtr list, ulong index, IntPtr item);

    /// <summary>What the device is.</summary>
    public DeviceInfo DeviceInfo() {
      return Told(Native.quern_device, Quern.DeviceInfo.Bytes, from => new DeviceInfo(from));
    }
    /// <summary>Counts of kernels, hits, misses and compilations.</summary>
    public Stats Stats() {
      return Told(Native.quern_get_stats, Quern.Stats.Bytes, from => new Stats(from));
    }
    /// <summary>Where the cache is, what is in it and whether it serves.</summary>
    public CacheStats CacheStats() {
      return Told(Native.quern_cache_get_stats, Quern.CacheStats.Bytes, from => new CacheStats(from));
    }

    /// <summary>Compiles and stores what of the manifest and the model is not in the cache or a bundle, without
    /// touching a device. Where some failed, or Progress cancelled, the exception is Partial and has the results there are.
    /// </summary>
    public IReadOnlyList<WarmResult> Warm(WarmOptions options) {
      return Warmed(Native.quern_warm, options);
    }
    /// <summary>Makes what Warm makes of the context's own target, as its miss policy has it, and loads it on the
    /// device.</summary>
    public IReadOnlyList<WarmResult> Load(WarmOptions options) {
      return Warmed(Native.quern_load, options);
    }
    /// <summary>Unloads the kernels of an op, or those whose key begins with prefix; null: all. None of them may be
    /// running, or be in a captured graph that is launched again. Returns how many they were.</summary>
    public ulong Unload(string prefix = null) {
      var error = Error.Blank();
      Check(Native.quern_unload(Handle, Held.Utf8("prefix", prefix), out var count, ref error), error);
      return count;
    }
    /// <summary>Waits until nothing is being compiled in the background, for at most so many milliseconds; false where
    /// something still is.</summary>
    public bool Wait(ulong milliseconds) {
      var error = Error.Blank();
      var status = Native.quern_wait(Handle, milliseconds, ref error);
      if (status != Constants.Pending) Check(status, error);
      return status == 0;
    }
    /// <summary>Drops the compilations in the background that have not begun. Returns how many they were.</summary>
    public ulong Cancel() {
      var error = Error.Blank();
      Check(Native.quern_cancel(Handle, out var count, ref error), error);
      return count;
    }
    /// <summary>Everything this context has specialised, as Warm and `quern warm` read it.</summary>
    public string Manifest() {
      for (var room = 1UL;;) {
        using (var held = new Held()) {
          var error = Error.Blank();
          var buffer = held.Keep(checked((int)room));
          var length = room;
          Check(Native.quern_manifest(Handle, buffer, ref length, ref error), error);
          if (length < room) return Read.Utf8(buffer, (int)length);
          room = length + 1;
        }
      }
    }
    /// <summary>Measures on the context's device which kernels do matrix products fastest, and keeps them in the cache.
    /// </summary>
    public IReadOnlyList<TuneResult> Tune(TuneOptions options) {
      return Asked(Native.quern_tune, options.Write, Native.quern_list_tune_result, TuneResult.Bytes,
          from => new TuneResult(from));
    }
    /// <summary>Runs every cached kernel on the context's device and holds it against the `host` target's execution.
    /// Where one differs or failed, the exception is Damaged and has the results.</summary>
    public IReadOnlyList<VerifyResult> Verify(VerifyOptions options) {
      return Asked(Native.quern_verify, options.Write, Native.quern_list_verify_result, VerifyResult.Bytes,
          from => new VerifyResult(from));
    }
    /// <summary>Every entry whose key begins with prefix, or whose op or target equals it; null: all.</summary>
    public IReadOnlyList<Entry> CacheList(string prefix = null) {
      var text = Held.Utf8("prefix", prefix);
      return Entries((out IntPtr list, ref Error error) =>
          Native.quern_cache_list(Handle, text, out list, ref error));
    }
    /// <summary>The one entry whose key begins with key (at least 4 digits), image and all.</summary>
    public Entry CacheInspect(string key) {
      var text = Held.Utf8("key", key);
      return Entries((out IntPtr list, ref Error error) =>
          Native.quern_cache_inspect(Handle, text, out list, ref error))[0];
    }
    /// <summary>Reads and checks every row and bundle. Where one does not verify, the exception is Damaged and has the
    /// findings.</summary>
    public IReadOnlyList<Finding> CacheVerify() {
      return Findings(Native.quern_cache_verify);
    }
    /// <summary>What is here: drivers, devices, compilers, the helper, the cache.</summary>
    public IReadOnlyList<Finding> Doctor() {
      return Findings(Native.quern_doctor);
    }
    /// <summary>Every kernel that a compiler has refused in this context and not made since, with the compiler's log.
    /// </summary>
    public IReadOnlyList<Finding> Failures() {
      return Findings(Native.quern_failures);
    }
    /// <summary>What calls of a checked context found wrong in their index tensors since this was asked last.</summary>
    public IReadOnlyList<Fault> Faults() {
      return Listed((out IntPtr list, ref Error error) =>
          Native.quern_faults(Handle, out list, IntPtr.Zero, ref error), Native.quern_list_fault, Fault.Bytes,
          from => new Fault(from));
    }
    /// <summary>Removes entries, least recently used first.</summary>
    public TrimResult CacheTrim(TrimOptions options) {
      using (var given = new Held()) {
        return Told((IntPtr context, IntPtr told, ref Error error) =>
            Native.quern_cache_trim(context, options.Write(given), told, ref error), TrimResult.Bytes,
            from => new TrimResult(from));
      }
    }
    /// <summary>Writes the cache, or what prefix selects as in CacheList, as a bundle; path is absolute. Returns the
    /// number of entries.</summary>
    public ulong CacheExport(string path, string prefix = null) {
      var error = Error.Blank();
      byte[] file = Held.Utf8("path", path), selected = Held.Utf8("prefix", prefix);
      Check(Native.quern_cache_export(Handle, file, selected, out var count, ref error), error);
      return count;
    }
    /// <summary>Adds a bundle's entries to the cache, all verified before the first is written. Returns how many were
    /// not there.</summary>
    public ulong CacheImport(string path) {
      var error = Error.Blank();
      Check(Native.quern_cache_import(Handle, Held.Utf8("path", path), out var count, ref error), error);
      return count;
    }

    private T Told<T>(Telling call, int bytes, Func<IntPtr, T> read) {
      using (var given = new Held()) {
        var place = given.Struct(bytes);
        var error = Error.Blank();
        Check(call(Handle, place, ref error), error);
        return read(place);
      }
    }
    private IReadOnlyList<WarmResult> Warmed(Asking call, WarmOptions options) {
      return Asked(call, options.Write, Native.quern_list_warm_result, WarmResult.Bytes, from => new WarmResult(from));
    }
    private IReadOnlyList<Entry> Entries(Listing call) {
      return Listed(call, Native.quern_list_entry, Entry.Bytes, from => new Entry(from));
    }
    private IReadOnlyList<Finding> Findings(Inspecting call) {
      return Listed((out IntPtr list, ref Error error) => call(Handle, out list, ref error), Native.quern_list_finding,
          Finding.Bytes, from => new Finding(from));
    }
    private IReadOnlyList<T> Asked<T>(
        Asking call, Func<Held, IntPtr> write, Getting get, int bytes, Func<IntPtr, T> read) where T : class {
      using (var given = new Held()) {
        var options = write(given);
        return Listed((out IntPtr list, ref Error error) => {
          var status = call(Handle, options, out list, ref error);
          if (status == Constants.Partial) given.Rethrow();
          return status;
        }, get, bytes, read);
      }
    }
    // What a call that gives a list has put there. Where it failed with some of it, that goes with the exception.
    private static IReadOnlyList<T> Listed<T>(Listing call, Getting get, int bytes, Func<IntPtr, T> read)
        where T : class {
      var error = Error.Blank();
      var list = IntPtr.Zero;
      try {
        var status = call(out list, ref error);
        var items = new List<T>();
        if (list != IntPtr.Zero) {
          using (var held = new Held()) {
            var place = held.Struct(bytes);
            var count = Native.quern_list_count(list);
            for (var i = 0UL; i < count; ++i) {
              if (get(list, i, place) != 0) throw new InvalidOperationException("item " + i + " cannot be read");
              items.Add(read(place));
            }
          }
        }
        if (status != 0) throw new QuernException(error) { Results = items };
        return items;
      } finally {
        Native.quern_list_free(list);
      }
    }
  }
}
