/* quern.h first, then dlpack.h, and what a program does that needs both: DLPack's managed tensors are there.
 * SPDX-License-Identifier: Apache-2.0 */
#include "quern.h"
#ifdef QUERN_TEST_DLPACK
#include QUERN_TEST_DLPACK
#endif

int quern_test_managed(DLManagedTensor *managed, DLManagedTensorVersioned *versioned);
int quern_test_managed(DLManagedTensor *managed, DLManagedTensorVersioned *versioned) {
  const DLDeviceType type = kDLCPU;
  if (versioned->version.major == DLPACK_MAJOR_VERSION && managed->dl_tensor.device.device_type == type) return 0;
  managed->deleter(managed);
  versioned->deleter(versioned);
  return (versioned->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
}
