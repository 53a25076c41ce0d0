// Times every choice that a Hopper GPU has for given products of matrices: what the costs of sources/gemm/plan/cost.cpp
// are fitted from.
//
//   quern_gemm_choices [--compile] [--cache FOLDER] [--seconds N] [--rounds N] [--without VARIANTS] FILE
//
// Each line of FILE is a product, "KIND M N K" with KIND bf16, tensor, row or block. Writes that line and behind it one
// for each choice, "  VARIANT PARTS PEERS US", of fitted "VARIANT:TILES:TWINS PARTS PEERS US". Each choice is checked
// against the product's first choice and then timed as a CUDA graph of launches on operands that come from memory. With
// --compile kernels are compiled into the cache and nothing is run.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "jit/driver.h"
#include "jit/engine.h"
#include "jit/error.h"
#include "jit/service.h"
#include "jit/tensor_maps.h"
#include "sources/gemm/plan/choose.h"
#include "sources/gemm/plan/cost.h"
#include "sources/gemm/plan/tunings.h"
#include "sources/workspace.h"
#include "tests/bench/device/cuda.h"

namespace quern::bench {
namespace {

using ops::gemm::Choice;

struct Product {
  std::string kind;
  std::int64_t m, n, k;
};

std::vector<Product> read_products(const char* path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(std::string(path) + " cannot be read");
  std::vector<Product> all;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Product p;
    if (words >> p.kind >> p.m >> p.n >> p.k) all.push_back(p);
  }
  return all;
}

// What calls work with, below the C interface: a call through that cannot say which variant it wants.
class Library {
 public:
  explicit Library(const std::string& folder)
      : driver_(jit::open_cuda(0, {})),
        service_([&] {
          jit::Service::Options options;
          options.store.folder = folder;
          options.store.no_file = folder.empty();
          return options;
        }()),
        maps_(*driver_),
        tunings_(service_),
        engine_([this] {
          jit::EngineOptions options;
          options.driver = driver_.get();
          options.service = &service_;
          options.describe = ops::describe;
          return options;
        }()) {}
  ops::Runtime runtime() { return {&engine_, driver_.get(), jit::Miss::compile, &maps_, &tunings_}; }
  jit::Driver& driver() { return *driver_; }

 private:
  std::unique_ptr<jit::Driver> driver_;
  jit::Service service_;
  jit::TensorMaps maps_;
  ops::gemm::Tunings tunings_;
  jit::Engine engine_;
};

// Operands lie in one pool of random numbers, set after set, and results in another.
constexpr std::uint64_t kPoolBytes = std::uint64_t{1} << 30, kResultBytes = std::uint64_t{1} << 29,
                        kRotatedBytes = std::uint64_t{192} << 20, kMostSets = 96;
constexpr std::uint64_t kWorkspaceBytes = std::uint64_t{256} << 20;

class Machine {
 public:
  explicit Machine(Library& library) : library_(library), bench_(library.driver().bench()) {
    CudaResult (*retain)(void** context, int device) = nullptr;
    CudaResult (*set_current)(void* context) = nullptr;
    demo::bind_cuda(retain, "cuDevicePrimaryCtxRetain");
    demo::bind_cuda(set_current, "cuCtxSetCurrent");
    demo::bind_cuda(copy_out_, "cuMemcpyDtoH_v2");
    void* context = nullptr;
    demo::check_cuda(retain(&context, 0), "retaining the GPU's primary context");
    demo::check_cuda(set_current(context), "making the GPU's primary context current");
    pool_ = static_cast<std::uint8_t*>(bench_->allocate(kPoolBytes));
    results_ = static_cast<std::uint8_t*>(bench_->allocate(kResultBytes));
    workspace_ = bench_->allocate(kWorkspaceBytes);
    scales_ = static_cast<float*>(bench_->allocate(kScales * sizeof(float)));
    const std::vector<std::uint8_t> zeros(ops::kCounterBytes);
    bench_->write(workspace_, zeros.data(), zeros.size());
    std::vector<float> scales(kScales);
    for (std::size_t i = 0; i < kScales; ++i) scales[i] = 0.5f + static_cast<float>(i * 2654435761u % 1024) / 1024;
    bench_->write(scales_, scales.data(), kScales * sizeof(float));
  }
  // Fills the pool with numbers of magnitudes between 1/2 and 2: the power that a device draws depends on the bits.
  void fill(bool bytes) {
    if (filled_ && bytes == bytes_) return;
    std::vector<std::uint64_t> words(std::size_t{4} << 20);
    std::uint64_t state = 1;
    for (std::uint64_t& word : words) {
      state += 0x9e3779b97f4a7c15u;  // splitmix64
      std::uint64_t x = state;
      x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u, x = (x ^ x >> 27) * 0x94d049bb133111ebu, x ^= x >> 31;
      word = bytes ? (x & 0x8787878787878787u) | 0x3030303030303030u : (x & 0x80ff80ff80ff80ffu) | 0x3f003f003f003f00u;
    }
    for (std::uint64_t at = 0; at < kPoolBytes; at += words.size() * 8)
      bench_->write(pool_ + at, words.data(), words.size() * 8);
    filled_ = true, bytes_ = bytes;
  }
  // `without`: variants whose names begin with it are left out, unless it is empty.
  // `rounds`: how often those that may be the fastest are timed again, in turns.
  void run(const Product& product, bool compile_only, int rounds, const std::string& without);

 private:
  static constexpr std::size_t kScales = std::size_t{4} << 20;
  ops::gemm::Problem problem(const Product& p, std::uint8_t* a, std::uint8_t* b, std::uint8_t* out, bool may_lack_data);

  Library& library_;
  Cuda cuda_;
  CudaResult (*copy_out_)(void* to, CudaPointer from, std::size_t bytes) = nullptr;
  std::unique_ptr<jit::Bench> bench_;
  std::uint8_t *pool_ = nullptr, *results_ = nullptr;
  void* workspace_ = nullptr;
  float* scales_ = nullptr;
  bool filled_ = false, bytes_ = false;
};

struct Tensor {
  std::int64_t shape[2], strides[2];
  DLTensor tensor{};
  Tensor(void* data, std::uint8_t code, std::uint8_t bits, std::int64_t rows, std::int64_t columns, std::int64_t row,
         std::int64_t column)
      : shape{rows, columns}, strides{row, column} {
    tensor.data = data;
    tensor.device = {kDLCUDA, 0};
    tensor.ndim = 2;
    tensor.dtype = {code, bits, 1};
    tensor.shape = shape, tensor.strides = strides;
  }
  Tensor(const Tensor&) = delete;
};

ops::gemm::Problem Machine::problem(const Product& p, std::uint8_t* a, std::uint8_t* b, std::uint8_t* out,
                                    bool may_lack_data) {
  const bool wide = p.kind == "bf16", block = p.kind == "block";
  const std::uint8_t code = wide ? kDLBfloat : kDLFloat8_e4m3fn, bits = wide ? 16 : 8;
  Tensor ta(a, code, bits, p.m, p.k, p.k, 1), tb(b, code, bits, p.n, p.k, p.k, 1),
      to(out, kDLBfloat, 16, p.m, p.n, p.n, 1);
  const std::int64_t blocks = (p.k + 127) / 128;
  const auto common = [&](auto args) {
    args.size = sizeof(args);
    args.stream = bench_->stream();
    args.a = &ta.tensor, args.b = &tb.tensor, args.out = &to.tensor;
    return args;
  };
  if (wide) return ops::gemm::read_problem(common(quern_gemm_args{}), library_.runtime(), may_lack_data);
  quern_fp8_gemm_args args = common(quern_fp8_gemm_args{});
  Tensor sa(scales_, kDLFloat, 32, p.m, blocks, 1, (p.m + 3) / 4 * 4),
      sb(scales_ + kScales / 2, kDLFloat, 32, (p.n + 127) / 128, blocks, blocks, 1);
  Tensor va(scales_, kDLFloat, 32, p.m, 1, 1, 1), vb(scales_ + kScales / 2, kDLFloat, 32, p.n, 1, 1, 1);
  Tensor oa(scales_, kDLFloat, 32, 1, 1, 1, 1), ob(scales_ + kScales / 2, kDLFloat, 32, 1, 1, 1, 1);
  va.tensor.ndim = vb.tensor.ndim = oa.tensor.ndim = ob.tensor.ndim = 1;
  args.scale_a = block ? &sa.tensor : p.kind == "row" ? &va.tensor : &oa.tensor;
  args.scale_b = block ? &sb.tensor : p.kind == "row" ? &vb.tensor : &ob.tensor;
  return ops::gemm::read_problem(args, library_.runtime(), may_lack_data);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

float number(std::uint16_t bf16) {
  const std::uint32_t bits = std::uint32_t{bf16} << 16;
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

// 1 - 2<x,y>/(x^2+y^2) of two results in bf16.
double difference(const std::vector<std::uint16_t>& x, const std::vector<std::uint16_t>& y) {
  double product = 0, squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double a = number(x[i]), b = number(y[i]);
    product += a * b, squares += a * a + b * b;
  }
  return 1 - 2 * product / squares;
}

void Machine::run(const Product& p, bool compile_only, int rounds, const std::string& without) {
  const ops::Runtime runtime = library_.runtime();
  const std::uint64_t element = p.kind == "bf16" ? 2 : 1;
  const auto rounded = [](std::uint64_t bytes) { return (bytes + 1023) / 1024 * 1024; };
  const std::uint64_t a = rounded(p.m * p.k * element), b = rounded(p.n * p.k * element), out = rounded(p.m * p.n * 2);
  const std::uint64_t each = a + b;
  if (2 * each > kPoolBytes || 2 * out > kResultBytes) throw std::runtime_error("a product is larger than the pool");
  const std::uint64_t sets = std::min({kMostSets, kPoolBytes / each, kResultBytes / out,
                                       std::max<std::uint64_t>((kRotatedBytes + each - 1) / each, 2)});
  std::vector<ops::gemm::Problem> problems;
  for (std::uint64_t i = 0; i < sets; ++i) {
    std::uint8_t* at = pool_ + i * each;
    problems.push_back(problem(p, at, at + a, results_ + i * out, false));
  }
  const ops::gemm::Sizes sizes = ops::gemm::sizes_of(problems[0]);
  std::vector<Choice> choices = ops::gemm::candidates(problems[0], sizes);
  std::erase_if(choices, [&](const Choice& choice) {
    return !without.empty() && std::string(name_of(choice.variant)).starts_with(without);
  });
  for (const bool background : {true, false}) {
    for (const Choice& choice : choices) {
      ops::gemm::Problem shape = problems[0];
      if (background) shape.flags |= QUERN_CALL_BACKGROUND;
      try {
        ops::gemm::kernel_of(runtime, shape, choice.variant);
      } catch (const Error& error) {
        if (error.status() != QUERN_PENDING) throw;
      }
    }
  }
  if (compile_only) return;
  // What is expected to take much longer than the best is left out.
  constexpr double kWorthTiming = 1.8;
  std::vector<double> expected_us;
  for (const Choice& choice : choices) {
    const ops::gemm::Sizes alike{ops::gemm::row_class(p.m), 1};
    expected_us.push_back(cost_of(problems[0], fitted_to(*tiling_of(problems[0], choice.variant), choice, alike.rows),
                                  choice, alike, ops::gemm::all_sms(problems[0])));
  }
  const double most = kWorthTiming * *std::min_element(expected_us.begin(), expected_us.end());
  for (std::size_t i = choices.size(); i-- > 0;) {
    if (expected_us[i] > most) choices.erase(choices.begin() + static_cast<std::ptrdiff_t>(i));
  }
  fill(element == 1);
  struct Timed {
    Choice choice;
    std::unique_ptr<Graph> graph;
    std::vector<double> times;
    bool wrong = false;
  };
  // Long products need fewer calls.
  const std::uint64_t least_calls = static_cast<double>(p.m) * static_cast<double>(p.n * p.k) > 3e10 ? 4 : 12;
  const int calls = static_cast<int>((least_calls + sets - 1) / sets * sets);
  std::vector<std::uint16_t> expected, got(std::min<std::uint64_t>(p.m * p.n, 1 << 17));
  std::vector<Timed> all;
  double least = 1e30;
  for (const Choice& choice : choices) {
    Timed timed{choice, nullptr, {}};
    const auto launch = [&](std::size_t set) {
      ops::gemm::Problem problem = problems[set % sets];
      ops::gemm::launch_as(runtime, problem, choice, workspace_, kWorkspaceBytes);
    };
    launch(0);
    bench_->start();
    bench_->stop();
    demo::check_cuda(copy_out_(got.data(), reinterpret_cast<CudaPointer>(results_), got.size() * 2), "reading");
    if (expected.empty()) expected = got;
    timed.wrong = !(difference(got, expected) < 1e-3);
    timed.graph = std::make_unique<Graph>(cuda_, bench_->stream(), [&] {
      for (int i = 0; i < calls; ++i) launch(static_cast<std::size_t>(i));
    });
    const auto replay = [&] {
      bench_->start();
      timed.graph->launch();
      timed.times.push_back(bench_->stop() / calls);
    };
    timed.graph->launch();
    replay();
    if (timed.times[0] < 2 * least) replay();
    least = std::min(least, median(timed.times));
    all.push_back(std::move(timed));
  }
  // Those that may be the fastest once more, in turns.
  for (int round = 0; round < rounds; ++round) {
    for (Timed& timed : all) {
      if (timed.times[0] > 1.08 * least) continue;
      bench_->start();
      timed.graph->launch();
      timed.times.push_back(bench_->stop() / calls);
    }
  }
  std::printf("%s %lld %lld %lld\n", p.kind.c_str(), static_cast<long long>(p.m), static_cast<long long>(p.n),
              static_cast<long long>(p.k));
  for (const Timed& timed : all) {
    const std::string tiles = timed.choice.tiles > 0
                                  ? ":" + std::to_string(timed.choice.tiles) + ":" + std::to_string(timed.choice.twins)
                                  : "";
    std::printf("  %s%s %d %d %.2f%s\n", name_of(timed.choice.variant), tiles.c_str(), timed.choice.parts,
                timed.choice.peers, median(timed.times), timed.wrong ? " WRONG" : "");
  }
  std::fflush(stdout);
}

}  // namespace
}  // namespace quern::bench

int main(int count, char** arguments) {
  using namespace quern;
  bool compile_only = false;
  std::string cache, without;
  double seconds = 1e9;
  int rounds = 3;
  const char* path = nullptr;
  for (int i = 1; i < count; ++i) {
    const std::string word = arguments[i];
    if (word == "--compile")
      compile_only = true;
    else if (word == "--without" && i + 1 < count)
      without = arguments[++i];
    else if (word == "--cache" && i + 1 < count)
      cache = arguments[++i];
    else if (word == "--seconds" && i + 1 < count)
      seconds = std::atof(arguments[++i]);
    else if (word == "--rounds" && i + 1 < count)
      rounds = std::atoi(arguments[++i]);
    else
      path = arguments[i];
  }
  if (path == nullptr)
    return std::fprintf(
               stderr,
               "usage: quern_gemm_choices [--compile] [--cache FOLDER] [--seconds N] [--rounds N] [--without VARIANTS] "
               "FILE\n"),
           2;
  try {
    const auto start = std::chrono::steady_clock::now();
    bench::Library library(cache);
    bench::Machine machine(library);
    int done = 0;
    for (const bench::Product& product : bench::read_products(path)) {
      if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds) break;
      try {
        machine.run(product, compile_only, rounds, without);
        ++done;
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s %lld %lld %lld: %s\n", product.kind.c_str(), static_cast<long long>(product.m),
                     static_cast<long long>(product.n), static_cast<long long>(product.k), error.what());
      }
    }
    std::fprintf(stderr, "%d products in %.1f s\n", done,
                 std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
  }
  return 0;
}
