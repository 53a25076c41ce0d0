// argmax, its rows shared by one block each.
// SPDX-License-Identifier: Apache-2.0
#include "argmax/kernels/argmax.cuh"
#include "softmax/kernels/portable/blocks.cuh"
