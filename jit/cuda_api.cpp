// Finding libcuda and binding its symbols.
// SPDX-License-Identifier: Apache-2.0
#include "jit/cuda_api.h"

#include "jit/error.h"
#include "jit/gpu_error.h"
#include "jit/library.h"
#include "jit/symbols.h"

namespace quern::jit::cuda {

std::string Api::text(Result code) const {
  const char* name = nullptr;
  const char* description = nullptr;
  if (error_name(code, &name) != kSuccess) name = nullptr;
  if (error_string(code, &description) != kSuccess) description = nullptr;
  return code_text(code, name, description);
}

Api open_api(const std::vector<std::string>& search_dirs) {
  LibrarySearch search;
  search.sonames = {"libcuda.so.1"};
  search.search_dirs = search_dirs;
  search.environment_variable = "QUERN_CUDA_DRIVER_DIR";
  // Where containers and distributions put it without telling the loader; WSL's has a place of its own.
  search.usual_dirs = {"/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib"};
  const jit::Library library = open_library(search);
  if (!library) throw Error(QUERN_NOT_FOUND, "no CUDA driver: libcuda.so.1 was not found; tried\n" + library.tried);

  Api api;
  api.path = library.path;
  Binder binder(library.handle);
#define QUERN_CUDA_BIND(need, member, symbol, parameters) binder.need(api.member, #symbol);
  QUERN_CUDA_SYMBOLS(QUERN_CUDA_BIND)
#undef QUERN_CUDA_BIND
  if (!binder.missing().empty()) {
    throw Error(QUERN_NOT_FOUND, "the CUDA driver at " + library.path +
                                     " is too old (CUDA 12.0 or newer is needed): it lacks " + binder.missing());
  }
  if (const Result code = api.init(0); code != kSuccess) {
    throw Error(QUERN_NOT_FOUND, "the CUDA driver at " + library.path + " does not start: " + api.text(code), code);
  }
  if (const Result code = api.driver_version(&api.version); code != kSuccess) {
    throw Error(QUERN_NOT_FOUND, "the CUDA driver at " + library.path + " does not tell its version: " + api.text(code),
                code);
  }
  const Result code = api.device_count(&api.devices);
  if (code != kSuccess || api.devices < 1) {
    const Result shown = code != kSuccess ? code : kNoDevice;
    throw Error(QUERN_NOT_FOUND, "the CUDA driver at " + library.path + " finds no device: " + api.text(shown), shown);
  }
  return api;
}

Target target_of(int major, int minor) {
  return Target::parse("sm_" + std::to_string(10 * major + minor) + (major >= 9 ? "a" : ""));
}

}  // namespace quern::jit::cuda
