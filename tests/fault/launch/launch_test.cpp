// A kernel is launched while faults happen under the cache and memory runs out: what it computes is right or an error,
// and it is compiled once at most.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <memory>

#include "jit/compiler.h"
#include "jit/driver.h"
#include "jit/engine.h"
#include "jit/error.h"
#include "sources/manifest.h"
#include "sources/ops.h"
#include "tests/cache/failing_new.h"
#include "tests/cache/fault_vfs.h"
#include "tests/cache/fixture.h"

namespace quern::cache::testing {
namespace {

constexpr std::int64_t kRows = 5, kHeads = 2, kDim = 16;

// A call of merge_state, with what must come of it.
class Call {
 public:
  Call() {
    for (std::size_t i = 0; i < a_.size(); ++i) a_[i] = std::sin(0.1f * static_cast<float>(i)), b_[i] = 1 - a_[i];
    for (std::size_t i = 0; i < lse_a_.size(); ++i)
      lse_a_[i] = 0.3f * static_cast<float>(i), lse_b_[i] = 2 - lse_a_[i];
    args_.size = sizeof(args_);
    args_.out_a = tensor(a_.data(), 3), args_.out_b = tensor(b_.data(), 3), args_.out = tensor(out_.data(), 3);
    args_.lse_a = tensor(lse_a_.data(), 2), args_.lse_b = tensor(lse_b_.data(), 2);
  }
  void poison() { out_.fill(-7); }
  void run(const ops::Runtime& runtime) {
    poison();
    ops::merge_state::run(runtime, args_);
  }
  bool is_right() const {
    for (std::size_t i = 0; i < out_.size(); ++i) {
      const double wa = std::exp(double{lse_a_[i / kDim]}), wb = std::exp(double{lse_b_[i / kDim]});
      if (!(std::abs(out_[i] - (wa * a_[i] + wb * b_[i]) / (wa + wb)) < 1e-5)) return false;
    }
    return true;
  }
  bool is_untouched() const {
    for (const float v : out_)
      if (v != -7) return false;
    return true;
  }

 private:
  const DLTensor* tensor(float* data, int rank) {
    DLTensor& t = tensors_[count_++];
    t.data = data, t.device = {kDLCPU, 0}, t.ndim = rank, t.dtype = {kDLFloat, 32, 1}, t.shape = shape_;
    return &t;
  }

  alignas(64) std::array<float, kRows * kHeads * kDim> a_{}, b_{}, out_{};
  alignas(64) std::array<float, kRows * kHeads> lse_a_{}, lse_b_{};
  std::int64_t shape_[3] = {kRows, kHeads, kDim};
  DLTensor tensors_[5] = {};
  std::size_t count_ = 0;
  quern_merge_state_args args_{};
};

class LaunchTest : public CacheTest {
 protected:
  // The image, compiled once for all tests.
  static const jit::Compiled& image() {
    static const jit::Compiled made = [] {
      jit::CompilerOptions options;
      options.helper_path = QUERN_TEST_HELPER;
      jit::Compilers compilers(options);
      const jit::Unit unit = ops::describe(spec());
      return compilers.compile({unit.target, jit::render(unit).text, unit.entry, unit.options, unit.keep_operands, {}});
    }();
    return made;
  }
  static jit::Spec spec() {
    return ops::to_spec(*ops::parse_line("merge_state host dtype=f32"), jit::Target::parse("host"));
  }
  static jit::Driver& driver() {
    static const std::unique_ptr<jit::Driver> made = jit::open_host({});
    return *made;
  }

  // A store, an engine and a call, as a fresh process has them; how often it compiled.
  int call(bool may_fail) {
    int compiled = 0;
    call_.poison();
    try {
      jit::Service service({quiet(), {}, 0});
      jit::EngineOptions options;
      options.driver = &driver();
      options.service = &service;
      options.describe = ops::describe;
      options.compile = [&](const jit::CompileJob&) {
        ++compiled;
        return image();
      };
      jit::Engine engine(std::move(options));
      ops::Runtime runtime{&engine, &driver(), jit::Miss::compile, nullptr, nullptr};
      call_.run(runtime);
      EXPECT_TRUE(call_.is_right());
      // Once more, from memory.
      call_.run(runtime);
      EXPECT_TRUE(call_.is_right());
    } catch (const quern::Error& error) {
      EXPECT_TRUE(may_fail) << error.text();
      EXPECT_TRUE(call_.is_untouched()) << error.text();
    } catch (const std::bad_alloc&) {
      EXPECT_TRUE(may_fail);
      EXPECT_TRUE(call_.is_untouched());
    }
    EXPECT_LE(compiled, 1);
    return compiled;
  }
  StoreOptions quiet() const {
    StoreOptions options;
    options.folder = folder_;
    return options;
  }
  void TearDown() override {
    fail_call(FaultKind::read, 0, false);
    CacheTest::TearDown();
  }

  Call call_;
};

constexpr FaultKind kKinds[] = {FaultKind::read, FaultKind::write,    FaultKind::full,
                                FaultKind::sync, FaultKind::truncate, FaultKind::open};

// Whatever fails under the file, from the first call on until none is left to fail: the caller has its kernel.
TEST_F(LaunchTest, IsRightWhateverFailsUnderTheFile) {
  image();
  fail_call(FaultKind::read, 0, false);
  ASSERT_EQ(call(false), 1);
  ASSERT_EQ(call(false), 0) << "the second process finds what the first has stored";
  const std::string cached = read_file(file());
  int faults = 0;
  for (const FaultKind kind : kKinds) {
    for (const bool sticky : {false, true}) {
      for (const bool is_cached : {true, false}) {
        for (int n = 1;; ++n, ++faults) {
          std::filesystem::remove_all(folder_);
          std::filesystem::create_directory(folder_);
          std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
          if (is_cached) {
            write_file(file(), cached);
            std::filesystem::permissions(file(), std::filesystem::perms(0600));
          }
          fail_call(kind, n, sticky);
          const int compiled = call(false);
          const bool happened = fault_happened();
          fail_call(FaultKind::read, 0, false);
          // A process after the fault: right, and compiled again only where nothing could be stored.
          ASSERT_LE(compiled + call(false), 2) << n;
          ASSERT_EQ(call(false), 0) << n;
          if (::testing::Test::HasFailure()) FAIL() << "fault " << n << " of kind " << static_cast<int>(kind);
          if (!happened) break;
        }
      }
    }
  }
  std::printf("%d faults, each with three launches\n", faults);
  EXPECT_GT(faults, 100);
}

// Every allocation of the calling thread from the k-th on fails: an error with the result untouched, or the result; and
// once there is memory again, all is as it was.
TEST_F(LaunchTest, IsRightOrAnErrorWhenMemoryRunsOut) {
  image();
  ASSERT_EQ(call(false), 1);
  long k = 0;
  for (;; ++k) {
    failed = false;
    left_until_failure = k;
    call(true);
    left_until_failure = -1;
    if (::testing::Test::HasFailure()) FAIL() << "allocation " << k;
    if (!failed) break;
    if (k % 16 == 0) {
      ASSERT_EQ(call(false), 0) << k;
    }
  }
  std::printf("%ld allocations\n", k);
  EXPECT_GT(k, 20);
}

}  // namespace
}  // namespace quern::cache::testing
