// Chooses among the embedded sources by the target: one backend of the layer, and Hopper's instructions where the
// target has them.
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
    Backend{jit::Family::cuda, "common/portable/cuda.cuh"},
    Backend{jit::Family::hip, "common/portable/hip.cuh"},
    Backend{jit::Family::host, "common/portable/host.cuh"},
};

// The host's backend takes its warp size from whoever compiles; 32 unless told.
constexpr std::string_view kHostOf64 =
    "#pragma once\n#define QUERN_HOST_WARP 64\n#include \"common/portable/host.cuh\"\n";

// What of common/sm90/ every target with tensor maps has. The rest of the folder is for warpgroups, as are their sums
// in registers. A kernel that asks for what its target lacks is refused by the name of the header.
constexpr std::array<std::string_view, 3> kOfTensorMaps = {"common/sm90/layout.cuh", "common/sm90/pipeline.cuh",
                                                           "common/sm90/tma.cuh"};
constexpr std::string_view kHopper = "common/sm90/", kWarpgroupSums = "common/registers/warpgroup_sums";

struct Instructions {
  bool jit::TargetInfo::* has;  // whether a target has them
  std::string_view asked_for;   // the backend, as the layer includes it
  std::string_view cuda, host;
};
constexpr std::array kInstructions = {
    Instructions{&jit::TargetInfo::tensor_maps, "common/sm90/tma_backend.cuh", "common/sm90/tma_cuda.cuh",
                 "common/sm90/tma_host.cuh"},
    Instructions{&jit::TargetInfo::warpgroups, "common/sm90/warpgroup_backend.cuh", "common/sm90/warpgroup_cuda.cuh",
                 "common/sm90/warpgroup_host.cuh"},
};

bool is_backend(std::string_view name) {
  return std::any_of(kBackends.begin(), kBackends.end(), [&](const Backend& each) { return each.file == name; }) ||
         std::any_of(kInstructions.begin(), kInstructions.end(),
                     [&](const Instructions& each) { return each.cuda == name || each.host == name; });
}

bool is_for(std::string_view name, const jit::TargetInfo& info) {
  if (is_backend(name)) return false;
  if (std::find(kOfTensorMaps.begin(), kOfTensorMaps.end(), name) != kOfTensorMaps.end()) return info.tensor_maps;
  return info.warpgroups || !(name.starts_with(kHopper) || name.starts_with(kWarpgroupSums));
}

void add_backends(jit::Target target, const jit::TargetInfo& info, std::vector<jit::File>* headers) {
  const auto backend = std::find_if(kBackends.begin(), kBackends.end(),
                                    [&](const Backend& each) { return each.family == target.family(); });
  if (backend == kBackends.end())
    throw Error(QUERN_UNSUPPORTED, "target \"" + target.name() + "\" has no device-side backend");
  headers->push_back(embedded(backend->file));
  if (backend->family == jit::Family::host && info.warp_size == 64) {
    headers->push_back({"common/backend.cuh", kHostOf64});
  } else {
    headers->back().name = "common/backend.cuh";
  }
  for (const Instructions& each : kInstructions) {
    if (!(info.*each.has)) continue;
    headers->push_back({each.asked_for, embedded(target.family() == jit::Family::cuda ? each.cuda : each.host).text});
  }
}

std::vector<jit::File> headers_of(jit::Target target, std::string_view folder) {
  const jit::TargetInfo info = jit::limits_of(target);
  std::vector<jit::File> headers;
  for (const jit::File& file : embedded()) {
    if (file.name.starts_with(folder) && is_for(file.name, info)) headers.push_back(file);
  }
  add_backends(target, info, &headers);
  return headers;
}

}  // namespace

std::vector<jit::File> common_headers(jit::Target target) { return headers_of(target, "common/"); }

std::vector<jit::File> device_headers(jit::Target target) { return headers_of(target, ""); }

}  // namespace quern::ops
