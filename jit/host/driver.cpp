// The driver of the `host` target: this machine's CPU threads as a device.
// SPDX-License-Identifier: Apache-2.0
#include "jit/driver.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <system_error>
#include <thread>

#include "jit/error.h"
#include "jit/host/image.h"
#include "jit/host/late.h"
#include "jit/host/pool.h"
#include "jit/host/tensor_map.h"

namespace quern::jit {
namespace {

constexpr std::int32_t kDeviceType = 1;  // DLPack's kDLCPU
constexpr std::uint32_t kLeastSms = 4;   // so that work which is split over SMs is split here too
constexpr std::uint32_t kMostThreads = 256;

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  }
  utsname system{};
  return uname(&system) == 0 ? std::string(system.machine) + " CPU" : "CPU";
}

std::uint64_t positive_or(long value, std::uint64_t otherwise) {
  return value > 0 ? static_cast<std::uint64_t>(value) : otherwise;
}

// What launch returns is one of these and, above it, the number of a text.
enum Code : int { kRefused = 1, kFailed = 2, kNoMemory = 3 };
constexpr int kCodeBits = 2;
constexpr int kTexts = 64;

// A launch here returns when all is done.
class HostBench final : public Bench {
 public:
  ~HostBench() override {
    for (void* memory : allocated_) std::free(memory);
  }
  void* stream() const noexcept override { return nullptr; }
  void* allocate(std::size_t bytes) override {
    if (bytes == 0) return nullptr;
    allocated_.push_back(nullptr);  // room first
    void* const memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    if (memory == nullptr) {
      allocated_.pop_back();
      throw Error(QUERN_NO_MEMORY, "host: no memory for " + std::to_string(bytes) + " bytes to measure with");
    }
    return allocated_.back() = memory;
  }
  void release(void* memory) noexcept override {
    if (std::erase(allocated_, memory) != 0) std::free(memory);
  }
  void write(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void read(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void start() override { from_ = std::chrono::steady_clock::now(); }
  double stop() override {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - from_).count();
  }

 private:
  static constexpr std::size_t kAlignment = 256;
  std::vector<void*> allocated_;
  std::chrono::steady_clock::time_point from_;
};

class HostDriver final : public Driver {
 public:
  explicit HostDriver(const HostOptions& options)
      : options_(options), threads_(thread_count(options)), pool_(options.warp_size, threads_) {
    info_.limits = limits_of(Target::parse(options.warp_size == 64 ? "host64" : "host"));
    info_.limits.warp_size = options.warp_size;
    info_.limits.shared_per_block = host::kSharedLimit;
    info_.device_type = kDeviceType;
    info_.sm_count = std::max(threads_, kLeastSms);
    info_.l2_bytes = positive_or(sysconf(_SC_LEVEL3_CACHE_SIZE), 0);
    if (info_.l2_bytes == 0) info_.l2_bytes = positive_or(sysconf(_SC_LEVEL2_CACHE_SIZE), 0);
    info_.memory_bytes = positive_or(sysconf(_SC_PHYS_PAGES), 0) * positive_or(sysconf(_SC_PAGESIZE), 0);
    info_.driver_version = q::host::kAbi;
    info_.name = cpu_name();
  }

  const DeviceInfo& device() const noexcept override { return info_; }

  Loaded load(std::string_view image, const std::string& entry, std::uint32_t max_shared_bytes) override {
    auto loaded = std::make_unique<host::Image>(image, entry, options_.warp_size, max_shared_bytes);
    Loaded result;
    result.shared_bytes = static_cast<std::int32_t>(loaded->program().static_bytes);
    result.max_threads = static_cast<std::int32_t>(loaded->program().kernel->threads);
    result.module = loaded.release();
    result.function = result.module;
    return result;
  }

  void unload(Loaded& loaded) noexcept override {
    delete static_cast<host::Image*>(loaded.module);
    loaded = {};
  }

  int launch(const Loaded& loaded, const Launch& launch, void* const* args, std::size_t count) noexcept override {
    try {
      const host::Program& program = static_cast<const host::Image*>(loaded.function)->program();
      std::string why = objection(program, launch, count);
      if (why.empty()) why = cluster_objection(program, launch, options_.warp_size);
      if (!why.empty()) return remember(kRefused, std::move(why));
      host::Grid grid{&program,
                      const_cast<void**>(args),
                      {launch.grid[0], launch.grid[1], launch.grid[2]},
                      {launch.cluster[0], launch.cluster[1], launch.cluster[2]},
                      launch.shared_bytes,
                      options_.seeded,
                      options_.seed,
                      launch.programmatic,
                      nullptr};
      host::Late late(launch.late);
      if (options_.seeded && launch.programmatic && !launch.late.empty()) grid.late = &late;
      std::string failure = run(grid);
      return failure.empty() ? 0 : remember(kFailed, std::move(failure));
    } catch (...) {
      return kNoMemory;  // there is none for a text either
    }
  }

  [[noreturn]] void fail(int code, const char* what) override {
    const int kind = code & ((1 << kCodeBits) - 1);
    if (kind == kNoMemory) throw Error(QUERN_NO_MEMORY, std::string(what) + ": host: no memory for the launch", kind);
    std::string text;
    {
      std::lock_guard lock(mutex_);
      text = texts_[static_cast<std::size_t>(code >> kCodeBits) % kTexts];
    }
    throw Error(kind == kRefused ? QUERN_INVALID : QUERN_DRIVER, std::string(what) + ": host: " + text, kind);
  }

  bool capturing(void*) noexcept override { return false; }
  int stream_device_mismatch(void*) noexcept override { return 0; }
  std::unique_ptr<Bench> bench() override { return std::make_unique<HostBench>(); }
  void* allocate_shared(std::size_t bytes) override {
    constexpr std::size_t kLine = 64;
    const std::size_t whole = (bytes + kLine - 1) / kLine * kLine;
    void* const memory = std::aligned_alloc(kLine, whole);
    if (memory == nullptr)
      throw Error(QUERN_NO_MEMORY, "host: no memory for " + std::to_string(bytes) + " bytes that kernels share");
    return std::memset(memory, 0, whole);
  }
  void release_shared(void* memory) noexcept override { std::free(memory); }

  void encode_tensor_map(const TensorMapDesc& desc, TensorMap& map) override {
    if (options_.warp_size != 32) throw Error(QUERN_UNSUPPORTED, "host64: this target has no tensor maps");
    host::encode(desc, map);
  }

 private:
  static std::uint32_t thread_count(const HostOptions& options) {
    if (options.threads > kMostThreads) {
      throw Error(QUERN_INVALID, "host: " + std::to_string(options.threads) +
                                     " CPU threads asked for; allowed are 0 (the " + "number of cores) to " +
                                     std::to_string(kMostThreads));
    }
    const std::uint32_t threads = options.threads != 0 ? options.threads : std::thread::hardware_concurrency();
    return std::clamp(threads, 1u, kMostThreads);
  }

  static std::string dims(const std::uint32_t (&d)[3]) {
    return "(" + std::to_string(d[0]) + ", " + std::to_string(d[1]) + ", " + std::to_string(d[2]) + ")";
  }
  // Why this launch cannot be, if so.
  static std::string cluster_objection(const host::Program& program, const Launch& launch, std::uint32_t warp_size) {
    const auto& c = launch.cluster;
    if (c[0] == 1 && c[1] == 1 && c[2] == 1) return {};
    const std::string kernel = "kernel " + program.name + " is launched with clusters of " + dims(c);
    if (warp_size != 32) return kernel + "; this target has none";
    const std::uint64_t blocks = std::uint64_t{c[0]} * c[1] * c[2];
    if (blocks == 0 || blocks > host::kMaxBlocks) return kernel + "; allowed are 1 to 16 blocks";
    if (launch.grid[0] % c[0] != 0 || launch.grid[1] % c[1] != 0 || launch.grid[2] % c[2] != 0) {
      return kernel + ", which do not divide its grid of " + dims(launch.grid);
    }
    if ((program.kernel->threads + 31) / 32 * blocks > host::kMaxWarps) {
      return kernel + " of " + std::to_string(program.kernel->threads) +
             " threads; this target runs clusters of at most " + std::to_string(host::kMaxWarps) + " warps in all";
    }
    return {};
  }
  static std::string objection(const host::Program& program, const Launch& launch, std::size_t count) {
    const std::string kernel = "kernel " + program.name;
    if (launch.block[0] != program.kernel->threads || launch.block[1] != 1 || launch.block[2] != 1) {
      return kernel + " is compiled for blocks of (" + std::to_string(program.kernel->threads) +
             ", 1, 1) threads, launched with " + dims(launch.block);
    }
    constexpr std::uint32_t kMostRows = 65535;  // as on the GPUs, so that what runs here runs there
    if (launch.grid[0] == 0 || launch.grid[1] == 0 || launch.grid[2] == 0 || launch.grid[0] > 0x7fffffffu ||
        launch.grid[1] > kMostRows || launch.grid[2] > kMostRows) {
      return kernel + " is launched with a grid of " + dims(launch.grid) +
             "; allowed are 1 to 2147483647, 1 to 65535, 1 to 65535";
    }
    if (launch.shared_bytes > program.max_dynamic_bytes) {
      return kernel + " is launched with " + std::to_string(launch.shared_bytes) +
             " bytes of dynamic shared memory; it was loaded for at most " + std::to_string(program.max_dynamic_bytes);
    }
    if (count != program.kernel->parameters) {
      return kernel + " takes " + std::to_string(program.kernel->parameters) + " arguments, " + std::to_string(count) +
             " were given";
    }
    return {};
  }

  int remember(Code code, std::string text) {
    std::lock_guard lock(mutex_);
    const int number = next_text_++ % kTexts;
    texts_[static_cast<std::size_t>(number)] = std::move(text);
    return number << kCodeBits | code;
  }
  std::string run(const host::Grid& grid) {
    try {
      return pool_.run(grid);
    } catch (const std::system_error& e) {
      return std::string("a thread cannot be started: ") + e.what();
    }
  }

  const HostOptions options_;
  const std::uint32_t threads_;
  DeviceInfo info_;
  host::Pool pool_;
  std::mutex mutex_;  // over the texts of failed launches, until fail() asks for them
  std::array<std::string, kTexts> texts_;
  int next_text_ = 0;
};

}  // namespace

std::unique_ptr<Driver> open_host(const HostOptions& options) {
  if (options.warp_size != 32 && options.warp_size != 64) {
    throw Error(QUERN_INVALID,
                "host: a warp of " + std::to_string(options.warp_size) + " asked for; allowed are 32 and 64");
  }
  return std::make_unique<HostDriver>(options);
}

}  // namespace quern::jit
