// Checking a caller's context options.
// SPDX-License-Identifier: Apache-2.0
#include "capi/options.h"

#include <algorithm>
#include <thread>

#include "capi/abi.h"

namespace quern::capi {
namespace {

constexpr std::uint32_t kFlags = QUERN_CONTEXT_NO_CACHE | QUERN_CONTEXT_READ_ONLY_CACHE | QUERN_CONTEXT_SHARED_CACHE |
                                 QUERN_CONTEXT_NVRTC_IN_HELPER | QUERN_CONTEXT_HOST_SEED | QUERN_CONTEXT_SIGNED_ONLY |
                                 QUERN_CONTEXT_CHECKED;
constexpr std::uint64_t kMostPaths = 4096;
constexpr std::int32_t kMostThreads = 1024;

[[noreturn]] void refuse(std::string text) { throw Error(QUERN_INVALID, std::move(text)); }

// Empty for NULL. A relative path would mean another file after a chdir, and could be planted in the working directory.
std::string absolute_path(const char* given, const std::string& field) {
  if (given == nullptr) return {};
  if (given[0] != '/') refuse(field + " is \"" + given + "\"; an absolute path is needed");
  return given;
}

std::vector<std::string> absolute_paths(const char* const* given, std::uint64_t count, const std::string& field) {
  if (count > kMostPaths) {
    refuse(field + " has a count of " + std::to_string(count) + "; at most " + std::to_string(kMostPaths) +
           " are allowed");
  }
  if (count != 0 && given == nullptr) refuse(field + " is NULL with a count of " + std::to_string(count));
  std::vector<std::string> paths;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string place = field + "[" + std::to_string(i) + "]";
    if (given[i] == nullptr) refuse(place + " is NULL");
    paths.push_back(absolute_path(given[i], place));
  }
  return paths;
}

unsigned compile_threads(std::int32_t given) {
  if (given < 0 || given > kMostThreads) {
    refuse("compile_threads is " + std::to_string(given) + "; 0 (the number of cores, at most 8) to " +
           std::to_string(kMostThreads) + " are allowed");
  }
  if (given != 0) return static_cast<unsigned>(given);
  return std::clamp(std::thread::hardware_concurrency(), 1U, 8U);
}

jit::Miss miss_policy(std::int32_t given) {
  switch (given) {
    case QUERN_MISS_COMPILE:
      return jit::Miss::compile;
    case QUERN_MISS_CACHED_ONLY:
      return jit::Miss::cached_only;
    case QUERN_MISS_BACKGROUND:
      return jit::Miss::background;
    default:
      refuse("miss_policy is " + std::to_string(given) +
             "; QUERN_MISS_COMPILE (0), QUERN_MISS_CACHED_ONLY (1) and QUERN_MISS_BACKGROUND (2) are allowed");
  }
}

void check_device(const quern_context_options& given) {
  const std::int32_t type = given.device_type;
  if (type != 0 && type != kDLCUDA && type != kDLROCM && type != kDLCPU) {
    refuse("device_type is " + std::to_string(type) +
           "; 0 (none), kDLCPU (1, the host target), kDLCUDA (2) and kDLROCM (10) are allowed");
  }
  if (given.device_id < 0) refuse("device_id is " + std::to_string(given.device_id) + "; 0 and up are allowed");
  if (given.device_id != 0 && (type == 0 || type == kDLCPU)) {
    refuse("device_id is " + std::to_string(given.device_id) + "; only 0 is there with this device_type");
  }
}

jit::HostOptions host_options(const quern_context_options& given) {
  jit::HostOptions host;
  host.threads = given.host_threads;
  if (given.host_threads > static_cast<std::uint32_t>(kMostThreads)) {
    refuse("host_threads is " + std::to_string(given.host_threads) + "; 0 (the number of cores) to " +
           std::to_string(kMostThreads) + " are allowed");
  }
  host.seeded = (given.flags & QUERN_CONTEXT_HOST_SEED) != 0;
  host.seed = given.host_seed;
  if (given.host_seed != 0 && !host.seeded) {
    refuse("host_seed is " + std::to_string(given.host_seed) + " without QUERN_CONTEXT_HOST_SEED in flags");
  }
  return host;
}

// An empty file, its journal and one small kernel take most of this.
constexpr std::uint64_t kLeastLimit = std::uint64_t{1} << 20;

std::vector<cache::PublicKey> trusted_keys(const quern_context_options& given) {
  if (given.trusted_key_count != 0 && given.trusted_keys == nullptr)
    refuse("trusted_keys is NULL with a trusted_key_count of " + std::to_string(given.trusted_key_count));
  if (given.trusted_key_count > 1024)
    refuse("trusted_key_count is " + std::to_string(given.trusted_key_count) + "; at most 1024 are allowed");
  std::vector<cache::PublicKey> keys;
  for (std::uint64_t i = 0; i < given.trusted_key_count; ++i) {
    const char* const text = given.trusted_keys[i];
    const std::string name = "trusted_keys[" + std::to_string(i) + "]";
    if (text == nullptr) refuse(name + " is NULL");
    const std::optional<cache::PublicKey> key = cache::read_key(text);
    if (!key) refuse(name + " is \"" + text + "\"; 64 hexadecimal digits are needed");
    keys.push_back(*key);
  }
  if ((given.flags & QUERN_CONTEXT_SIGNED_ONLY) != 0 && keys.empty())
    refuse("flags: QUERN_CONTEXT_SIGNED_ONLY needs trusted_keys");
  return keys;
}

std::optional<std::array<unsigned char, 32>> cache_key(const quern_context_options& given) {
  if (given.cache_key == nullptr) return {};
  const std::optional<std::array<unsigned char, 32>> key = cache::read_key(given.cache_key);
  // Never the text itself: it is a secret, and errors go into logs.
  if (!key)
    refuse("cache_key has " + std::to_string(std::string_view(given.cache_key).size()) +
           " characters, or others than these; 64 hexadecimal digits are needed");
  return key;
}

}  // namespace

Options read_options(const quern_context_options& given) {
  check_flags("quern_context_options.flags", given.flags, kFlags);
  if (given.log_level < 0 || given.log_level > QUERN_LOG_DEBUG)
    refuse("log_level is " + std::to_string(given.log_level) +
           "; 0 (all) and QUERN_LOG_ERROR (1) to QUERN_LOG_DEBUG (4) are allowed");
  if ((given.flags & QUERN_CONTEXT_NO_CACHE) != 0 && (given.flags & QUERN_CONTEXT_READ_ONLY_CACHE) != 0) {
    refuse("flags: QUERN_CONTEXT_NO_CACHE and QUERN_CONTEXT_READ_ONLY_CACHE exclude each other");
  }
  check_device(given);

  Options options;
  options.device_type = given.device_type;
  options.device_id = given.device_id;
  if (given.target != nullptr) options.target = jit::Target::parse(given.target);
  options.miss = miss_policy(given.miss_policy);
  options.compile_threads = compile_threads(given.compile_threads);
  options.flight_timeout = std::chrono::milliseconds(given.flight_timeout_ms != 0 ? given.flight_timeout_ms : 30'000);
  if (given.compiler_pin != nullptr) options.compiler_pin = given.compiler_pin;
  options.search_dirs = absolute_paths(given.search_dirs, given.search_dir_count, "search_dirs");

  options.store.folder = absolute_path(given.cache_path, "cache_path");
  options.store.bundles = absolute_paths(given.bundles, given.bundle_count, "bundles");
  if (given.cache_limit != 0 && given.cache_limit < kLeastLimit)
    refuse("cache_limit is " + std::to_string(given.cache_limit) +
           " bytes, in which nothing could be stored; at least " + std::to_string(kLeastLimit) +
           " are needed (0: 1 GiB)");
  if (given.cache_limit != 0) options.store.limit_bytes = given.cache_limit;
  options.store.no_file = (given.flags & QUERN_CONTEXT_NO_CACHE) != 0;
  options.store.read_only = (given.flags & QUERN_CONTEXT_READ_ONLY_CACHE) != 0;
  options.store.shared_folder = (given.flags & QUERN_CONTEXT_SHARED_CACHE) != 0;

  options.store.trusted_keys = trusted_keys(given);
  options.store.mac_key = cache_key(given);
  options.max_kernels = given.max_kernels;
  options.checked = (given.flags & QUERN_CONTEXT_CHECKED) != 0;
  options.store.signed_only = (given.flags & QUERN_CONTEXT_SIGNED_ONLY) != 0;

  options.compilers.search_dirs = options.search_dirs;
  options.compilers.helper_path = absolute_path(given.helper_path, "helper_path");
  options.compilers.host_compiler = absolute_path(given.host_compiler, "host_compiler");
  options.compilers.nvrtc_in_helper = (given.flags & QUERN_CONTEXT_NVRTC_IN_HELPER) != 0;
  if (given.compile_timeout_ms != 0) options.compilers.timeout = std::chrono::milliseconds(given.compile_timeout_ms);

  options.host = host_options(given);
  return options;
}

}  // namespace quern::capi
