// A model's config.json, as Hugging Face repositories carry it, to the quern_model that `warm` asks the library with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/json/json.h"
#include "quern.h"

namespace quern::cli {

// How the weights of projections are stored.
enum class Weights : std::uint8_t {
  dense,     // as activations
  fp8,       // e4m3 with a scale per tensor or output channel
  fp8_block  // e4m3 with a scale per 128x128
};

// What the command line says beside, or against, the file.
struct ModelOptions {
  std::uint32_t tensor_parallel = 1;
  std::uint32_t page_size = 0;         // tokens; 0: the library's choice
  std::optional<DLDataType> dtype;     // of activations; else the file's, else bf16
  std::optional<DLDataType> kv_dtype;  // else as dtype
  bool kv_token_scales = false;        // a cache of 8 bits has a scale a token and head
  bool q_fp8 = false;                  // queries of prompts and drafts are e4m3, too
  std::optional<Weights> weights;      // else the file's
  bool logits_fp8 = false;             // the logits' weights are stored as the others
  std::string model_type;              // the family to read it as; empty: the file's
};

struct ModelConfig {
  quern_model model;
  std::string model_type;             // "llama"
  std::vector<std::string> notes;     // how the file was read, where that is not plain
  std::vector<std::string> unserved;  // what the file says and no kernel is made for
  std::string manifest;               // lines of kernels that it needs beside the library's list of the model
};

// Reads `text`, the contents of the file `path`. Throws BadInput naming the file, the field, what was given and what is
// allowed.
ModelConfig read_model_config(std::string_view text, const std::string& path, const ModelOptions& options);

// The fields of a quern_model by their names in quern.h.
Json model_to_json(const quern_model& model);

// "bf16", "f16", "e4m3", "e5m2", "int8" to DLPack's types and back. `name` must be one of these.
DLDataType dtype_named(std::string_view name);
std::string dtype_name(DLDataType dtype);

}  // namespace quern::cli
