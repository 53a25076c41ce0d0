// A model as it is stored: what it is, its vocabulary, its weights. A folder as Hugging Face has it, or a GGUF file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bindings/engine/checkpoint/config.h"
#include "bindings/engine/text/vocabulary.h"

namespace quern::engine {

// Every call throws std::runtime_error naming the file and what is wrong with it. Several threads may call.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  virtual Config config() const = 0;
  virtual Vocabulary vocabulary() const = 0;
  // How messages become a prompt, in Jinja's language; empty where the model has none.
  virtual std::string chat_template() const = 0;
  // Tensors have the names that transformers gives them, "model.layers.0.mlp.up_proj.weight".
  virtual bool has(const std::string& name) const = 0;
  // A tensor's numbers, rounded to nearest even; of this shape.
  virtual std::vector<std::uint16_t> bf16(const std::string& name, const std::vector<std::int64_t>& shape) const = 0;
};

// A folder with config.json, or a .gguf file.
std::unique_ptr<Checkpoint> open_checkpoint(const std::string& path);
std::unique_ptr<Checkpoint> open_folder(const std::string& folder);
std::unique_ptr<Checkpoint> open_gguf(const std::string& file);

// Throws std::runtime_error unless a tensor has the shape that the model's sizes say.
void check_shape(const std::string& name, const std::vector<std::int64_t>& found,
                 const std::vector<std::int64_t>& wanted);

}  // namespace quern::engine
