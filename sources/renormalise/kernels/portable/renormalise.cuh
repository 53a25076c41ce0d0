// renormalise, its rows shared by one block each.
// SPDX-License-Identifier: Apache-2.0
#include "renormalise/kernels/renormalise.cuh"
#include "softmax/kernels/portable/blocks.cuh"
