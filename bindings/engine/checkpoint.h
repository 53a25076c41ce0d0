// A checkpoint's tensors: one model.safetensors, or the shards that model.safetensors.index.json lists.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bindings/demo/safetensors.h"

namespace quern::engine {

class Checkpoint {
 public:
  // Throws std::runtime_error naming the file and what is wrong with it.
  explicit Checkpoint(const std::string& folder);

  bool has(const std::string& name) const;
  // The numbers of a tensor of BF16, F16 or F32 as bf16, rounded to nearest even. Throws std::runtime_error where there
  // is no such tensor, or its shape is another.
  std::vector<std::uint16_t> bf16(const std::string& name, const std::vector<std::int64_t>& shape) const;

 private:
  const demo::Safetensors& file_of(const std::string& name) const;

  std::string folder_;
  std::map<std::string, std::string> shards_;  // by tensor; empty: one file
  mutable std::map<std::string, std::unique_ptr<demo::Safetensors>> files_;
};

}  // namespace quern::engine
