// renormalise, its rows shared by one block each.
// SPDX-License-Identifier: Apache-2.0
// clang-format off: the blocks come before who shares rows among them
#include "softmax/kernels/portable/blocks.cuh"
#include "renormalise/kernels/renormalise.cuh"
