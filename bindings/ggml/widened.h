// Weights of types that quern's products do not read, widened once and kept for as long as they stay as they are: what
// a program has put into a buffer of weights is read by every graph and written by none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ggml-backend.h>
#include <ggml.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "memory.h"

namespace quern::ggml {

class Widened {
 public:
  // `type`: of the buffers of which it is told what becomes of them.
  Widened(Memory& memory, ggml_backend_buffer_type_t type) : memory_(memory), type_(type) {}

  // Memory for the widened numbers of a matrix, and whether they are in it already: `held` false asks the caller to
  // write them there, in the stream's order, and to `keep` them. NULL where none are kept: the matrix lies in another
  // kind of buffer, or the device would have less than an eighth of its memory left.
  void* of(const ggml_tensor* matrix, std::size_t bytes, bool* held);
  void keep(const ggml_tensor* matrix);
  // These bytes are written or given back: what was made of them is no more.
  void forget(const void* begin, std::size_t bytes);

 private:
  struct Kept {
    std::size_t from_bytes;  // of the matrix, behind its address
    std::size_t bytes;
    std::int64_t columns;
    ggml_type type;
    void* memory;
    bool held;
  };

  Memory& memory_;
  ggml_backend_buffer_type_t type_;
  std::mutex mutex_;
  std::map<std::uintptr_t, Kept> kept_;  // by the matrix's address; no two overlap
};

}  // namespace quern::ggml
