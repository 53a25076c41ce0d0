// Writes folders as Hugging Face stores models, good ones and bad ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "bindings/json/json.h"

namespace quern::test {

class ModelFolder {
 public:
  ModelFolder() : path_(testing::TempDir() + "quern_folder_" + std::to_string(getpid())) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~ModelFolder() { std::filesystem::remove_all(path_); }
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << bytes;
  }
  void write(const std::string& name, const Json& json) const { write(name, json.dump()); }
  void remove(const std::string& name) const { std::filesystem::remove(path_ + "/" + name); }

  struct Tensor {
    std::string name, dtype;
    std::vector<std::int64_t> shape;
    std::string bytes;
  };
  void write_tensors(const std::string& name, const std::vector<Tensor>& tensors) const {
    Json header = Json::object();
    std::string bytes;
    for (const Tensor& tensor : tensors) {
      Json shape = Json::array();
      for (const std::int64_t extent : tensor.shape) shape.push_back(extent);
      header[tensor.name] = Json{{"dtype", tensor.dtype},
                                 {"shape", shape},
                                 {"data_offsets", Json::array({bytes.size(), bytes.size() + tensor.bytes.size()})}};
      bytes += tensor.bytes;
    }
    const std::string text = header.dump();
    std::uint64_t size = text.size();
    std::string file(sizeof size, '\0');
    std::memcpy(file.data(), &size, sizeof size);
    write(name, file + text + bytes);
  }
  template <class T>
  static std::string bytes_of(const std::vector<T>& values) {
    std::string bytes(values.size() * sizeof(T), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }

 private:
  std::string path_;
};

}  // namespace quern::test
