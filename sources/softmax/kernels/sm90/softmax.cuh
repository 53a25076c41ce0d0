// softmax, its rows shared by the blocks of a cluster.
// SPDX-License-Identifier: Apache-2.0
#include "softmax/kernels/sm90/blocks.cuh"
#include "softmax/kernels/softmax.cuh"
