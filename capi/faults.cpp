// What checked calls have found.
// SPDX-License-Identifier: Apache-2.0
#include "capi/context.h"
#include "capi/list.h"

using namespace quern;
using namespace quern::capi;

extern "C" {

int32_t quern_faults(quern_context* context, quern_list** faults, uint64_t* total, quern_error* error) {
  return guarded(error, [&] {
    quern_context& alive = live_with_device(context);
    quern_list*& out = out_parameter(faults, "faults");
    if (alive.checked == nullptr)
      throw Error(QUERN_INVALID, "context is not checked: make one with QUERN_CONTEXT_CHECKED in flags");
    std::uint64_t found = 0;
    std::vector<FaultRow> rows;
    for (ops::Fault& fault : alive.checked->take(&found)) {
      rows.push_back({std::move(fault.op), std::move(fault.place.argument), std::move(fault.text), fault.call,
                      fault.place.row, fault.place.column, fault.value, fault.least, fault.most});
    }
    std::unique_ptr<quern_list> list = make_list(std::move(rows));
    if (total != nullptr) *total = found;
    out = list.release();
    return QUERN_OK;
  });
}

}  // extern "C"
