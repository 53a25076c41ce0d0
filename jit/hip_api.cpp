// Finding libamdhip64 and binding its symbols.
// SPDX-License-Identifier: Apache-2.0
#include "jit/hip_api.h"

#include "jit/error.h"
#include "jit/gpu_error.h"
#include "jit/library.h"
#include "jit/symbols.h"

namespace quern::jit::hip {

std::string Api::text(Result code) const { return code_text(code, error_name(code), error_string(code)); }

Api open_api(const std::vector<std::string>& search_dirs) {
  LibrarySearch search;
  search.sonames = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
  search.search_dirs = search_dirs;
  search.environment_variable = "QUERN_HIP_DRIVER_DIR";
  search.toolkit_variable = "ROCM_PATH";
  search.toolkit_dirs = {"lib", "lib64"};
  search.usual_dirs = {"/opt/rocm*/lib", "/opt/rocm*/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64"};
  const Library library = open_library(search);
  if (!library)
    throw Error(QUERN_NOT_FOUND, "no HIP driver: libamdhip64.so (7, 6 or 5) was not found; tried\n" + library.tried);

  Api api;
  api.path = library.path;
  Binder binder(library.handle);
#define QUERN_HIP_BIND(need, member, symbol, parameters) binder.need(api.member, #symbol);
  QUERN_HIP_SYMBOLS(QUERN_HIP_BIND)
#undef QUERN_HIP_BIND
  binder.required(api.error_name, "hipGetErrorName");
  binder.required(api.error_string, "hipGetErrorString");
  if (!binder.missing().empty()) {
    throw Error(QUERN_NOT_FOUND, "the HIP driver at " + library.path +
                                     " is too old (ROCm 5.0 or newer is needed): it lacks " + binder.missing());
  }
  // hipInit answers hipErrorInvalidDevice where there is none; the count says so more plainly, and does no harm.
  const Result started = api.init(0);
  const Result counted = api.device_count(&api.devices);
  if (counted != kSuccess || api.devices < 1) {
    const Result shown = counted != kSuccess ? counted : kNoDevice;
    throw Error(QUERN_NOT_FOUND, "the HIP driver at " + library.path + " finds no device: " + api.text(shown), shown);
  }
  if (started != kSuccess) {
    throw Error(QUERN_NOT_FOUND, "the HIP driver at " + library.path + " does not start: " + api.text(started),
                started);
  }
  if (const Result code = api.runtime_version(&api.version); code != kSuccess) {
    throw Error(QUERN_NOT_FOUND, "the HIP driver at " + library.path + " does not tell its version: " + api.text(code),
                code);
  }
  return api;
}

Target find_target(std::string_view properties) {
  using namespace std::string_view_literals;
  constexpr std::string_view kMark = "\0gfx"sv;
  for (std::size_t at = properties.find(kMark); at != std::string_view::npos; at = properties.find(kMark, at + 1)) {
    const std::string_view name = properties.substr(at + 1, properties.find('\0', at + 1) - (at + 1));
    try {
      return Target::parse(name);
    } catch (const Error&) {
      // Other text that happens to begin so, a marketing name say.
    }
  }
  return Target();
}

}  // namespace quern::jit::hip
