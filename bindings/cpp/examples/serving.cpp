// How a fleet serves, on `host`: one machine warms a cache and makes a signed bundle of it; the others take kernels
// from that bundle alone and never compile. What they lack is a miss, told at once. And a kernel of one's own.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <quern.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void must(bool good, const std::string& told) {
  if (!good) throw std::runtime_error(told);
}

quern::Result<void> prepare(const quern::Context& context, DLDataType type) {
  const quern::Tensor a(nullptr, type, {4, 64}), b(nullptr, type, {8, 64}), out(nullptr, type, {4, 8});
  return context.prepare(quern::Gemm{.a = a, .b = b, .out = out});
}

constexpr DLDataType kFloat = {kDLFloat, 32, 1}, kHalf = {kDLBfloat, 16, 1};

// Warms a cache, and makes a signed bundle of it. Gives what is in there, as a manifest.
std::string build(const std::string& folder, const std::string& bundle, const quern::Keys& keys) {
  std::atomic<int> compiled = 0, lines = 0;
  const auto count = [&](const quern::Event& event) { compiled += event.kind == QUERN_EVENT_COMPILED ? 1 : 0; };
  const quern::ContextOptions options = {.device_type = kDLCPU,
                                         .cache_path = folder + "/cache",
                                         .log_level = QUERN_LOG_DEBUG,
                                         .log = [&](std::int32_t, std::string_view) { ++lines; },
                                         .event = count};
  const auto context = quern::Context::open(options).value();
  prepare(context, kFloat).value();
  const std::string manifest = context.manifest().value();
  must(manifest.starts_with("gemm host "), manifest);
  must(compiled > 0 && lines > 0, "no event or log told of a compilation");

  // Warming again finds all of it. A model is warmed in the same way; what progress returns can cancel.
  std::vector<std::string> seen;
  const auto note = [&](std::uint64_t, std::uint64_t, const quern::WarmResult& result) {
    seen.push_back(result.key);
    return false;
  };
  const auto results = context.warm({.manifest = manifest, .progress = note}).value();
  must(!results.empty() && seen.size() == results.size(), "not all was told");
  for (const quern::WarmResult& result : results) must(result.outcome == QUERN_WARM_HIT, result.text);
  quern::WarmOptions listing;
  listing.flags = QUERN_WARM_LIST_ONLY | QUERN_WARM_ALLOW_UNSERVED;
  listing.targets = {"sm_90a"};
  listing.model = quern::Model{.hidden_size = 512,
                               .intermediate_size = 1024,
                               .layers = 2,
                               .heads = 8,
                               .kv_heads = 2,
                               .head_dim = 64,
                               .vocab_size = 1000};
  const std::size_t needed = context.warm(listing).value().size();
  listing.progress = [](std::uint64_t done, std::uint64_t, const quern::WarmResult&) { return done == 2; };
  std::vector<quern::WarmResult> partial;
  const auto cancelled = context.warm(listing, &partial);
  must(!cancelled && cancelled.error().status == QUERN_PARTIAL, "progress did not cancel");
  must(partial.size() >= 2 && partial.size() < needed, std::to_string(partial.size()) + " results");
  // What it throws cancels as well, and comes out of the call.
  listing.progress = [](std::uint64_t, std::uint64_t, const quern::WarmResult&) -> bool {
    throw std::domain_error("enough");
  };
  try {
    static_cast<void>(context.warm(listing));
    must(false, "an exception was lost");
  } catch (const std::domain_error&) {
  }

  must(!context.cache_verify().value().empty(), "nothing was verified");
  const auto entries = context.cache_list("gemm").value();
  must(entries.size() == seen.size(), std::to_string(entries.size()) + " entries");
  const auto entry = context.cache_inspect(entries.front().key).value();
  must(!entry.image.empty() && entry.image.size() == entry.image_size, "an entry without its image");
  const auto stats = context.cache_stats().value();
  must(stats.state == QUERN_CACHE_READY && stats.path.starts_with(folder), stats.path + stats.reason);
  must(context.cache_export(bundle).value() >= seen.size(), "too few were exported");
  keys.sign(bundle).value();
  return manifest;
}

quern::Context from(const std::string& bundle, const std::string& trusted) {
  const quern::ContextOptions options = {.flags = QUERN_CONTEXT_NO_CACHE,
                                         .device_type = kDLCPU,
                                         .miss_policy = QUERN_MISS_CACHED_ONLY,
                                         .bundles = {bundle},
                                         .trusted_keys = {trusted}};
  return quern::Context::open(options).value();
}

// Takes kernels from a signed bundle alone.
void serve(const std::string& bundle, const std::string& trusted, const std::string& manifest) {
  const auto context = from(bundle, trusted);
  const std::size_t loaded = context.load({.manifest = manifest}).value().size();
  const auto stats = context.stats().value();
  must(stats.cache_hits == loaded && stats.compiled == 0, "not all came from the bundle");
  prepare(context, kFloat).value();
  const auto missed = prepare(context, kHalf);
  must(!missed && missed.error().status == QUERN_MISS, "what the bundle lacks was there");
  must(context.wait(0).value() && context.cancel().value() == 0, "something is compiled in the background");
  must(context.unload("gemm").value() == loaded, "not all were unloaded");
}

// A kernel of the caller's own.
void scale(const std::string& folder) {
  const quern::ContextOptions options = {.device_type = kDLCPU, .cache_path = folder + "/cache"};
  const auto context = quern::Context::open(options).value();
  const char* text =
      "#include \"quern/kernel.cuh\"\n"
      "QUERN_KERNEL(scale, 256, 1, float *x, int n) {\n"
      "  const int i = q::block_index(0) * 256 + q::thread_index();\n"
      "  if (i < n) x[i] *= BY;\n"
      "}\n";
  const auto kernel =
      context.kernel({.entry = "scale", .source = {"scale.cu", text}, .constants = {{"BY", "3.0f"}}}).value();
  must(kernel.info().value().key.size() == 32, "a kernel without a key");
  std::vector<float> x(1000);
  std::iota(x.begin(), x.end(), 0.0F);
  auto how = quern::sized<quern_launch>();
  how.grid_x = 4;
  how.block_x = 256;
  kernel.launch(how, x.data(), 1000).value();
  must(x[1] == 3 && x[999] == 2997, "scaled to " + std::to_string(x[1]));
}

// What a fleet's cache is looked after with.
void look_after(const std::string& folder) {
  const quern::ContextOptions options = {.device_type = kDLCPU, .cache_path = folder + "/cache"};
  const auto context = quern::Context::open(options).value();
  must(context.device().value().target == "host", "another target");
  must(!context.doctor().value().empty() && context.failures().value().empty(), "nothing is here, or something failed");
  // Every kernel is run, and held against double precision.
  const auto verified = context.verify({.prefix = "gemm", .seed = 7}).value();
  must(!verified.empty() && verified[0].outcome == QUERN_VERIFY_AGREES, "a kernel differs");
  const std::string products = "gemm * dtype=f32 n=8 k=64";
  const auto tuned = context.tune({.flags = QUERN_TUNE_LIST_ONLY, .manifest = products, .rows = {16}}).value();
  must(tuned.at(0).outcome == QUERN_TUNE_ABSENT && tuned[0].rows == 16, tuned[0].text);
  must(context.cache_trim({.flags = QUERN_TRIM_ALL}).value().kept == 0, "not all is gone");
  must(!context.faults().has_value(), "faults of a context that is not checked");
  const quern::ContextOptions checked = {.flags = QUERN_CONTEXT_CHECKED | QUERN_CONTEXT_NO_CACHE,
                                         .device_type = kDLCPU};
  must(quern::Context::open(checked).value().faults().value().empty(), "faults without a call");
}

void fleet(const std::string& folder) {
  const std::string bundle = folder + "/kernels.bundle";
  const quern::Keys keys = quern::Keys::make().value();
  must(quern::Keys::of(keys.secret_key).value().public_key == keys.public_key, "another public key");
  serve(bundle, keys.public_key, build(folder, bundle, keys));
  // A bundle that none of the trusted keys has signed serves nothing.
  const auto missed = prepare(from(bundle, quern::Keys::make().value().public_key), kFloat);
  must(!missed && missed.error().status == QUERN_MISS, "another's bundle was used");
  // The same bundle in another cache.
  const quern::ContextOptions other = {.cache_path = folder + "/other", .trusted_keys = {keys.public_key}};
  must(quern::Context::open(other).value().cache_import(bundle).value() > 0, "nothing was imported");
  scale(folder);
  look_after(folder);
  const auto refused = quern::Context::open(quern::ContextOptions{.target = std::string("sm_90\0a", 7)});
  must(!refused && refused.error().text.starts_with("target: a NUL given at byte 5"), "a NUL was not refused");
}

}  // namespace

int main() {
  const std::string folder = std::filesystem::temp_directory_path() / ("quern-serving-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  int failed = 0;
  try {
    fleet(folder);
    std::puts("serving: a signed bundle served, what it lacks was a miss");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    failed = 1;
  }
  std::filesystem::remove_all(folder);
  return failed;
}
