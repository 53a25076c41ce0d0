// The stages of a pipeline between warps that copy and warps that multiply.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/pipeline.cuh"
#include "gemm/kernels/shared/tile.cuh"

namespace q {

using Stages = PipelineBarriers<kStages>;
using StageState = PipelineState<kStages>;

}  // namespace q
