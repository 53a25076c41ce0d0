// The cache: opening, getting and putting an image of an attention kernel's size.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <stdexcept>

#include "cache/store.h"
#include "jit/key.h"
#include "tests/bench/folder.h"

namespace quern::bench {
namespace {

constexpr std::size_t kImageBytes = 48 << 10;

cache::Entry entry(int number) {
  cache::Entry made;
  made.text = "quern 1\nop bench\nconst N " + std::to_string(number) + "\n" + std::string(1500, '-');
  made.op = "bench";
  made.target = "sm_90a";
  made.entry_name = "bench";
  made.compiler_kind = "nvrtc";
  made.compiler_build = "13.0";
  made.image.resize(kImageBytes);
  std::uint32_t bits = static_cast<std::uint32_t>(number) + 1;
  for (char& c : made.image) {
    bits = bits * 1664525 + 1013904223;
    c = static_cast<char>(bits >> 24);
  }
  return made;
}

cache::StoreOptions in(const Folder& folder) {
  cache::StoreOptions options;
  options.folder = folder.path() + "/cache";
  return options;
}

void put(cache::Store& store, const cache::Entry& made) {
  if (store.put(jit::key_of(made.text), made) != cache::Put::stored) throw std::runtime_error("not stored");
}

void get(benchmark::State& state, cache::Store& store, const cache::Entry& made, const cache::Key& key) {
  cache::Entry got;
  if (!store.get(key, made.text, "", &got)) state.SkipWithError("what was stored is not there");
  benchmark::DoNotOptimize(got.image.data());
}

void cache_get(benchmark::State& state) {
  const Folder folder;
  cache::Store store(in(folder));
  const cache::Entry made = entry(0);
  const cache::Key key = jit::key_of(made.text);
  put(store, made);
  while (state.KeepRunning()) get(state, store, made, key);
}
BENCHMARK(cache_get)->Unit(benchmark::kMicrosecond);

// As a process does that finds its first kernel there.
void cache_open_get_close(benchmark::State& state) {
  const Folder folder;
  const cache::Entry made = entry(0);
  const cache::Key key = jit::key_of(made.text);
  {
    cache::Store store(in(folder));
    put(store, made);
  }
  while (state.KeepRunning()) {
    cache::Store store(in(folder));
    get(state, store, made, key);
  }
}
BENCHMARK(cache_open_get_close)->Unit(benchmark::kMicrosecond);

void cache_put(benchmark::State& state) {
  const Folder folder;
  cache::Store store(in(folder));
  int number = 0;
  while (state.KeepRunning()) {
    state.PauseTiming();
    const cache::Entry made = entry(++number);
    state.ResumeTiming();
    put(store, made);
  }
}
BENCHMARK(cache_put)->Unit(benchmark::kMicrosecond)->Iterations(200);

}  // namespace
}  // namespace quern::bench
