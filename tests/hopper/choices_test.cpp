// The matrix products of Hopper in every way that they can be taken, also those that the model leaves to tuning: each
// variant, split-K, cluster multicast; operands in every order. All of it gives the
// product.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>

#include "jit/tensor_maps.h"
#include "sources/gemm/plan/choose.h"
#include "sources/gemm/plan/tunings.h"
#include "tests/hopper/device.h"
#include "tests/hopper/numbers.h"

namespace quern::hopper_tests {
namespace {

using ops::gemm::Choice;

// Engines come and go with the schedules, what they compile stays.
jit::Compiled compiled_once(const jit::CompileJob& job) {
  static std::mutex mutex;
  static std::map<std::string, jit::Compiled> done;
  static jit::Compilers compilers{jit::CompilerOptions{}};
  {
    const std::lock_guard lock(mutex);
    if (const auto found = done.find(job.source); found != done.end()) return found->second;
  }
  jit::Compiled compiled = compilers.compile(job);
  const std::lock_guard lock(mutex);
  return done.emplace(job.source, std::move(compiled)).first->second;
}

// What an op's calls work with, on a machine of its own.
class Library {
 public:
  explicit Library(Schedule schedule)
      : machine_(schedule),
        service_([] {
          jit::Service::Options options;
          options.store.no_file = true;
          return options;
        }()),
        maps_(machine_.driver()),
        tunings_(service_),
        engine_([this] {
          jit::EngineOptions options;
          options.driver = &machine_.driver();
          options.service = &service_;
          options.compile = compiled_once;
          options.describe = ops::describe;
          return options;
        }()) {}
  ops::Runtime runtime() { return {&engine_, &machine_.driver(), jit::Miss::compile, &maps_, &tunings_}; }
  Machine& machine() { return machine_; }

 private:
  Machine machine_;
  jit::Service service_;
  jit::TensorMaps maps_;
  ops::gemm::Tunings tunings_;
  jit::Engine engine_;
};

struct Order {
  const char* name;
  bool a, b;  // stored [k][m], [k][n]
};
void PrintTo(const Order& order, std::ostream* out) { *out << order.name; }
constexpr Order kOrders[] = {{"nt", false, false}, {"nn", false, true}, {"tn", true, true}, {"tt", true, false}};

struct Extents {
  int m, n, k, batch;
};

// An operand of [batch][lines][k] whole numbers, in either order, with NaN between its rows.
class Operand {
 public:
  static constexpr int kPadding = 8;
  Operand(const char* type, const Extents& e, int lines, bool transposed, unsigned seed)
      : lines_(lines),
        k_(e.k),
        numbers_(small_numbers(static_cast<std::size_t>(e.batch) * static_cast<std::size_t>(lines * e.k), seed)),
        shape_{e.batch, lines, e.k} {
    const int rows = transposed ? e.k : lines, columns = transposed ? lines : e.k, pitch = columns + kPadding;
    const std::vector<unsigned char> codes = encode_all(type, numbers_);
    std::vector<unsigned char> stored(static_cast<std::size_t>(e.batch * rows * pitch) * 2, 0xff);
    for (int group = 0; group < e.batch; ++group) {
      for (int line = 0; line < lines; ++line) {
        for (int k = 0; k < e.k; ++k) {
          const int to = (group * rows + (transposed ? k : line)) * pitch + (transposed ? line : k);
          std::memcpy(&stored[static_cast<std::size_t>(to) * 2], &codes[index(group, line, k) * 2], 2);
        }
      }
    }
    memory_.emplace(stored);
    strides_[0] = std::int64_t{rows} * pitch;
    strides_[1] = transposed ? 1 : pitch, strides_[2] = transposed ? pitch : 1;
    tensor_.dtype = {static_cast<std::uint8_t>(std::string(type) == "f16" ? kDLFloat : kDLBfloat), 16, 1};
  }
  int at(int group, int line, int k) const { return numbers_[index(group, line, k)]; }
  const DLTensor* tensor(const jit::DeviceInfo& device) {
    tensor_.data = memory_->data();
    tensor_.device = {static_cast<decltype(DLDevice::device_type)>(device.device_type), device.device_id};
    tensor_.ndim = 3;
    tensor_.shape = shape_, tensor_.strides = strides_;
    return &tensor_;
  }

 private:
  std::size_t index(int group, int line, int k) const {
    return static_cast<std::size_t>((group * lines_ + line) * k_ + k);
  }

  int lines_, k_;
  std::vector<int> numbers_;
  std::int64_t shape_[3], strides_[3];
  std::optional<Memory> memory_;
  DLTensor tensor_{};
};

class Product {
 public:
  Product(const char* type, const Order& order, const Extents& extents)
      : e_(extents),
        a_(type, extents, extents.m, order.a, 1),
        b_(type, extents, extents.n, order.b, 2),
        shape_{e_.batch, e_.m, e_.n} {
    for (int group = 0; group < e_.batch; ++group) {
      for (int m = 0; m < e_.m; ++m) {
        for (int n = 0; n < e_.n; ++n) {
          int sum = 0;
          for (int k = 0; k < e_.k; ++k) sum += a_.at(group, m, k) * b_.at(group, n, k);
          expected_.push_back(static_cast<float>(sum));
        }
      }
    }
  }

  std::vector<Choice> candidates(Library& library) {
    const ops::gemm::Problem problem = read(library, nullptr);
    return ops::gemm::candidates(problem, ops::gemm::sizes_of(problem));
  }
  // How many results are wrong, and which is the first; empty where all are right.
  std::string run(Library& library, const Choice& choice) {
    const Memory out(expected_.size() * sizeof(float));
    ops::gemm::Problem problem = read(library, out.data());
    try {
      ops::gemm::launch_as(library.runtime(), problem, choice, nullptr, 0);
    } catch (const std::exception& error) {
      return error.what();
    }
    if (std::string failure = library.machine().synchronize(); !failure.empty()) return failure;
    const std::vector<float> got = out.read<float>();
    std::size_t wrong = 0, first = 0;
    for (std::size_t i = got.size(); i-- > 0;) {
      if (got[i] != expected_[i]) ++wrong, first = i;
    }
    if (wrong == 0) return {};
    return std::to_string(wrong) + " of " + std::to_string(got.size()) + " are wrong; number " + std::to_string(first) +
           " is " + std::to_string(got[first]) + " rather than " + std::to_string(expected_[first]);
  }

 private:
  ops::gemm::Problem read(Library& library, void* data) {
    const jit::DeviceInfo& device = library.machine().driver().device();
    DLTensor out = *a_.tensor(device);
    out.data = data;
    out.dtype = {kDLFloat, 32, 1};
    out.shape = shape_, out.strides = nullptr;
    quern_gemm_args args{};
    args.size = sizeof(args);
    args.a = a_.tensor(device), args.b = b_.tensor(device), args.out = &out;
    return ops::gemm::read_problem(args, library.runtime(), data == nullptr);
  }

  Extents e_;
  Operand a_, b_;
  std::int64_t shape_[3];
  std::vector<float> expected_;
};

class HopperChoices : public testing::TestWithParam<Order> {};

// Rows for each variant, none of whose tiles is whole; so many columns that there are neighbouring tiles, k blocks to
// divide.
TEST_P(HopperChoices, GiveTheProduct) {
  constexpr std::uint64_t kSchedules = 2;  // a fair one, and one of the others
  const Extents all[] = {
      {16, 296, 264, 1}, {24, 296, 328, 2}, {56, 296, 264, 1}, {120, 296, 520, 1}, {328, 584, 200, 1}};
  const bool both = GetParam().a == GetParam().b;
  std::set<std::string> taken;
  int runs = 0;
  for (const Extents& extents : all) {
    Product product(both ? "bf16" : "f16", GetParam(), extents);
    for (std::uint64_t seed = 0; seed < (on_cuda() ? 1 : kSchedules); ++seed) {
      Library library({seed > 0, seed});
      for (const Choice& choice : product.candidates(library)) {
        const std::string text = ops::gemm::Tunings::text_of(choice);
        SCOPED_TRACE(text + " of " + std::to_string(extents.m) + " rows, seed " + std::to_string(seed));
        ASSERT_EQ(product.run(library, choice), "");
        taken.insert(text);
        ++runs;
      }
    }
  }
  std::printf("%s: %zu choices, %d runs\n", GetParam().name, taken.size(), runs);
  for (const char* choice : {"persistent_128x128 parts=1 peers=1", "persistent_128x128 parts=1 peers=2",
                             "persistent_128x256 parts=1 peers=1"}) {
    EXPECT_EQ(taken.count(choice), 1u) << choice;
  }
  // Where both operands lie row by row small_m takes the place of swap_ab.
  const bool row_by_row = !GetParam().a && !GetParam().b;
  for (const char* choice : {"swap_ab_16 parts=1 peers=1", "swap_ab_16 parts=2 peers=1", "swap_ab_16 parts=1 peers=2",
                             "swap_ab_32 parts=2 peers=2", "swap_ab_64 parts=1 peers=2", "swap_ab_128 parts=1 peers=1",
                             "swap_ab_128 parts=2 peers=2", "swap_ab_128 parts=3 peers=1"}) {
    EXPECT_EQ(taken.count(choice), row_by_row ? 0u : 1u) << choice;
  }
  EXPECT_EQ(taken.count("small_m_64x32 parts=1 peers=1"), row_by_row ? 1u : 0u);
  EXPECT_EQ(taken.count("persistent_128x176 parts=1 peers=1"), GetParam().b ? 0u : 1u);
  // Nor are fitted tiles for other orders, which take the place of these.
  EXPECT_EQ(taken.count("persistent_128x192 parts=1 peers=1"), row_by_row ? 0u : 1u);
  EXPECT_EQ(std::any_of(taken.begin(), taken.end(), [](const std::string& one) { return one.starts_with("fitted"); }),
            row_by_row);
}
INSTANTIATE_TEST_SUITE_P(Orders, HopperChoices, testing::ValuesIn(kOrders),
                         [](const testing::TestParamInfo<Order>& order) { return std::string(order.param.name); });

}  // namespace
}  // namespace quern::hopper_tests
