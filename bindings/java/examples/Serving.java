// How a fleet serves, on the CPU: one machine warms a cache and makes a signed bundle of it; the others take kernels
// from that bundle alone and never compile. What they lack is a miss, told at once. And a kernel of one's own.
// SPDX-License-Identifier: Apache-2.0
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import quern.Kernel;
import quern.Ops;
import quern.Quern;
import quern.Quern.Tensor;
import quern.Quern.Type;
import quern.Records;

public final class Serving {
  static void must(boolean good, Object... told) {
    if (!good) {
      throw new AssertionError(List.of(told).toString());
    }
  }

  static Quern.Failure failed(Runnable call) {
    try {
      call.run();
    } catch (Quern.Failure failure) {
      return failure;
    }
    throw new AssertionError("nothing was refused");
  }

  static Ops.Gemm product(Type type) {
    return new Ops.Gemm().a(Tensor.zeros(type, 4, 64)).b(Tensor.zeros(type, 8, 64)).out(Tensor.zeros(type, 4, 8));
  }

  static Records.ContextOptions host() {
    return new Records.ContextOptions().deviceType(Quern.CPU);
  }

  static Records.ContextOptions serving(String bundle, String trusted) {
    return host().flags(Ops.Constants.CONTEXT_NO_CACHE).missPolicy(Ops.Constants.MISS_CACHED_ONLY)
        .bundles(List.of(bundle)).trustedKeys(List.of(trusted));
  }

  // Warms a cache, and makes a signed bundle of it. Returns what is in there, as a manifest.
  static String build(Path folder, String bundle, String secret) {
    AtomicInteger compiled = new AtomicInteger(), lines = new AtomicInteger();
    Records.ContextOptions options = host().cachePath(folder.resolve("cache").toString())
        .logLevel(Ops.Constants.LOG_DEBUG).log((level, text) -> lines.addAndGet(text.isEmpty() ? 0 : 1))
        .event(event -> compiled.addAndGet(event.kind() == Ops.Constants.EVENT_COMPILED ? 1 : 0));
    try (Quern.Context context = new Quern.Context(options)) {
      context.prepare(product(Type.F32));
      String manifest = context.manifest();
      must(manifest.startsWith("gemm host "), manifest);
      must(compiled.get() > 0 && lines.get() > 0, "no event or log told of a compilation");

      // Warming again finds all of it. A model is warmed in the same way; what progress returns can cancel.
      List<String> seen = new ArrayList<>();
      List<Records.WarmResult> results =
          context.warm(new Records.WarmOptions().manifest(manifest).progress((done, total, result) -> {
            seen.add(result.key());
            return false;
          }));
      must(!results.isEmpty() && seen.size() == results.size(), results, seen);
      for (Records.WarmResult result : results) {
        must(result.outcome() == Ops.Constants.WARM_HIT && result.op().equals("gemm"), result);
      }
      Records.Model model = new Records.Model().hiddenSize(512).intermediateSize(1024).layers(2).heads(8).kvHeads(2)
          .headDim(64).vocabSize(1000).dtype(Type.BF16);
      Records.WarmOptions listing = new Records.WarmOptions().model(model).targets(List.of("sm_90a"))
          .flags(Ops.Constants.WARM_LIST_ONLY | Ops.Constants.WARM_ALLOW_UNSERVED);
      int needed = context.warm(listing).size();
      Quern.Failure cancelled = failed(() -> context.warm(listing.progress((done, total, result) -> done == 2)));
      must(cancelled.status == Ops.Constants.PARTIAL, cancelled);
      must(cancelled.results.size() >= 2 && cancelled.results.size() < needed, cancelled.results.size(), needed);
      // What progress throws cancels as well, and comes out of the call.
      try {
        context.warm(listing.progress((done, total, result) -> {
          throw new IllegalStateException("enough");
        }));
        throw new AssertionError("an exception was lost");
      } catch (IllegalStateException thrown) {
        must(thrown.getMessage().equals("enough"), thrown);
      }

      must(!context.cacheVerify().isEmpty(), "nothing was verified");
      List<Records.Entry> entries = context.cacheList("gemm");
      must(entries.size() == seen.size(), entries.size(), seen.size());
      Records.Entry entry = context.cacheInspect(entries.get(0).key());
      must(entry.image().length > 0 && entry.image().length == entry.imageSize(), entry);
      Records.CacheStats stats = context.cacheStats();
      must(stats.state() == Ops.Constants.CACHE_READY && stats.path().startsWith(folder.toString()), stats);
      must(context.cacheExport(bundle, null) >= seen.size(), "too few were exported");
      Quern.signBundle(bundle, secret);
      return manifest;
    }
  }

  // Takes kernels from a signed bundle alone.
  static void serve(String bundle, String trusted, String manifest) {
    try (Quern.Context context = new Quern.Context(serving(bundle, trusted))) {
      long loaded = context.load(new Records.WarmOptions().manifest(manifest)).size();
      Records.Stats stats = context.stats();
      must(stats.cacheHits() == loaded && stats.compiled() == 0, stats);
      context.prepare(product(Type.F32));
      Quern.Failure missed = failed(() -> context.prepare(product(Type.BF16)));
      must(missed.status == Ops.Constants.MISS, missed);
      must(context.await(0) && context.cancel() == 0, "something is compiled in the background");
      must(context.unload("gemm") == loaded, "not all were unloaded");
    }
  }

  // A kernel of the caller's own.
  static void scale(Path folder) {
    String source = """
        #include "quern/kernel.cuh"
        QUERN_KERNEL(scale, 256, 1, float *x, int n) {
          const int i = q::block_index(0) * 256 + q::thread_index();
          if (i < n) x[i] *= BY;
        }
        """;
    try (Quern.Context context = new Quern.Context(host().cachePath(folder.resolve("cache").toString()))) {
      Kernel kernel = context.kernel(new Kernel.Desc("scale", "scale.cu", source).constant("BY", "3.0f"));
      Tensor x = Tensor.zeros(Type.F32, 1000);
      for (int i = 0; i < 1000; ++i) {
        x.memory().setAtIndex(JAVA_FLOAT, i, i);
      }
      must(kernel.info().key().length() == 32, kernel.info());
      kernel.launch(new Kernel.Launch(4, 256), x, 1000);
      must(x.memory().getAtIndex(JAVA_FLOAT, 1) == 3 && x.memory().getAtIndex(JAVA_FLOAT, 999) == 2997, "not scaled");
    }
  }

  // What a fleet's cache is looked after with.
  static void lookAfter(Path folder) {
    try (Quern.Context context = new Quern.Context(host().cachePath(folder.resolve("cache").toString()))) {
      must(context.deviceInfo().target().equals("host"), context.deviceInfo());
      must(!context.doctor().isEmpty() && context.failures().isEmpty(), "nothing is here, or something failed");
      // Every kernel is run, and held against double precision.
      List<Records.VerifyResult> verified = context.verify(new Records.VerifyOptions().prefix("gemm").seed(7));
      must(!verified.isEmpty() && verified.get(0).outcome() == Ops.Constants.VERIFY_AGREES, verified);
      List<Records.TuneResult> tuned = context.tune(new Records.TuneOptions().manifest("gemm * dtype=f32 n=8 k=64")
          .rows(new long[] {16}).flags(Ops.Constants.TUNE_LIST_ONLY));
      must(tuned.get(0).outcome() == Ops.Constants.TUNE_ABSENT && tuned.get(0).rows() == 16, tuned);
      must(context.cacheTrim(new Records.TrimOptions().flags(Ops.Constants.TRIM_ALL)).kept() == 0, "not all is gone");
      must(failed(context::faults).status == Ops.Constants.INVALID, "faults of a context that is not checked");
    }
    int flags = Ops.Constants.CONTEXT_CHECKED | Ops.Constants.CONTEXT_NO_CACHE;
    try (Quern.Context checked = new Quern.Context(host().flags(flags))) {
      must(checked.faults().isEmpty(), "faults without a call");
    }
  }

  public static void main(String[] arguments) throws IOException {
    Path folder = Files.createTempDirectory("quern-serving-");
    try {
      String bundle = folder.resolve("kernels.bundle").toString();
      Quern.Keys keys = Quern.Keys.make();
      must(Quern.Keys.of(keys.secretKey()).equals(keys), keys);
      serve(bundle, keys.publicKey(), build(folder, bundle, keys.secretKey()));
      // A bundle that none of the trusted keys has signed serves nothing.
      try (Quern.Context context = new Quern.Context(serving(bundle, Quern.Keys.make().publicKey()))) {
        Quern.Failure missed = failed(() -> context.prepare(product(Type.F32)));
        must(missed.status == Ops.Constants.MISS, "another's bundle was used");
      }
      // The same bundle in another cache.
      Records.ContextOptions other = new Records.ContextOptions().cachePath(folder.resolve("other").toString());
      try (Quern.Context context = new Quern.Context(other.trustedKeys(List.of(keys.publicKey())))) {
        must(context.cacheImport(bundle) > 0, "nothing was imported");
      }
      scale(folder);
      lookAfter(folder);
      try {
        host().target("sm_90\0a");
        throw new AssertionError("a NUL was not refused");
      } catch (IllegalArgumentException refused) {
        must(refused.getMessage().startsWith("target: a NUL given at character 5"), refused);
      }
    } finally {
      try (Stream<Path> files = Files.walk(folder)) {
        files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
      }
    }
    System.out.println("serving: a signed bundle served, what it lacks was a miss");
  }
}
