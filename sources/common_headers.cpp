// Chooses the backend by the target's family.
// SPDX-License-Identifier: Apache-2.0
#include "sources/common_headers.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "jit/error.h"
#include "sources/embedded.h"

namespace quern::ops {
namespace {

struct Backend {
  jit::Family family;
  std::string_view file;
};
constexpr std::array kBackends = {
    Backend{jit::Family::cuda, "common/cuda.cuh"},
    Backend{jit::Family::hip, "common/hip.cuh"},
    Backend{jit::Family::host, "common/host.cuh"},
};

// The host's backend takes its warp size from whoever compiles; 32 unless told.
constexpr std::string_view kHostOf64 = "#pragma once\n#define QUERN_HOST_WARP 64\n#include \"common/host.cuh\"\n";

bool is_backend(std::string_view name) {
  return std::any_of(kBackends.begin(), kBackends.end(), [&](const Backend& backend) { return backend.file == name; });
}

}  // namespace

std::vector<jit::File> common_headers(jit::Target target) {
  const auto backend = std::find_if(kBackends.begin(), kBackends.end(),
                                    [&](const Backend& candidate) { return candidate.family == target.family(); });
  if (backend == kBackends.end()) {
    throw Error(QUERN_UNSUPPORTED, "target \"" + target.name() + "\" has no device-side backend");
  }
  std::vector<jit::File> headers;
  for (const jit::File& file : embedded()) {
    if (file.name.starts_with("common/") && !is_backend(file.name)) headers.push_back(file);
  }
  const jit::File chosen = embedded(backend->file);
  if (backend->family == jit::Family::host && jit::limits_of(target).warp_size == 64) {
    headers.push_back(chosen);
    headers.push_back({"common/backend.cuh", kHostOf64});
  } else {
    headers.push_back(chosen);
    headers.back().name = "common/backend.cuh";
  }
  return headers;
}

}  // namespace quern::ops
