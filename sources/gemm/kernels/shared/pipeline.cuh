// The pipeline of kStages stages in shared memory between producer and consumer warps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/pipeline.cuh"
#include "gemm/kernels/shared/tile.cuh"

namespace q {

using Stages = PipelineBarriers<kStages>;
using StageState = PipelineState<kStages>;

}  // namespace q
