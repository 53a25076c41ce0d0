// The engine's look-up, and the way from a Spec to a key.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <stdexcept>

#include "jit/engine.h"
#include "jit/key.h"
#include "sources/op.h"
#include "tests/bench/llama.h"

namespace quern::bench {
namespace {

constexpr const char* kPtx = ".version 8.0\n.target sm_90\n";

jit::Spec toy(std::uint32_t n) {
  jit::Spec spec;
  spec.target = jit::Target::parse("sm_90a").tag();
  spec.words[0] = n;
  return spec;
}

jit::Unit describe_toy(const jit::Spec& spec) {
  jit::Unit unit;
  unit.op = "toy";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = "toy";
  unit.constants = {{"N", std::to_string(spec.words[0])}};
  unit.source = {"toy.cuh", "int n = N;\n"};
  return unit;
}

jit::Compiled compile_toy(const jit::CompileJob&) {
  jit::Compiled compiled;
  compiled.image = std::string(kPtx) + '\0';
  compiled.compiler_kind = "toy";
  return compiled;
}

// Among as many kernels as the argument says, in random order.
void engine_find(benchmark::State& state) {
  const auto kernels = static_cast<std::uint32_t>(state.range(0));
  const auto driver = jit::open_cuda(0, {QUERN_BENCH_FAKE_CUDA});
  cache::StoreOptions memory;
  memory.no_file = true;
  jit::Service service({memory, {}, 0});
  jit::EngineOptions options;
  options.driver = driver.get();
  options.service = &service;
  options.compile = compile_toy;
  options.describe = describe_toy;
  jit::Engine engine(options);
  std::vector<jit::Spec> specs;
  for (std::uint32_t n = 0; n < kernels; ++n) {
    engine.ready(toy(n), jit::Miss::compile, nullptr);
    for (int copies = 0; copies < 16; ++copies) specs.push_back(toy(n));
  }
  std::shuffle(specs.begin(), specs.end(), std::mt19937(1));
  std::size_t at = 0;
  while (state.KeepRunning()) {
    const jit::Kernel* kernel = engine.find(specs[at]);
    if (kernel == nullptr) {
      state.SkipWithError("a kernel that is ready was not found");
      break;
    }
    benchmark::DoNotOptimize(kernel);
    at = at + 1 == specs.size() ? 0 : at + 1;
  }
}
BENCHMARK(engine_find)->Arg(8)->Arg(64)->Arg(1024);

jit::Spec attention_spec() {
  const jit::TargetInfo target = jit::limits_of(jit::Target::parse("sm_90a"));
  const quern_model model = llama_3_8b();
  std::vector<jit::Spec> specs;
  ops::find("attention")->list(model, target, &specs);
  if (specs.empty()) throw std::runtime_error("attention lists nothing for Llama-3-8B");
  return specs.front();
}

// What a miss costs before the cache is asked: unit, the files that go in, canonical text with the SHA-256 of each,
// key.
void spec_to_key(benchmark::State& state) {
  const jit::Spec spec = attention_spec();
  while (state.KeepRunning()) {
    const jit::Unit unit = ops::describe(spec);
    const std::string text = jit::canonical_text(unit, jit::used_files(unit));
    benchmark::DoNotOptimize(jit::key_of(text));
  }
}
BENCHMARK(spec_to_key)->Unit(benchmark::kMicrosecond);

void canonical_text_and_key(benchmark::State& state) {
  const jit::Unit unit = ops::describe(attention_spec());
  const std::vector<jit::File> used = jit::used_files(unit);
  while (state.KeepRunning()) benchmark::DoNotOptimize(jit::key_of(jit::canonical_text(unit, used)));
}
BENCHMARK(canonical_text_and_key)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace quern::bench
