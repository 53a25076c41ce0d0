// Chooses the backends by the target: the layer's own by its family, tensor maps' and Hopper's where the target has
// them.
// SPDX-License-Identifier: Apache-2.0
#include "sources/common_headers.h"

#include <algorithm>
#include <array>
#include <string>
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

// What begins so is for targets that copy by tensor map, and for Hopper alone: elsewhere it is not among the headers,
// and a kernel that asks for it is refused by name.
constexpr std::string_view kTensorMaps = "common/tensor_maps", kHopper = "common/hopper";

void add_instruments(jit::Target target, std::vector<jit::File>* headers) {
  const jit::TargetInfo info = jit::limits_of(target);
  const bool cuda = target.family() == jit::Family::cuda;
  if (info.tensor_maps) {
    headers->push_back(embedded("common/hopper_layout.cuh"));
    headers->push_back(embedded("common/tensor_maps.cuh"));
    const std::string_view backend = cuda ? "common/tensor_maps_cuda.cuh" : "common/tensor_maps_host.cuh";
    headers->push_back({"common/tensor_maps_backend.cuh", embedded(backend).text});
  }
  if (info.warpgroups) {
    headers->push_back(embedded("common/hopper.cuh"));
    for (const char* products : {"hopper_sums", "hopper_sums_cuda", "hopper_wgmma", "hopper_wgmma_cuda"})
      headers->push_back(embedded("common/" + std::string(products) + ".cuh"));
    const std::string_view backend = cuda ? "common/hopper_cuda.cuh" : "common/hopper_host.cuh";
    headers->push_back({"common/hopper_backend.cuh", embedded(backend).text});
  }
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
    if (file.name.starts_with("common/") && !file.name.starts_with(kHopper) && !file.name.starts_with(kTensorMaps) &&
        !is_backend(file.name)) {
      headers.push_back(file);
    }
  }
  add_instruments(target, &headers);
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
