// Compiling the attention kernels of Llama-3-8B for sm_90a with NVRTC, and warming the whole list with the CLI.
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/demo/process.h"
#include "jit/compiler.h"
#include "sources/op.h"
#include "tests/bench/folder.h"
#include "tests/bench/host/children.h"
#include "tests/bench/llama.h"

namespace quern::bench {
namespace {

constexpr std::size_t kKernels = 4;  // of Llama-3-8B with one page size

struct Job {
  std::string name;  // "attention_decode"
  jit::CompileJob job;
};

// The kernels with pages of 16: those with pages of 64 differ in a constant.
std::vector<Job> jobs() {
  const jit::TargetInfo target = jit::limits_of(jit::Target::parse("sm_90a"));
  quern_model model = llama_3_8b();
  model.page_size = 16;
  std::vector<Job> all;
  for (const ops::Op& op : ops::all()) {
    std::vector<jit::Spec> specs;
    op.list(model, target, &specs);
    for (const jit::Spec& spec : specs) {
      const jit::Unit unit = ops::describe(spec);
      Job& job = all.emplace_back();
      job.name = op.name;
      for (const jit::Constant& constant : op.constants != nullptr ? op.constants(spec) : unit.constants) {
        if (constant.name == "variant") job.name += "_" + constant.value;
      }
      job.job = {unit.target, jit::render(unit).text, unit.entry, unit.options};
    }
  }
  if (all.empty()) throw std::runtime_error("no op lists a kernel for Llama-3-8B");
  return all;
}

// The argument is the kernel's place in the list; the label names it.
void nvrtc_compile(benchmark::State& state) {
  const std::vector<Job> all = jobs();
  const auto index = static_cast<std::size_t>(state.range(0));
  if (all.size() != kKernels) throw std::runtime_error("Llama-3-8B has " + std::to_string(all.size()) + " kernels now");
  const jit::CompileJob& job = all[index].job;
  jit::Compilers compilers({});
  std::size_t bytes = compilers.compile(job).image.size();  // opens NVRTC
  while (state.KeepRunning()) bytes = compilers.compile(job).image.size();
  state.counters["image_bytes"] = static_cast<double>(bytes);
  state.SetLabel(all[index].name);
}
BENCHMARK(nvrtc_compile)->DenseRange(0, kKernels - 1)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(3);

// Processor time of all processes that were waited for, in ms: what they cost whatever else this machine does.
double children_cpu_ms() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto ms = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

// What each iteration's processes cost, as a counter. Begins with the object.
class ChildrenCpu {
 public:
  explicit ChildrenCpu(benchmark::State& state) : state_(state) {}
  ~ChildrenCpu() {
    state_.counters["cpu_ms"] = (children_cpu_ms() - begin_) / static_cast<double>(state_.iterations());
  }
  ChildrenCpu(const ChildrenCpu&) = delete;
  ChildrenCpu& operator=(const ChildrenCpu&) = delete;

 private:
  benchmark::State& state_;
  const double begin_ = children_cpu_ms();
};

// The first compilation of a process, finding and opening NVRTC included.
void nvrtc_first_compile(benchmark::State& state) {
  const ChildrenCpu cpu(state);
  while (state.KeepRunning()) {
    const demo::Finished child = demo::run_process({own_path(), std::string(kCompileChild)}, true);
    if (child.code != 0) {
      state.SkipWithError("the child failed");
      break;
    }
    state.SetIterationTime(std::stod(child.output) / 1000);
  }
}
BENCHMARK(nvrtc_first_compile)->Unit(benchmark::kMillisecond)->UseManualTime()->Iterations(3);

// `quern warm` as a process of its own, for Llama-3-8B's config.json and sm_90a.
double warm(const std::string& cache) {
  const std::filesystem::path folder = std::filesystem::path(own_path()).parent_path();
  const std::string config = (folder / "../../tests/cli/data/configs/llama-3-8b.json").lexically_normal().string();
  const demo::Finished finished = demo::run_process(
      {(folder / "quern").string(), "warm", "--config", config, "--target", "sm_90a", "--cache", cache, "--quiet"},
      true);
  if (finished.code != 0) throw std::runtime_error("quern warm ended with code " + std::to_string(finished.code));
  return finished.milliseconds / 1000;
}

void warm_llama_3_8b_cold(benchmark::State& state) {
  const ChildrenCpu cpu(state);
  while (state.KeepRunning()) {
    const Folder folder;
    state.SetIterationTime(warm(folder.path() + "/cache"));
  }
}
BENCHMARK(warm_llama_3_8b_cold)->Unit(benchmark::kMillisecond)->UseManualTime()->Iterations(2);

void warm_llama_3_8b_all_there(benchmark::State& state) {
  const Folder folder;
  warm(folder.path() + "/cache");
  const ChildrenCpu cpu(state);
  while (state.KeepRunning()) state.SetIterationTime(warm(folder.path() + "/cache"));
}
BENCHMARK(warm_llama_3_8b_all_there)->Unit(benchmark::kMillisecond)->UseManualTime()->Iterations(10);

}  // namespace

double compile_once() {
  const jit::CompileJob job = jobs().front().job;
  const auto start = std::chrono::steady_clock::now();
  jit::Compilers compilers({});
  compilers.compile(job);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace quern::bench
