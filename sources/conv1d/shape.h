// What kernels of the causal convolution are specialised on, and the calls of the general one, which a weight of three
// dimensions asks for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/op.h"
#include "sources/tensor.h"

namespace quern::ops::conv1d {

struct Shape {
  Dtype x = Dtype::bf16, weight = Dtype::bf16, state = Dtype::bf16;
  int taps = 4;
  int width = 8;  // channels of an access
};

inline constexpr std::uint32_t kFlags = QUERN_CONV1D_SILU;
inline constexpr int kBlocksPerSm = 4;

inline bool is_general(const quern_conv1d_args& args) { return args.weight != nullptr && args.weight->ndim == 3; }

// What quern_conv1d_workspace, _prepare and quern_conv1d do of the general convolution.
std::uint64_t general_workspace(const Runtime& runtime, const quern_conv1d_args& args);
void general_prepare(const Runtime& runtime, const quern_conv1d_args& args);
void general_run(const Runtime& runtime, const quern_conv1d_args& args);

}  // namespace quern::ops::conv1d
