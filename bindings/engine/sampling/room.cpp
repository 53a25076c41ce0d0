// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/sampling/room.h"

#include "bindings/demo/call.h"
#include "bindings/engine/view.h"

namespace quern::engine {

// What a list takes of a device's shared memory is quern's to know, so it is asked: it measures a call, and that
// neither compiles nor computes anything.
std::int64_t most_listed(quern_context* context, DLDevice device, std::int64_t vocabulary) {
  for (std::int64_t listed = 4096;; listed /= 2) {
    const View logits(nullptr, device, kF32, {1, vocabulary}), ids(nullptr, device, kI32, {1}),
        banned(nullptr, device, kI32, {1, listed});
    auto args = demo::sized<quern_sample_args>();
    args.logits = logits, args.ids = ids, args.banned = banned;
    std::int32_t status = QUERN_OK;
    demo::call([&](quern_error* error) {
      std::uint64_t bytes = 0;
      status = quern_sample_workspace(context, &args, &bytes, error);
      return status == QUERN_UNSUPPORTED && listed > 1 ? static_cast<std::int32_t>(QUERN_OK) : status;
    });
    if (status == QUERN_OK) return listed;
  }
}

}  // namespace quern::engine
