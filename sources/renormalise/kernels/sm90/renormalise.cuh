// renormalise, its rows shared by the blocks of a cluster.
// SPDX-License-Identifier: Apache-2.0
// clang-format off: the blocks come before who shares rows among them
#include "softmax/kernels/sm90/blocks.cuh"
#include "renormalise/kernels/renormalise.cuh"
