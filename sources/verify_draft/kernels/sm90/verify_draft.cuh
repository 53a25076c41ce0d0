// verify_draft, its distributions shared by the blocks of a cluster.
// SPDX-License-Identifier: Apache-2.0
#include "softmax/kernels/sm90/blocks.cuh"
#include "verify_draft/kernels/verify_draft.cuh"
