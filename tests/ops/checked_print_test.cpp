// Kernels in the checked form print, and are heard while they run.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/ops/array.h"
#include "tests/ops/cuda.h"
#include "tests/ops/device.h"

namespace quern::test {
namespace {

// What a context with its own log is told.
struct Heard {
  std::mutex mutex;
  std::vector<std::string> lines;
  static void log(void* user, std::int32_t, const char* text) {
    auto* const heard = static_cast<Heard*>(user);
    const std::lock_guard lock(heard->mutex);
    heard->lines.emplace_back(text);
  }
  bool has(const std::string& text) {
    const std::lock_guard lock(mutex);
    for (const std::string& line : lines)
      if (line.find(text) != std::string::npos) return true;
    return false;
  }
};

constexpr const char* kPrinting = R"(
#include "quern/kernel.cuh"
namespace q {
QUERN_DEVICE void work(const u32* stop, u32* out) {
  if (thread_index() == 3) print("half of {} is {} {}, {} {}", 7, 3.5f, stop == nullptr, ~u64{0}, -2);
  // Until the line has been read: a kernel that hangs unless somebody listens while it runs.
  while (load_volatile(stop) == 0) {
  }
  out[thread_index()] = 1;
}
}
QUERN_KERNEL(printing, 32, 1, const q::u32* stop, q::u32* out) { q::work(stop, out); }
)";

// The kernel hangs until its line has been read.
class Printing {
 public:
  Printing(std::uint32_t flags, std::chrono::milliseconds patience)
      : patience_(patience), own_(make_context([&](quern_context_options& options) {
          options.flags |= flags, options.log = Heard::log, options.log_user = &heard;
          options.log_level = QUERN_LOG_ERROR;  // which is not for what kernels print
        })) {}

  void run() {
    auto source = sized<quern_source>();
    source.name = "printing.cu", source.text = kPrinting;
    auto desc = sized<quern_kernel_desc>();
    desc.source = &source, desc.entry = "printing";
    auto error = sized<quern_error>();
    quern_kernel* kernel = nullptr;
    ASSERT_EQ(quern_kernel_prepare(own_.get(), &desc, &kernel, &error), QUERN_OK) << error.text;
    stop_.set_integer(0, 0);
    stop_.upload(), out.upload();
    synchronize();
    std::unique_ptr<Stream> stream;
    if (on_cuda()) stream = std::make_unique<Stream>();
    // A launch on the host returns when all is done.
    std::thread watcher([&] { release_when_heard(); });
    const void *stop = stop_.box().tensor.data, *to = out.box().tensor.data;
    void* args[] = {&stop, &to};
    auto how = sized<quern_launch>();
    how.block_x = 32, how.args = args, how.arg_count = 2, how.stream = stream != nullptr ? stream->get() : nullptr;
    EXPECT_EQ(quern_kernel_launch(own_.get(), kernel, &how, &error), QUERN_OK) << error.text;
    watcher.join();
    synchronize();
    out.download();
  }

  Heard heard;
  Array out{IntegerBits{32}, {32}};
  bool in_time = false;

 private:
  void release_when_heard() {
    const auto until = std::chrono::steady_clock::now() + patience_;
    while (!in_time && std::chrono::steady_clock::now() < until) {
      in_time = heard.has("half of");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    if (on_cuda()) {
      cuda().cuCtxSetCurrent(cuda().context);
      stop_.set_integer(1, 0);
      stop_.upload();
    } else {
      __atomic_store_n(static_cast<std::uint32_t*>(stop_.box().tensor.data), 1u, __ATOMIC_RELEASE);
    }
  }

  const std::chrono::milliseconds patience_;
  Array stop_{IntegerBits{32}, {1}};
  Context own_;
};

TEST(CheckedCalls, KernelsPrintWhileTheyRun) {
  Printing printing(QUERN_CONTEXT_CHECKED, std::chrono::seconds(10));
  printing.run();
  EXPECT_TRUE(printing.in_time) << "the line came after the kernel's end, or never";
  EXPECT_EQ(printing.out.integer(31), 1);
  EXPECT_TRUE(printing.heard.has("block (0, 0, 0), thread 3: half of 7 is 3.5 0, 18446744073709551615 -2"));
}

// It has another key, and says nothing.
TEST(CheckedCalls, OrdinaryKernelsPrintNothing) {
  Printing printing(0, std::chrono::milliseconds(200));
  printing.run();
  EXPECT_FALSE(printing.in_time);
  EXPECT_EQ(printing.out.integer(31), 1);
}

}  // namespace
}  // namespace quern::test
