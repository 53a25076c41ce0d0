// softmax, its rows shared by one block each.
// SPDX-License-Identifier: Apache-2.0
#include "softmax/kernels/portable/blocks.cuh"
#include "softmax/kernels/softmax.cuh"
