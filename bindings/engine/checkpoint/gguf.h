// The container of GGUF files: a header, values by name, a table of tensors, their bytes. (The GGUF specification of
// the ggml project, versions 2 and 3, little-endian.) A file may come from anywhere: all that it says of lengths and
// places is held against its size before it is used.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/engine/checkpoint/blocks.h"
#include "bindings/json/json.h"

namespace quern::engine {

class Gguf {
 public:
  // Throws std::runtime_error naming the file, the byte and what is wrong there.
  explicit Gguf(const std::string& path);
  ~Gguf();
  Gguf(const Gguf&) = delete;
  Gguf& operator=(const Gguf&) = delete;

  // A value of the header; null where there is none.
  const Json* find(const std::string& name) const;
  // Throws std::runtime_error naming the file where there is none.
  const Json& at(const std::string& name) const;

  struct Tensor {
    std::vector<std::int64_t> shape;  // the slowest dimension first, as elsewhere; the file has it the other way round
    std::uint32_t type = 0;
    std::uint64_t begin = 0;  // in the file
  };
  // Null where there is none.
  const Tensor* tensor(const std::string& name) const;
  // Its elements in bf16. Throws std::runtime_error where it is of a type that is not known here.
  std::vector<std::uint16_t> bf16(const std::string& name) const;
  // Those of a tensor of F32 as they are. Throws where it is of another type.
  std::vector<float> f32(const std::string& name) const;

  const std::string& path() const { return path_; }

 private:
  class Reader;
  void read();
  std::string_view bytes_of(const std::string& name, const BlockType** type) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::string path_;
  std::string_view bytes_;  // the file, mapped
  std::map<std::string, Json> values_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace quern::engine
