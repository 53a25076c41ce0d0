// What config.json says of projections: how weights are stored, whether biases are added, what the MLP applies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bindings/cli/config_reader.h"
#include "bindings/cli/model_config.h"

namespace quern::cli {

// `missing` is what the family applies where the file names nothing. An activation that no kernel fuses is unserved.
void read_activation(const ConfigReader& reader, const char* missing, ModelConfig& config);

// Sets QUERN_MODEL_FP8, QUERN_MODEL_BLOCK_FP8 and QUERN_MODEL_BIAS. `forced` is what the command line says against the
// file. Weights that quantized_gemm reads add lines to its manifest; those that no kernel reads are unserved. What else
// the model is has been read.
void read_weights(const ConfigReader& reader, std::optional<Weights> forced, ModelConfig& config);

// "silu" of an enum quern_activation.
std::string activation_name(std::int32_t activation);

}  // namespace quern::cli
