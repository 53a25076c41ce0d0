// quern_device_bench: what quern does on the GPU of this machine, in one table. It needs libcuda, NVRTC and nothing
// else.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tests/bench/device/sections.h"
#include "tests/bench/folder.h"

namespace quern::bench {
namespace {

constexpr const char* kUsage =
    "usage: quern_device_bench [--help] [--only SECTION[,SECTION]] [--seed N] [--json FILE]\n"
    "  sections: cold, hot, maps, decode, prefill, moe, quantize, rmsnorm\n";

struct Options {
  std::string only, json, command = "quern_device_bench";
  bool help = false;
  std::uint32_t seed = 20261121;
  bool wants(std::string_view section) const {
    return only.empty() || ("," + only + ",").find("," + std::string(section) + ",") != std::string::npos;
  }
};

struct Usage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) options.command += std::string(" ") + argv[i];
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--help" || name == "-h") {
      options.help = true;
      return options;
    }
    if (i + 1 >= argc) throw Usage(name + " needs a value");
    if (name == "--only") {
      options.only = argv[i + 1];
    } else if (name == "--json") {
      options.json = argv[i + 1];
    } else if (name == "--seed") {
      options.seed = static_cast<std::uint32_t>(std::stoul(argv[i + 1]));
    } else {
      throw Usage("there is no option " + name);
    }
  }
  return options;
}

// The day, as all results in tests/bench/results are named.
std::string today() {
  const std::chrono::year_month_day day(std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()));
  char text[16];
  std::snprintf(text, sizeof text, "%04d-%02u-%02u", int(day.year()), unsigned(day.month()), unsigned(day.day()));
  return text;
}

Json describe(const quern_device_info& device, std::uint32_t seed, const std::string& command) {
  return {{"date", today()},          {"command", command},
          {"device", device.name},    {"target", device.target},
          {"sms", device.sm_count},   {"driver", device.driver_version},
          {"quern", quern_version()}, {"seed", seed}};
}

void bench(const Options& options) {
  const Folder folder;
  const std::string own_path = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string cache = folder.path() + "/cache";
  Json result;
  const double seconds = milliseconds_of([&] {
                           Gpu gpu(cache);
                           result = describe(gpu.device(), options.seed, options.command);
                           std::printf("%s, %s, %u SMs, driver for CUDA %u.%u; quern %s; seed %u\n", gpu.device().name,
                                       gpu.device().target, gpu.device().sm_count, gpu.device().driver_version / 1000,
                                       gpu.device().driver_version / 10 % 100, quern_version(), options.seed);
                           if (options.wants("cold")) result["cold"] = bench_cold(own_path, folder.path() + "/cold");
                           if (options.wants("hot")) result["hot"] = bench_hot(gpu, own_path, cache);
                           if (options.wants("maps")) result["maps"] = bench_maps(gpu);
                           if (options.wants("moe")) result["moe"] = bench_moe(gpu, options.seed);
                           if (options.wants("decode") || options.wants("prefill") || options.wants("quantize") ||
                               options.wants("rmsnorm")) {
                             const Pools pools(gpu, kKvPool, kQueryPool, options.seed);
                             if (options.wants("decode")) result["decode"] = bench_decode(gpu, pools, options.seed);
                             if (options.wants("prefill")) result["prefill"] = bench_prefill(gpu, pools, options.seed);
                             if (options.wants("quantize")) result["quantize"] = bench_quantize(gpu, pools);
                             if (options.wants("rmsnorm")) result["rmsnorm"] = bench_rmsnorm(gpu, pools);
                           }
                         }) /
                         1000;
  std::printf("\n%.1f s in all\n", seconds);
  if (options.json.empty()) return;
  std::ofstream file(options.json);
  file << result.dump(2) << '\n';
  if (!file.flush()) throw std::runtime_error("cannot write " + options.json);
}

}  // namespace
}  // namespace quern::bench

int main(int argc, char** argv) {
  using namespace quern::bench;
  try {
    if (argc == 3 && argv[1] == kFirstCallsChild) {
      std::puts(first_calls(argv[2]).dump().c_str());
    } else if (argc == 3 && argv[1] == kMarkedChild) {
      marked_calls(argv[2]);
    } else if (const Options options = read_options(argc, argv); options.help) {
      std::fputs(kUsage, stdout);
    } else {
      bench(options);
    }
    return 0;
  } catch (const Usage& error) {
    std::fprintf(stderr, "quern_device_bench: %s\n%s", error.what(), kUsage);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "quern_device_bench: %s\n", error.what());
    return 1;
  }
}
