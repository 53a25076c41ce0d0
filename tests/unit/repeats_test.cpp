// Calls that are launched as they were kept: what they launch is held against what the call itself launches, for every
// op, with tensors that have moved; and whatever changes a call is seen.
// SPDX-License-Identifier: Apache-2.0
#include "sources/repeat/repeats.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "jit/engine.h"
#include "jit/error.h"
#include "jit/service.h"
#include "sources/manifest.h"
#include "sources/ops.h"
#include "sources/verify/trial.h"
#include "tests/support/kernel_lines.h"

namespace quern::ops {
namespace {

constexpr DLDataType kBf16{kDLBfloat, 16, 1}, kF32{kDLFloat, 32, 1}, kF16{kDLFloat, 16, 1};
constexpr DLDevice kHere{kDLCUDA, 0};

// What this thread's next launches must be.
struct Expected {
  const Recording* launches = nullptr;
  const Recording* again = nullptr;  // the same, above other remains on the stack: what differs is gaps between fields
  std::size_t next = 0;
  std::string wrong;
};
thread_local Expected expected;

// Hopper, without a GPU. Launches are compared with what is expected of them.
class StandIn final : public jit::Driver {
 public:
  StandIn() {
    info_.limits = jit::limits_of(jit::Target::parse("sm_90a"));
    info_.limits.shared_per_block = 227 * 1024;
    info_.device_type = kDLCUDA;
    info_.sm_count = 132;
    info_.l2_bytes = 50 << 20;
    info_.name = "a stand-in";
  }
  const jit::DeviceInfo& device() const noexcept override { return info_; }
  jit::Loaded load(std::string_view, const std::string&, std::uint32_t) override {
    jit::Loaded loaded;
    loaded.module = loaded.function = reinterpret_cast<void*>(++loads_);  // NOLINT(performance-no-int-to-ptr)
    loaded.max_threads = 1024;
    return loaded;
  }
  void unload(jit::Loaded& loaded) noexcept override { loaded = {}; }
  int launch(const jit::Loaded& loaded, const jit::Launch& how, void* const* args,
             std::size_t count) noexcept override {
    if (answer != 0) return answer;
    if (expected.launches == nullptr) return 0;
    const Recording& all = *expected.launches;
    const std::size_t i = expected.next++;
    const auto check = [](bool right, const char* what) {
      if (!right && expected.wrong.empty()) expected.wrong = what;
    };
    check(i < all.launch_count, "more launches");
    if (i >= all.launch_count) return 0;
    const Recording::Launched& one = all.launches[i];
    check(one.kernel->loaded.function == loaded.function, "another kernel");
    check(one.count == count, "another number of arguments");
    check(std::equal(one.how.grid, one.how.grid + 3, how.grid) &&
              std::equal(one.how.block, one.how.block + 3, how.block) &&
              std::equal(one.how.cluster, one.how.cluster + 3, how.cluster) &&
              one.how.shared_bytes == how.shared_bytes && one.how.programmatic == how.programmatic &&
              one.how.stream == how.stream,
          "another launch");
    for (std::size_t j = 0; j < std::min(count, one.count); ++j) {
      const auto [at, bytes] = all.arguments[one.first + j];
      for (std::size_t b = 0; b < bytes; ++b) {
        const bool right = static_cast<const unsigned char*>(args[j])[b] == all.bytes[at + b] ||
                           all.bytes[at + b] != expected.again->bytes[at + b];
        if (!right && expected.wrong.empty())
          expected.wrong = "byte " + std::to_string(b) + " of argument " + std::to_string(j) + " of " +
                           std::to_string(bytes) + ": " +
                           std::to_string(static_cast<const unsigned char*>(args[j])[b]) + " for " +
                           std::to_string(all.bytes[at + b]) + " at " + std::to_string(at);
      }
    }
    return 0;
  }
  [[noreturn]] void fail(int code, const char* what) override { throw Error(QUERN_DRIVER, what, code); }
  bool capturing(void*) noexcept override { return false; }
  int stream_device_mismatch(void*) noexcept override { return 0; }
  std::unique_ptr<jit::Bench> bench() override;
  void* allocate_shared(std::size_t) override { throw Error(QUERN_UNSUPPORTED, "there is no memory here"); }
  void release_shared(void*) noexcept override {}
  // It spells out what it describes.
  void encode_tensor_map(const jit::TensorMapDesc& d, jit::TensorMap& map) override {
    std::uint64_t words[16] = {reinterpret_cast<std::uintptr_t>(d.address),
                               static_cast<std::uint64_t>(d.data_type) << 32 | d.rank,
                               static_cast<std::uint64_t>(d.swizzle) << 32 | static_cast<unsigned>(d.l2_promotion)};
    for (std::uint32_t i = 0; i < d.rank; ++i) words[3 + i] = d.extent[i] << 20 | d.box[i];
    for (std::uint32_t i = 0; i + 1 < d.rank; ++i) words[8 + i] = d.stride[i];
    std::memcpy(&map, words, sizeof(words));
  }

  int answer = 0;

 private:
  jit::DeviceInfo info_;
  std::uintptr_t loads_ = 0;
};

// Memory that nobody reads: at the same places in each run.
class NoMemory final : public jit::Bench {
 public:
  void* stream() const noexcept override { return nullptr; }
  void* allocate(std::size_t bytes) override {
    if (bytes == 0) return nullptr;
    const std::uintptr_t at = next_;
    next_ += (bytes + 0xffff) / 0x10000 * 0x10000;
    return reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr)
  }
  void release(void*) noexcept override {}
  void write(void*, const void*, std::size_t) override {}
  void read(void*, const void*, std::size_t) override {}
  void start() override { next_ = kFirst; }
  double stop() override { return 0; }

 private:
  static constexpr std::uintptr_t kFirst = 0x7f0000000000;
  std::uintptr_t next_ = kFirst;
};

std::unique_ptr<jit::Bench> StandIn::bench() { return std::make_unique<NoMemory>(); }

[[gnu::noinline]] void leave_on_stack(int byte) {
  unsigned char below[32 * 1024];
  std::memset(below, byte, sizeof(below));
  asm volatile("" : : "r"(below) : "memory");
}

class RepeatsTest : public testing::Test {
 protected:
  RepeatsTest() : service_(without_file()), engine_(options()), tunings_(gemm::make_tunings(service_, {})) {}

  static jit::Service::Options without_file() {
    jit::Service::Options options;
    options.store.no_file = true;
    return options;
  }
  jit::EngineOptions options() {
    jit::EngineOptions options;
    options.driver = &driver_;
    options.service = &service_;
    options.describe = describe;
    options.compile = [](const jit::CompileJob&) {
      jit::Compiled compiled;
      compiled.image = "an image";
      compiled.compiler_kind = "none";
      compiled.compiler_build = "1";
      return compiled;
    };
    return options;
  }
  Runtime runtime(Recording* recording = nullptr) {
    Runtime made{&engine_, &driver_, jit::Miss::compile, &maps_, tunings_.get()};
    made.recording = recording;
    return made;
  }
  // What a call does, with repeats and without: the same launches, or the same refusal. Three times, since a call is
  // kept at the second.
  template <class Args>
  void expect_same(Repeats& repeats, void (*run)(const Runtime&, const Args&), const Args& args, int times = 3) {
    for (int i = 0; i < times; ++i) {
      Recording alone(false), again(false);
      std::string refused, refused_too;
      expected = {};
      try {
        leave_on_stack(0x5a);
        run(runtime(&alone), args);
        leave_on_stack(0xa5);
        run(runtime(&again), args);
      } catch (const Error& error) {
        refused = error.text();
      }
      expected = {&alone, &again, 0, {}};
      try {
        repeats.run(runtime(), Tag{}, run, args);
      } catch (const Error& error) {
        refused_too = error.text();
      }
      EXPECT_EQ(refused_too, refused);
      EXPECT_EQ(expected.wrong, "");
      if (refused.empty()) {
        EXPECT_EQ(expected.next, alone.launch_count);
      }
      expected = {};
    }
  }

  StandIn driver_;
  jit::Service service_;
  jit::Engine engine_;
  jit::TensorMaps maps_{driver_};
  std::shared_ptr<gemm::Tunings> tunings_;
};

struct TestTensor : DLTensor {
  TestTensor(std::uintptr_t at, DLDataType type, std::vector<std::int64_t> extents)
      : DLTensor{}, extents_(std::move(extents)) {
    data = reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr)
    device = kHere, dtype = type, ndim = static_cast<std::int32_t>(extents_.size()), shape = extents_.data();
    std::int64_t step = 1;
    steps_.resize(extents_.size());
    for (std::size_t d = extents_.size(); d-- > 0;) steps_[d] = step, step *= extents_[d];
    strides = steps_.data();
  }
  TestTensor(const TestTensor&) = delete;
  TestTensor& operator=(const TestTensor&) = delete;
  void at(std::uintptr_t address) { data = reinterpret_cast<void*>(address); }  // NOLINT(performance-no-int-to-ptr)

 private:
  std::vector<std::int64_t> extents_, steps_;
};

// Whatever an op's trials call, on Hopper: it is kept with its tensors elsewhere, and what is then launched is what the
// call itself launches.
TEST_F(RepeatsTest, OfEveryOpAndForm) {
  std::map<std::string, std::pair<int, int>> kept_of;  // and of how many
  verify::Random random(11);
  const std::unique_ptr<jit::Bench> bench = driver_.bench();
  for (const char* text : test::kLines) {
    const ManifestLine line = *parse_line(text);
    const jit::Spec spec = to_spec(line, jit::Target::parse("host"));
    const Constants all = line.op->constants != nullptr ? line.op->constants(spec) : line.op->unit(spec).constants;
    const verify::OpTrials& trials = *verify::trials_of(line.op->name);
    for (int which = 0; which < trials.count; ++which) {
      SCOPED_TRACE(std::string(text) + ", call " + std::to_string(which));
      verify::Trial trial(random);
      trials.make(verify::Given(all), which, trial);
      Recording alone(false), again(false);
      expected = {};
      try {
        leave_on_stack(0x5a);
        trial.run(runtime(&alone), *bench);
        leave_on_stack(0xa5);
        trial.run(runtime(&again), *bench);
      } catch (const Error&) {
        continue;  // not for Hopper
      }
      if (!alone.whole()) {
        // A dozen launches, or a kernel in whose place another one serves until it is compiled.
        const std::string op = line.op->name;
        EXPECT_TRUE(op == "sort" || op == "conv2d" || op == "sample");
        continue;
      }
      Repeats repeats(driver_);
      trial.repeats = &repeats;
      expected = {&alone, &again, 0, {}};
      trial.run(runtime(), *bench);
      EXPECT_EQ(expected.wrong, "");
      EXPECT_EQ(expected.next, alone.launch_count);
      auto& [kept, of] = kept_of[line.op->name];
      kept += repeats.repeated() == 1;
      ++of;
      if (repeats.repeated() != 1) std::printf("not kept: %s, call %d\n", text, which);
    }
  }
  expected = {};
  EXPECT_EQ(kept_of.size(), all().size() - 2) << "an op without a call";  // but for a host's own and the index check
  for (const auto& [op, counts] : kept_of) EXPECT_EQ(counts.first, counts.second) << op;
}

class RepeatedNorm : public RepeatsTest {
 protected:
  RepeatedNorm() {
    args.size = sizeof(args);
    args.x = &x, args.out = &out, args.weight = &weight, args.eps = 1e-6f;
  }
  void expect_same_now(int times = 3) { expect_same(repeats, rmsnorm::run, args, times); }
  // That the calls since the last time were launched as they were kept.
  void expect_repeated(std::uint64_t times) {
    EXPECT_EQ(repeats.repeated() - before_, times);
    before_ = repeats.repeated();
  }

  Repeats repeats{driver_};
  TestTensor x{0x10000000, kBf16, {64, 4096}}, out{0x20000000, kBf16, {64, 4096}}, weight{0x30000000, kBf16, {4096}},
      residual{0x40000000, kBf16, {64, 4096}};
  quern_rmsnorm_args args{};

 private:
  std::uint64_t before_ = 0;
};

TEST_F(RepeatedNorm, FromTheThirdTimeOn) {
  expect_same_now(5);
  expect_repeated(3);
}

TEST_F(RepeatedNorm, TensorsThatMove) {
  expect_same_now();
  expect_repeated(1);
  for (const std::uintptr_t by : {std::uintptr_t{0x100}, std::uintptr_t{0x100000000}, ~std::uintptr_t{0xffff}}) {
    x.at(reinterpret_cast<std::uintptr_t>(x.data) + by);
    expect_same_now(1);
    out.at(reinterpret_cast<std::uintptr_t>(out.data) + 3 * by);
    weight.byte_offset += 0x200;
    expect_same_now(1);
    expect_repeated(2);
  }
}

// Each of these is another call, and the first is still known after it.
TEST_F(RepeatedNorm, WhateverChangesIsSeen) {
  const auto changed = [&](const char* what, auto&& change, auto&& back) {
    SCOPED_TRACE(what);
    expect_same_now();
    change();
    expect_same_now();
    back();
    expect_same_now(1);
  };
  std::int64_t* const shape = x.shape;
  changed("rows", [&] { x.shape[0] = out.shape[0] = 63; }, [&] { x.shape[0] = out.shape[0] = 64; });
  changed("an extent that does not fit", [&] { x.shape[0] = 63; }, [&] { x.shape[0] = 64; });
  changed("a stride", [&] { x.strides[0] = 4104; }, [&] { x.strides[0] = 4096; });
  changed("a stride that breaks the alignment", [&] { x.strides[0] = 4097; }, [&] { x.strides[0] = 4096; });
  changed("compact", [&] { x.strides = nullptr; }, [&, s = x.strides] { x.strides = s; });
  changed("a dtype", [&] { x.dtype = out.dtype = kF16; }, [&] { x.dtype = out.dtype = kBf16; });
  changed("a dtype of one", [&] { out.dtype = kF32; }, [&] { out.dtype = kBf16; });
  changed("lanes", [&] { x.dtype.lanes = 2; }, [&] { x.dtype.lanes = 1; });
  changed("rank", [&] { x.ndim = 1; }, [&] { x.ndim = 2; });
  changed("no shape", [&] { x.shape = nullptr; }, [&] { x.shape = shape; });
  changed("the device", [&] { x.device.device_id = 1; }, [&] { x.device.device_id = 0; });
  changed("the kind of device", [&] { x.device.device_type = kDLCPU; }, [&] { x.device.device_type = kDLCUDA; });
  changed("no data", [&] { x.data = nullptr; }, [&] { x.at(0x10000000); });
  changed("data that is not aligned", [&] { x.at(0x10000002); }, [&] { x.at(0x10000000); });
  changed("by an offset", [&] { x.byte_offset = 8; }, [&] { x.byte_offset = 0; });
  changed("no tensor", [&] { args.x = nullptr; }, [&] { args.x = &x; });
  changed("no weight", [&] { args.weight = nullptr; }, [&] { args.weight = &weight; });
  changed("a residual", [&] { args.residual = &residual; }, [&] { args.residual = nullptr; });
  changed(
      "a residual for a weight", [&] { args.residual = &residual, args.weight = nullptr; },
      [&] { args.residual = nullptr, args.weight = &weight; });
  changed("eps", [&] { args.eps = 1e-5f; }, [&] { args.eps = 1e-6f; });
  changed("flags", [&] { args.flags = QUERN_CALL_PROGRAMMATIC; }, [&] { args.flags = 0; });
  changed("unknown flags", [&] { args.flags = 1u << 31; }, [&] { args.flags = 0; });
  changed("the promised alignment", [&] { args.alignment = 4; }, [&] { args.alignment = 0; });
  changed("a wrong alignment", [&] { args.alignment = 3; }, [&] { args.alignment = 0; });
  changed("multiprocessors", [&] { args.max_sms = 7; }, [&] { args.max_sms = 0; });
  changed("the stream", [&] { args.stream = &args; }, [&] { args.stream = nullptr; });
  changed("in place", [&] { args.out = &x; }, [&] { args.out = &out; });
  changed("over each other", [&] { out.at(0x10000000 + 0x1000); }, [&] { out.at(0x20000000); });
}

// What an op says of tensors that lie over each other it says of a call that is kept, too.
TEST_F(RepeatsTest, TensorsThatLieOverEachOther) {
  Repeats repeats(driver_);
  TestTensor one(0x10000000, kF32, {1000}), two(0x20000000, kF32, {1000});
  quern_softmax_args softmax{};
  softmax.size = sizeof(softmax);
  TestTensor logits(0x10000000, kF32, {8, 1000}), to(0x20000000, kF32, {8, 1000});
  softmax.logits = &logits, softmax.out = &to;
  for (const std::uintptr_t at : {0x20000000, 0x10000000, 0x10000100, 0x20000000, 0x0ffffff0, 0x50000000, 0x10000000}) {
    SCOPED_TRACE("softmax to " + std::to_string(at));
    to.at(at);
    expect_same(repeats, softmax::run, softmax);
  }
  to.strides[0] = 1024;
  for (const std::uintptr_t at : {0x20000000, 0x10000000, 0x20000000}) {
    SCOPED_TRACE("softmax to " + std::to_string(at));
    to.at(at);
    expect_same(repeats, softmax::run, softmax);
  }
  quern_copy_args copy{};
  copy.size = sizeof(copy);
  const DLTensor* const inputs[] = {&one};
  const DLTensor* const outputs[] = {&two};
  copy.inputs = inputs, copy.outputs = outputs, copy.input_count = copy.output_count = 1;
  for (const std::uintptr_t at : {0x20000000, 0x10000010, 0x10000000 + 3984, 0x10000000, 0x0ffff000, 0x20000000}) {
    SCOPED_TRACE("copy to " + std::to_string(at));
    two.at(at);
    expect_same(repeats, copy::run, copy);
  }
}

// Kept in place, and called apart.
TEST_F(RepeatsTest, TensorsThatPart) {
  TestTensor logits(0x10000000, kF32, {8, 1000}), to(0x10000000, kF32, {8, 1000});
  quern_softmax_args softmax{};
  softmax.size = sizeof(softmax);
  softmax.logits = &logits, softmax.out = &to;
  Repeats repeats(driver_);
  expect_same(repeats, softmax::run, softmax);
  EXPECT_EQ(repeats.repeated(), 1u);
  for (const std::uintptr_t at : {0x20000000, 0x10000000, 0x10000100}) {
    to.at(at);
    expect_same(repeats, softmax::run, softmax);
  }
  logits.at(0x30000000), to.at(0x30000000);
  expect_same(repeats, softmax::run, softmax, 1);
  EXPECT_EQ(repeats.repeated(), 5u);
}

// A call whose count is above what is allowed is refused by its op, so that its list may be anything.
TEST(Signature, DoesNotReadListsThatAreTooLong) {
  const auto* const nowhere = reinterpret_cast<const void*>(16);  // NOLINT(performance-no-int-to-ptr)
  const auto fits = [](const quern_epilogue& epilogue) {
    quern_gemm_args gemm{};
    gemm.size = sizeof(gemm), gemm.epilogue = &epilogue;
    return Signature(Tag{}, kHere, gemm).fits();
  };
  quern_epilogue operands{}, scalars{};
  operands.size = scalars.size = sizeof(quern_epilogue);
  EXPECT_TRUE(fits(operands));
  operands.operands = static_cast<const DLTensor* const*>(nowhere), operands.operand_count = 9;
  scalars.scalars = static_cast<const float*>(nowhere), scalars.scalar_count = 9;
  EXPECT_FALSE(fits(operands));
  EXPECT_FALSE(fits(scalars));
  quern_copy_args copy{};
  copy.size = sizeof(copy);
  copy.inputs = static_cast<const DLTensor* const*>(nowhere), copy.input_count = 17;
  EXPECT_FALSE(Signature(Tag{}, kHere, copy).fits());
  const std::array<const DLTensor*, 16> none{};
  copy.inputs = none.data(), copy.input_count = 16;
  EXPECT_TRUE(Signature(Tag{}, kHere, copy).fits());
}

TEST_F(RepeatedNorm, AFailedLaunchIsTold) {
  expect_same_now();
  driver_.answer = 700;
  try {
    repeats.run(runtime(), Tag{}, rmsnorm::run, args);
    ADD_FAILURE() << "nothing is told";
  } catch (const Error& error) {
    EXPECT_EQ(error.native(), 700);
    EXPECT_EQ(error.text(), "launching rmsnorm");
  }
  driver_.answer = 0;
  expect_same_now(1);
}

// Kernels that were unloaded are not launched again as they were.
TEST_F(RepeatedNorm, ForgetsWhatWasUnloaded) {
  expect_same_now(5);
  expect_repeated(3);
  repeats.forget();
  EXPECT_EQ(engine_.unload([](const jit::Kernel&) { return true; }), 1u);
  expect_same_now(2);
  expect_repeated(1);  // the first of these readied the kernel again and kept the call
}

// More calls than there is room for, and some that come again and again among them.
TEST_F(RepeatedNorm, MoreThanAreKept) {
  for (int round = 0; round < 4; ++round) {
    for (std::int64_t rows = 1; rows <= 300; ++rows) {
      x.shape[0] = out.shape[0] = rows;
      expect_same_now(1);
    }
  }
}

// Threads that make the same calls and others, with tensors of their own: each launches its own.
TEST_F(RepeatedNorm, FromManyThreads) {
  expect_same_now(1);
  std::vector<std::thread> threads;
  for (std::uintptr_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      const std::uintptr_t from = 0x100000000 * (thread + 1);
      TestTensor a(from, kBf16, {64, 4096}), b(from + 0x10000000, kBf16, {64, 4096}),
          w(from + 0x20000000, kBf16, {4096});
      quern_rmsnorm_args own = args;
      own.x = &a, own.out = &b, own.weight = &w;
      for (int i = 0; i < 300; ++i) {
        a.shape[0] = b.shape[0] = 64 - i % 3;
        a.at(from + 0x100 * static_cast<std::uintptr_t>(i % 7));
        expect_same(repeats, rmsnorm::run, own, 1);
        if (thread == 0 && i % 50 == 0) repeats.forget();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(repeats.repeated(), 0u);
}

}  // namespace
}  // namespace quern::ops
