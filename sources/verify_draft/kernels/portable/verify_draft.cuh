// verify_draft, its distributions shared by one block each.
// SPDX-License-Identifier: Apache-2.0
#include "softmax/kernels/portable/blocks.cuh"
#include "verify_draft/kernels/verify_draft.cuh"
