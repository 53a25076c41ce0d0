// What the cache promises in figures: a file of 100 000 entries is opened and looked into, and eight contexts that want
// one kernel at once have it compiled once. (A holder that is stopped, and fork during administration, are measured by
// quern_fault_tests; a cached kernel in a new process by the device benchmark.)
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cache/store.h"
#include "jit/engine.h"
#include "jit/key.h"
#include "jit/service.h"
#include "tests/bench/folder.h"

namespace quern::bench {
namespace {

constexpr int kEntries = 100'000;

cache::Entry entry(int number) {
  cache::Entry made;
  made.text = "quern 1\nop bench\nconst N " + std::to_string(number) + "\n";
  made.op = "bench";
  made.target = "sm_90a";
  made.entry_name = "bench";
  made.compiler_kind = "nvrtc";
  made.compiler_build = "13.0";
  made.image.assign(600, static_cast<char>(number));
  return made;
}

cache::StoreOptions in(const Folder& folder) {
  cache::StoreOptions options;
  options.folder = folder.path() + "/cache";
  options.limit_bytes = std::uint64_t{8} << 30;
  return options;
}

// Made once for both: half a minute or so.
const Folder& full() {
  static const std::unique_ptr<Folder> folder = [] {
    auto made = std::make_unique<Folder>();
    cache::Store store(in(*made));
    for (int i = 0; i < kEntries; ++i) {
      const cache::Entry one = entry(i);
      if (store.put(jit::key_of(one.text), one) != cache::Put::stored) throw std::runtime_error("not stored");
    }
    return made;
  }();
  return *folder;
}

void open_file_of_100000(benchmark::State& state) {
  const cache::StoreOptions options = in(full());
  while (state.KeepRunning()) {
    cache::Store store(options);
    store.open();
  }
}
BENCHMARK(open_file_of_100000)->Unit(benchmark::kMillisecond);

void look_up_among_100000(benchmark::State& state) {
  cache::Store store(in(full()));
  store.open();
  int number = 0;
  while (state.KeepRunning()) {
    number = static_cast<int>((number * 48271LL + 11) % kEntries);
    const std::string text = entry(number).text;
    cache::Entry got;
    if (!store.get(jit::key_of(text), text, "", &got)) state.SkipWithError("an entry is not there");
  }
}
BENCHMARK(look_up_among_100000)->Unit(benchmark::kMicrosecond);

// From nothing to eight engines that have the image; `compilations` must be 1. The compiler takes 20 ms.
void eight_contexts(benchmark::State& state) {
  int most = 0;
  while (state.KeepRunning()) {
    state.PauseTiming();
    const auto folder = std::make_unique<Folder>();
    std::vector<std::unique_ptr<jit::Service>> services;
    std::vector<std::unique_ptr<jit::Engine>> engines;
    std::atomic<int> compilations{0};
    for (int i = 0; i < 8; ++i) {
      jit::Service::Options own;
      own.store = in(*folder);
      services.push_back(std::make_unique<jit::Service>(own));
      jit::EngineOptions options;
      options.service = services.back().get();
      options.describe = [](const jit::Spec&) {
        jit::Unit unit;
        unit.op = "bench", unit.target = jit::Target::parse("sm_90a"), unit.entry = "bench";
        unit.source = {"bench.cuh", "// nothing"};
        return unit;
      };
      options.compile = [&](const jit::CompileJob&) {
        ++compilations;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        jit::Compiled made;
        made.image = std::string(1000, 'x'), made.compiler_kind = "bench", made.compiler_build = "1";
        return made;
      };
      engines.push_back(std::make_unique<jit::Engine>(std::move(options)));
    }
    state.ResumeTiming();
    std::vector<std::thread> threads;
    for (const auto& engine : engines) {
      threads.emplace_back([&engine] {
        jit::Spec spec;
        spec.target = jit::Target::parse("sm_90a").tag();
        engine->warm(spec, false);
      });
    }
    for (std::thread& thread : threads) thread.join();
    state.PauseTiming();
    most = std::max(most, compilations.load());
    engines.clear(), services.clear();
    state.ResumeTiming();
  }
  state.counters["compilations"] = most;
}
BENCHMARK(eight_contexts)->Unit(benchmark::kMillisecond)->Iterations(20)->UseRealTime();

}  // namespace
}  // namespace quern::bench
