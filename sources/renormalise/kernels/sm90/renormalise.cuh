// renormalise, its rows shared by the blocks of a cluster.
// SPDX-License-Identifier: Apache-2.0
#include "renormalise/kernels/renormalise.cuh"
#include "softmax/kernels/sm90/blocks.cuh"
