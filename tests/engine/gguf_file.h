// Writes GGUF files for tests, good ones and bad ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace quern::test {

class GgufFile {
 public:
  template <class T>
  static std::string raw(T value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
  }
  static std::string raw(const std::string& text) { return raw(std::uint64_t{text.size()}) + text; }

  // Values; `type` is the file's number of theirs.
  void value(const std::string& name, std::uint32_t type, const std::string& bytes) {
    values_ += raw(name) + raw(type) + bytes;
    ++value_count_;
  }
  void whole(const std::string& name, std::uint32_t number) { value(name, 4, raw(number)); }
  void number(const std::string& name, float number) { value(name, 6, raw(number)); }
  void boolean(const std::string& name, bool flag) { value(name, 7, std::string(1, flag ? '\1' : '\0')); }
  void text(const std::string& name, const std::string& text) { value(name, 8, raw(text)); }
  void texts(const std::string& name, const std::vector<std::string>& all) {
    std::string bytes = raw(std::uint32_t{8}) + raw(std::uint64_t{all.size()});
    for (const std::string& each : all) bytes += raw(each);
    value(name, 9, bytes);
  }
  void wholes(const std::string& name, const std::vector<std::int32_t>& all) {
    std::string bytes = raw(std::uint32_t{5}) + raw(std::uint64_t{all.size()});
    for (const std::int32_t each : all) bytes += raw(each);
    value(name, 9, bytes);
  }

  // A tensor of a type by its number; the shape as elsewhere, the slowest dimension first.
  void tensor(const std::string& name, const std::vector<std::int64_t>& shape, std::uint32_t type,
              const std::string& bytes) {
    place(name, shape, type, data_.size());
    data_ += bytes;
    data_.resize((data_.size() + 31) / 32 * 32);
  }
  // One whose bytes are said to lie at `offset`.
  void place(const std::string& name, const std::vector<std::int64_t>& shape, std::uint32_t type,
             std::uint64_t offset) {
    table_ += raw(name) + raw(static_cast<std::uint32_t>(shape.size()));
    for (auto extent = shape.rbegin(); extent != shape.rend(); ++extent) table_ += raw(*extent);
    table_ += raw(type) + raw(offset);
    ++tensor_count_;
  }

  std::string bytes() const {
    std::string all = "GGUF" + raw(std::uint32_t{3}) + raw(tensor_count_) + raw(value_count_) + values_ + table_;
    all.resize((all.size() + 31) / 32 * 32);
    return all + data_;
  }

 private:
  std::string values_, table_, data_;
  std::uint64_t value_count_ = 0, tensor_count_ = 0;
};

// A file of these bytes, gone with this object.
class Written {
 public:
  explicit Written(const std::string& bytes)
      : path_(testing::TempDir() + "quern_" + std::to_string(getpid()) + ".gguf") {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~Written() { std::filesystem::remove(path_); }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace quern::test
