// top_k, its rows shared by one block each.
// SPDX-License-Identifier: Apache-2.0
#include "softmax/kernels/portable/blocks.cuh"
#include "top_k/kernels/top_k.cuh"
