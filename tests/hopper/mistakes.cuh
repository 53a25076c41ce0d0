// One mistake at a time: BODY is what the kernel does.
// SPDX-License-Identifier: Apache-2.0
#include "common/sm90/wgmma.cuh"

QUERN_KERNEL(k, 128, 1, q::u8* global, QUERN_PARAM q::TensorMap map) {
  using namespace q;
  QUERN_SHARED(Mbarrier, b, 2);
  [[maybe_unused]] const int t = thread_index();
  BODY
}
