// Weights of 4 and 8 bits with scales, as config.json's quantization_config tells of them: which kernels of
// quantized_gemm a model's layers take. The library's own list of a model knows none of them, so they are lines of a
// manifest beside it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings/cli/model_config.h"
#include "bindings/json/json.h"

namespace quern::cli {

// False where it is another format than AWQ, GPTQ, compressed-tensors' integers, NVFP4 and MXFP4, or one of these in a
// form that no kernel reads: `config` is untouched then. Else its manifest names the kernels, a note says how the file
// was read, and what has no kernel is unserved. The model's other fields have been read.
bool read_quantised(const Json& quantisation, ModelConfig& config);

}  // namespace quern::cli
