// Two copies of the library in one process, and another version's, on one cache file, in several processes some of which
// are killed: each kernel is compiled once a version, and every launch is right.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <thread>

#include "capi/quern.h"
#include "sources/embedded.h"
#include "tests/cache/fixture.h"
#include "tests/fault/torture.h"

namespace quern::cache::testing {
namespace {

using Clock = std::chrono::steady_clock;

// One copy, by its own symbols.
class Copy {
 public:
  explicit Copy(const std::string& path) : library_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error(dlerror());
    find("quern_context_create", &create_), find("quern_context_destroy", &destroy_);
    find("quern_merge_state", &merge_state_), find("quern_get_stats", &stats_);
  }
  // Makes a context, launches, and says how many kernels it compiled; -1: what came out is wrong.
  int launch(const std::string& folder) const {
    quern_context_options options{};
    options.size = sizeof(options), options.device_type = kDLCPU, options.cache_path = folder.c_str();
    options.helper_path = QUERN_TEST_HELPER, options.host_threads = 1;
    quern_context* context = nullptr;
    quern_error error{};
    error.size = sizeof(error);
    if (create_(&options, &context, &error) != QUERN_OK) return -1;
    const bool right = merge(context);
    quern_stats stats{};
    stats.size = sizeof(stats);
    const std::int32_t told = stats_(context, &stats, nullptr);
    destroy_(context);
    return right && told == QUERN_OK ? static_cast<int>(stats.compiled) : -1;
  }

 private:
  template <class F>
  void find(const char* name, F* function) {
    *function = reinterpret_cast<F>(dlsym(library_, name));
    if (*function == nullptr) throw std::runtime_error(name);
  }
  bool merge(quern_context* context) const {
    alignas(16) std::array<float, 8> a{}, b{}, out{};
    float lse_a = 0.25f, lse_b = -0.5f;
    for (std::size_t i = 0; i < 8; ++i) a[i] = static_cast<float>(i), b[i] = 3 - a[i];
    std::int64_t shape[3] = {1, 1, 8};
    DLTensor tensors[5] = {};
    float* const data[5] = {a.data(), b.data(), out.data(), &lse_a, &lse_b};
    for (int i = 0; i < 5; ++i) {
      tensors[i].data = data[i], tensors[i].device = {kDLCPU, 0}, tensors[i].ndim = i < 3 ? 3 : 2;
      tensors[i].dtype = {kDLFloat, 32, 1}, tensors[i].shape = shape;
    }
    quern_merge_state_args args{};
    args.size = sizeof(args), args.out_a = &tensors[0], args.out_b = &tensors[1], args.out = &tensors[2];
    args.lse_a = &tensors[3], args.lse_b = &tensors[4];
    if (merge_state_(context, &args, nullptr) != QUERN_OK) return false;
    const double wa = std::exp(0.25), wb = std::exp(-0.5);
    for (std::size_t i = 0; i < 8; ++i)
      if (!(std::abs(out[i] - (wa * a[i] + wb * b[i]) / (wa + wb)) < 1e-5)) return false;
    return true;
  }

  void* library_;
  decltype(&quern_context_create) create_ = nullptr;
  decltype(&quern_context_destroy) destroy_ = nullptr;
  decltype(&quern_merge_state) merge_state_ = nullptr;
  decltype(&quern_get_stats) stats_ = nullptr;
};

class CopiesTest : public CacheTest {
 protected:
  void SetUp() override {
    CacheTest::SetUp();
    same_ = root_ + "/libsame.so", other_ = root_ + "/libother.so";
    std::string bytes = read_file(QUERN_TEST_LIBRARY);
    write_file(same_, bytes);
    // Another version has another source somewhere, and so another digest of it: that is all a key sees.
    const std::string digest(ops::embedded("merge_state/merge_state.cuh").sha256);
    int found = 0;
    for (std::size_t at = bytes.find(digest); at != std::string::npos; at = bytes.find(digest, at + 1), ++found)
      bytes[at] = bytes[at] == 'f' ? '0' : 'f';
    ASSERT_GT(found, 0);
    write_file(other_, bytes);
  }
  std::string same_, other_;
};

TEST_F(CopiesTest, ShareAFileInOneProcess) {
  EXPECT_EQ(in_child([&] {
              const Copy first(QUERN_TEST_LIBRARY), second(same_), third(other_);
              int compiled[3] = {};
              for (int round = 0; round < 3; ++round) {
                const Copy* const copies[] = {&first, &second, &third};
                for (int i = 0; i < 3; ++i) {
                  const int made = copies[i]->launch(folder_);
                  if (made < 0) return 10 + i;
                  compiled[i] += made;
                }
              }
              // The twin finds what the first has compiled; the other version asks for its own.
              return compiled[0] == 1 && compiled[1] == 0 && compiled[2] == 1 ? 0 : 20;
            }),
            0);
  EXPECT_EQ(in_child([&] { return Copy(other_).launch(folder_); }), 0) << "another process finds both versions' kernels";
  EXPECT_EQ(in_child([&] { return Copy(same_).launch(folder_); }), 0);
}

TEST_F(CopiesTest, ShareAFileAmongProcessesThatAreKilled) {
  const std::uint64_t seconds = times(1), processes = 6;
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  Random random{seed(1)};
  std::uint64_t kills = 0, launches = 0;
  // Every child works until the time is over; two threads of it use two copies at once.
  const auto work = [&] {
    const Copy first(QUERN_TEST_LIBRARY), second(same_), third(other_);
    std::atomic<bool> wrong{false};
    const auto run = [&](const Copy& own) {
      while (Clock::now() < end) {
        if (own.launch(folder_) < 0) wrong = true;
        if (third.launch(folder_) < 0) wrong = true;
      }
    };
    std::thread thread([&] { run(second); });
    run(first);
    thread.join();
    return wrong ? 1 : 0;
  };
  std::vector<pid_t> running;
  for (std::uint64_t i = 0; i < processes; ++i) running.push_back(start_child(work));
  while (Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + random.below(80)));
    const std::size_t which = random.below(running.size());
    kill(running[which], SIGKILL);
    const int status = wait_child(running[which]);
    ASSERT_TRUE(status == 0 || status == 1000 + SIGKILL) << status;
    running[which] = start_child(work);
    ++kills;
  }
  for (const pid_t child : running) EXPECT_EQ(wait_child(child), 0);
  for (const std::string& copy : {std::string(QUERN_TEST_LIBRARY), same_, other_}) {
    EXPECT_EQ(in_child([&] { return Copy(copy).launch(folder_); }), 0) << copy;
    ++launches;
  }
  Store store(options());
  AdminError error;
  store.verify(&error);
  EXPECT_EQ(error.what, AdminError::What::none) << error.text;
  std::printf("%llu processes killed, QUERN_SEED=%llu\n", static_cast<unsigned long long>(kills),
              static_cast<unsigned long long>(seed(1)));
}

}  // namespace
}  // namespace quern::cache::testing
