// Attention of a given shape over random data, ready to be called again and again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "bindings/demo/tensor.h"
#include "tests/bench/device/gpu.h"

namespace quern::bench {

// Sequences are equally long; causal.
struct Shape {
  std::int64_t batch, heads, kv_heads;
  std::int64_t q_len;   // query tokens of each sequence; 1: decode
  std::int64_t kv_len;  // keys of each sequence, these tokens included
  std::int64_t dim;
  std::int64_t page_size;       // 0: ragged, not paged
  std::int64_t max_kv_len = 0;  // the bound that the call is told; 0: kv_len

  double kv_bytes() const;  // read at least once
  // Of the two products over the pairs that are visible: for q_len == kv_len that is half of the square, which is what
  // others count too.
  double flops() const;
};

// bf16 memory that the problems of all shapes share, normally distributed.
class Pools {
 public:
  // Throws std::runtime_error. `seed` 0: left zero.
  Pools(Gpu& gpu, std::size_t kv_bytes, std::size_t q_bytes, std::uint32_t seed);
  void *k, *v, *q, *out;
  const std::size_t kv_bytes, q_bytes;
};

class Problem {
 public:
  // Pages in an order shuffled by `seed`. Throws std::runtime_error when the pools are too small.
  Problem(Gpu& gpu, const Pools& pools, const Shape& shape, std::uint32_t seed);
  // Readies the kernels of this call and of all with fewer query tokens. Throws std::runtime_error.
  void prepare() const;
  // Enqueues the call. Throws std::runtime_error.
  void enqueue() const;
  // The same with nothing around it: the status alone.
  std::int32_t call() const { return quern_attention(context_, &args_, nullptr); }
  // Runs it and throws std::runtime_error unless what it wrote are numbers, and not all zero.
  void check() const;

 private:
  struct Tensors;
  std::vector<std::int32_t> pages(std::uint32_t seed) const;

  Gpu& gpu_;
  quern_context* const context_;
  const Shape shape_;
  const Pools& pools_;
  const std::int64_t max_pages_;
  demo::Mirrored<std::int32_t> lengths_, cu_q_, cu_kv_, pages_;
  const std::shared_ptr<Tensors> tensors_;
  quern_attention_args args_;
};

}  // namespace quern::bench
