// How a fleet serves, on the CPU: one machine warms a cache and makes a signed bundle of it; the others take kernels
// from that bundle alone and never compile. What they lack is a miss, told at once. And a kernel of one's own.
// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Runtime.InteropServices;
using System.Threading;
using Quern;

public static class Serving {
  private static void Must(bool good, params object[] told) {
    if (!good) throw new Exception(string.Join(", ", told));
  }

  private static QuernException Failed(Action call) {
    try {
      call();
    } catch (QuernException refused) {
      return refused;
    }
    throw new Exception("nothing was refused");
  }

  private static void Prepare(Context context, ElementType type) {
    using (var a = new Tensor(type, 4, 64))
    using (var b = new Tensor(type, 8, 64))
    using (var output = new Tensor(type, 4, 8)) {
      context.GemmPrepare(new GemmArgs { A = a, B = b, Out = output });
    }
  }

  private static ContextOptions From(string bundle, string trusted) {
    return new ContextOptions {
      DeviceType = DeviceType.Host, Flags = Constants.ContextNoCache, MissPolicy = Constants.MissCachedOnly,
      Bundles = new[] { bundle }, TrustedKeys = new[] { trusted }
    };
  }

  // Warms a cache, and makes a signed bundle of it. Returns what is in there, as a manifest.
  private static string Build(string folder, string bundle, Keys keys) {
    int compiled = 0, lines = 0;
    var options = new ContextOptions {
      DeviceType = DeviceType.Host, CachePath = Path.Combine(folder, "cache"), LogLevel = Constants.LogDebug,
      Log = (level, text) => Interlocked.Add(ref lines, text.Length),
      Event = told => Interlocked.Add(ref compiled, told.Kind == Constants.EventCompiled ? 1 : 0)
    };
    using (var context = new Context(options)) {
      Prepare(context, ElementType.F32);
      var manifest = context.Manifest();
      Must(manifest.StartsWith("gemm host "), manifest);
      Must(compiled > 0 && lines > 0, "no event or log told of a compilation");

      // Warming again finds all of it. A model is warmed in the same way; what Progress returns can cancel.
      var seen = new List<string>();
      var results = context.Warm(new WarmOptions {
        Manifest = manifest, Progress = (done, total, result) => {
          seen.Add(result.Key);
          return false;
        }
      });
      Must(results.Count > 0 && seen.Count == results.Count, results.Count, seen.Count);
      Must(results.All(result => result.Outcome == Constants.WarmHit && result.Op == "gemm"), "not all were there");
      var listing = new WarmOptions {
        Flags = Constants.WarmListOnly | Constants.WarmAllowUnserved, Targets = new[] { "sm_90a" },
        Model = new Model {
          HiddenSize = 512, IntermediateSize = 1024, Layers = 2, Heads = 8, KvHeads = 2, HeadDim = 64, VocabSize = 1000,
          Dtype = ElementType.Bf16
        }
      };
      var needed = context.Warm(listing).Count;
      listing.Progress = (done, total, result) => done == 2;
      var cancelled = Failed(() => context.Warm(listing));
      Must(cancelled.Status == Constants.Partial, cancelled);
      Must(cancelled.Results.Count >= 2 && cancelled.Results.Count < needed, cancelled.Results.Count, needed);
      // What Progress throws cancels as well, and comes out of the call.
      listing.Progress = (done, total, result) => throw new TimeoutException("enough");
      try {
        context.Warm(listing);
        throw new Exception("an exception was lost");
      } catch (TimeoutException) {
      }

      Must(context.CacheVerify().Count > 0, "nothing was verified");
      var entries = context.CacheList("gemm");
      Must(entries.Count == seen.Count, entries.Count, seen.Count);
      var entry = context.CacheInspect(entries[0].Key);
      Must(entry.Image.Length > 0 && (ulong)entry.Image.Length == entry.ImageSize, entry.ImageSize);
      var stats = context.CacheStats();
      Must(stats.State == Constants.CacheReady && stats.Path.StartsWith(folder), stats.Path, stats.Reason);
      Must(context.CacheExport(bundle) >= (ulong)seen.Count, "too few were exported");
      keys.Sign(bundle);
      return manifest;
    }
  }

  // Takes kernels from a signed bundle alone.
  private static void Serve(string bundle, string trusted, string manifest) {
    using (var context = new Context(From(bundle, trusted))) {
      var loaded = (ulong)context.Load(new WarmOptions { Manifest = manifest }).Count;
      var stats = context.Stats();
      Must(stats.CacheHits == loaded && stats.Compiled == 0, stats.CacheHits, stats.Compiled, loaded);
      Prepare(context, ElementType.F32);
      Must(Failed(() => Prepare(context, ElementType.Bf16)).Status == Constants.Miss, "no miss");
      Must(context.Wait(0) && context.Cancel() == 0, "something is compiled in the background");
      Must(context.Unload("gemm") == loaded, "not all were unloaded");
    }
  }

  // A kernel of the caller's own.
  private static void Scale(string folder) {
    var options = new ContextOptions { DeviceType = DeviceType.Host, CachePath = Path.Combine(folder, "cache") };
    using (var context = new Context(options))
    using (var x = new Tensor(ElementType.F32, 1000)) {
      var kernel = context.Kernel(new KernelDesc {
        Entry = "scale", Name = "scale.cu", Constants = { { "BY", "3.0f" } },
        Source = "#include \"quern/kernel.cuh\"\n" +
            "QUERN_KERNEL(scale, 256, 1, float *x, int n) {\n" +
            "  const int i = q::block_index(0) * 256 + q::thread_index();\n" +
            "  if (i < n) x[i] *= BY;\n" +
            "}\n"
      });
      Marshal.Copy(Enumerable.Range(0, 1000).Select(i => (float)i).ToArray(), 0, x.Data, 1000);
      Must(kernel.Info().Key.Length == 32, kernel.Info().Key);
      kernel.Launch(new Launch { Grid = new[] { 4u }, Block = new[] { 256u } }, x, 1000);
      var numbers = new float[1000];
      Marshal.Copy(x.Data, numbers, 0, 1000);
      Must(numbers[1] == 3 && numbers[999] == 2997, numbers[1], numbers[999]);
    }
  }

  // What a fleet's cache is looked after with.
  private static void LookAfter(string folder) {
    var options = new ContextOptions { DeviceType = DeviceType.Host, CachePath = Path.Combine(folder, "cache") };
    using (var context = new Context(options)) {
      Must(context.DeviceInfo().Target == "host", context.DeviceInfo().Target);
      Must(context.Doctor().Count > 0 && context.Failures().Count == 0, "nothing is here, or something failed");
      // Every kernel is run, and held against double precision.
      var verified = context.Verify(new VerifyOptions { Prefix = "gemm", Seed = 7 });
      Must(verified.Count > 0 && verified[0].Outcome == Constants.VerifyAgrees, verified.Count);
      var tuned = context.Tune(new TuneOptions {
        Manifest = "gemm * dtype=f32 n=8 k=64", Rows = new[] { 16L }, Flags = Constants.TuneListOnly
      });
      Must(tuned[0].Outcome == Constants.TuneAbsent && tuned[0].Rows == 16, tuned[0].Outcome);
      Must(context.CacheTrim(new TrimOptions { Flags = Constants.TrimAll }).Kept == 0, "not all is gone");
      Must(Failed(() => context.Faults()).Status == Constants.Invalid, "faults of a context that is not checked");
    }
    var flags = (uint)(Constants.ContextChecked | Constants.ContextNoCache);
    using (var context = new Context(new ContextOptions { DeviceType = DeviceType.Host, Flags = flags })) {
      Must(context.Faults().Count == 0, "faults without a call");
    }
  }

  public static void Main() {
    var folder = Path.Combine(Path.GetTempPath(), "quern-serving-" + Guid.NewGuid());
    try {
      var bundle = Path.Combine(folder, "kernels.bundle");
      Directory.CreateDirectory(folder);
      var keys = Keys.Make();
      Must(Keys.Of(keys.SecretKey).PublicKey == keys.PublicKey, keys.PublicKey);
      Serve(bundle, keys.PublicKey, Build(folder, bundle, keys));
      // A bundle that none of the trusted keys has signed serves nothing.
      using (var context = new Context(From(bundle, Keys.Make().PublicKey))) {
        var refused = Failed(() => Prepare(context, ElementType.F32));
        Must(refused.Status == Constants.Miss, "another's bundle was used");
      }
      // The same bundle in another cache.
      var other = new ContextOptions {
        CachePath = Path.Combine(folder, "other"), TrustedKeys = new[] { keys.PublicKey }
      };
      using (var context = new Context(other)) Must(context.CacheImport(bundle) > 0, "nothing was imported");
      Scale(folder);
      LookAfter(folder);
      try {
        using (new Context(new ContextOptions { Target = "sm_90\0a" })) throw new Exception("a NUL was not refused");
      } catch (ArgumentException refused) {
        Must(refused.Message.StartsWith("Target: a NUL given at character 5"), refused);
      }
    } finally {
      Directory.Delete(folder, true);
    }
    Console.WriteLine("serving: a signed bundle served, what it lacks was a miss");
  }
}
