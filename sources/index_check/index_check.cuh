// Walks a call's checks before its kernels, in the checked form: one block, check by check, since a later one follows
// what an earlier one has held to be right. The first fault by row and column is told, and closes the call.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.cuh"
#include "index_check/params.cuh"

namespace q {

inline constexpr int kThreads = THREADS;

#ifdef QUERN_CHECKED
QUERN_DEVICE void tell(const IndexChecks& p, const IndexCheck& check, const IndexFault& fault) {
  CheckedState& state = checked::state();
  u32 number = 0;
  auto* const to = reinterpret_cast<FaultMessage*>(checked::begin_message(state.faults, number));
  if (to == nullptr) return;
  to->call = p.call, to->op = p.op;
  to->row = fault.row, to->column = fault.column, to->at = fault.at;
  to->value = fault.value, to->least = fault.least, to->most = fault.most, to->extra = fault.extra;
  *reinterpret_cast<IndexCheck*>(to + 1) = check;
  publish(&to->ready, number);
}

QUERN_DEVICE void walk(const IndexChecks& p) {
  QUERN_SHARED(u64, first, 1);  // ~order of the first fault; 0: none
  if (p.again && load_volatile(p.verdict) != 0) return;
  const Walkers walkers = {warp(), kThreads / kWarp, lane(), kWarp};
  u32 verdict = 0;
  QUERN_ROLLED for (int i = 0; i < p.count && verdict == 0; ++i) {
    if (thread_index() == 0) first[0] = 0;
    sync_block();
    const IndexCheck& check = p.checks[i];
    IndexFault fault{};
    const bool found = first_fault(check, walkers, fault);
    const u64 order = ~(static_cast<u64>(fault.row) << 24 | static_cast<u64>((fault.column + 1) & 0xffffff));
    if (found) atomic_max(&first[0], order);
    sync_block();
    verdict = first[0] != 0;
    if (found && order == first[0]) tell(p, check, fault);
    sync_block();
  }
  if (thread_index() == 0 && (verdict != 0 || !p.again)) *p.verdict = verdict;
}
#endif

}  // namespace q

QUERN_KERNEL(quern_index_check, THREADS, 1, QUERN_PARAM q::IndexChecks p) {
#ifdef QUERN_CHECKED
  q::walk(p);
#endif
}
