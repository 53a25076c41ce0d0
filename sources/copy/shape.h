// What a copy's kernels are specialised on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/copy/params.cuh"
#include "sources/op.h"
#include "sources/tensor.h"

namespace quern::ops::copy {

enum class Form : std::uint8_t { rows, transpose, tiles };

// Where `from` and `to` are the same, elements are bits of their size.
struct Shape {
  Form form = Form::rows;
  Dtype from = Dtype::i16, to = Dtype::i16;
  int rank = 1;
  int width = 1;       // elements of an access; of a transpose those of what is written
  int from_width = 1;  // of a transpose
  int parts = 1;       // of rows: 1, up to 4, up to 16
  bool wide = false;   // of rows: index arithmetic of 64 bits
};

inline constexpr int kThreads = 256, kFewThreads = 128;  // of a block, and where there are few vectors
inline constexpr int kTransposeBlocks = 6;               // on a multiprocessor
// Vectors that a thread has on their way.
int steps(const Shape& shape);

jit::Spec to_spec(const Shape& shape, jit::Target target);
jit::Unit unit(const jit::Spec& spec);
jit::Spec parse(const Constants& given, const jit::TargetInfo& target);
Constants constants(const jit::Spec& spec);

}  // namespace quern::ops::copy
