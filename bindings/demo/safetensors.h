// Reading a .safetensors file: eight bytes with the length of a JSON header, the header, the tensors' bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace quern::demo {

class Safetensors {
 public:
  // Throws std::runtime_error naming the file and what is wrong with it.
  explicit Safetensors(const std::string& path);

  struct Found {
    std::string_view dtype;  // "BF16", "F32"
    std::vector<std::int64_t> shape;
    std::string_view bytes;
  };
  bool has(const std::string& name) const { return entries_.contains(name); }
  // Throws std::runtime_error when there is no such tensor.
  Found find(const std::string& name) const;
  // The same, when it is not of this dtype.
  Found find(const std::string& name, std::string_view dtype) const;

  template <class T>
  std::vector<T> read(const std::string& name, std::string_view dtype) const {
    const std::string_view bytes = find(name, dtype).bytes;
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
  }

 private:
  struct Entry {
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::size_t begin, end;  // in text_
  };
  std::string path_, text_;
  std::map<std::string, Entry> entries_;
};

}  // namespace quern::demo
