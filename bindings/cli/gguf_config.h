// What a GGUF file says of its model, as the config.json that the model would have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace quern::cli {

// Whether the file begins as GGUF files do; false where it cannot be read.
bool is_gguf(const std::string& path);

// Throws BadInput naming the file and the value. An architecture that is not known is refused unless `model_type`, as
// which the model is to be read, is not empty.
std::string config_of_gguf(const std::string& path, const std::string& model_type);

}  // namespace quern::cli
