// Binding a table of function pointers to the symbols of an opened library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <string>

namespace quern::jit {

// Collects what is missing, so that an error can name all of it.
class Binder {
 public:
  explicit Binder(void* library) : library_(library) {}

  template <class Function>
  void required(Function*& slot, const char* symbol) {
    optional(slot, symbol);
    if (slot == nullptr) missing_ += (missing_.empty() ? "" : ", ") + std::string(symbol);
  }
  template <class Function>
  void optional(Function*& slot, const char* symbol) {
    slot = reinterpret_cast<Function*>(dlsym(library_, symbol));
  }
  // Comma-separated; empty: all there.
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

}  // namespace quern::jit
