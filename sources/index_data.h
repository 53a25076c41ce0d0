// What lies in index tensors (lengths, offsets, page ids, positions), held against the tensors that it points into. An op
// says in a list what it expects; on `host`, where a launch is synchronous and what is read here is what the kernel
// reads, the list is walked before the launch, and a wrong element is an error by name. On a GPU a call may not read it:
// there the list is walked by a kernel, in the checked form (sources/checked.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "jit/driver.h"
#include "sources/index_check/params.cuh"
#include "sources/op.h"

namespace quern::ops {

// The list. Each check may rely on the ones before it. `item` names what an element belongs to ("sequence", "expert";
// null: it is not said), `bound` what the upper limit comes from; all texts are string literals. What each check means
// stands with q::CheckKind.
class IndexList {
 public:
  // Returned for what few checks set.
  q::IndexCheck& in_range(const char* name, const q::Integers& values, std::int64_t count, std::int64_t least,
                          std::int64_t most, const char* item, const char* bound);
  q::IndexCheck& in_range(const char* name, const std::int32_t* values, std::int64_t count, std::int64_t least,
                          std::int64_t most, const char* item, const char* bound);
  // Rows of `columns` elements, `stride` apart.
  q::IndexCheck& rows_in_range(const char* name, const std::int32_t* values, std::int64_t rows, std::int64_t columns,
                               std::int64_t stride, std::int64_t least, std::int64_t most, const char* item,
                               const char* bound);
  void offsets(const char* name, const std::int32_t* offsets, std::int64_t count, std::int64_t most, const char* item,
               const char* bound);
  // Named in words; `argument` are the offsets.
  void extents(const char* name, const char* argument, const std::int32_t* offsets, std::int64_t count,
               std::int64_t most, const char* bound);
  void rooms(const char* name, const std::int32_t* values, const std::int32_t* indptr, std::int64_t count,
             std::int64_t size, const char* item, const char* bound);
  // The name is page_indices with an indptr, else page_table.
  q::IndexCheck& pages(const std::int32_t* pages, const std::int32_t* page_indptr, std::int64_t stride,
                       const std::int32_t* lengths, std::int64_t rows, std::int64_t size, std::int64_t count,
                       const char* bound);
  q::IndexCheck& add(q::CheckKind kind, const char* name, const q::Integers& values, std::int64_t rows,
                     const char* item, const char* bound);

  const q::IndexChecks& checks() const { return checks_; }
  bool empty() const { return checks_.count == 0; }

 private:
  q::IndexChecks checks_{};
};

inline q::Integers integers(const std::int32_t* values) { return {values, 1, 0}; }

// The sentence about a fault: "lengths[3] (sequence 3) is 70; allowed: 0 to 64, max_kv_len".
std::string text_of(const q::IndexCheck& check, const q::IndexFault& fault);
// "page_table" of that, and where in it: row, and column or -1.
struct FaultPlace {
  std::string argument;
  std::int64_t row, column;
};
FaultPlace place_of(const q::IndexCheck& check, const q::IndexFault& fault);

// Walks the list here. Throws Error(QUERN_INVALID) with the sentence about the first fault.
void expect(const IndexList& list);

// Whether the data of a device's tensors can be read by this process as it stands.
inline bool reads_index_data(const jit::DeviceInfo& device) {
  return device.limits.target.family() == jit::Family::host;
}

// In the checked form: enqueues the walk in front of the call's kernels, which it may keep from running.
void enqueue_checks(const Runtime& runtime, const IndexList& list, std::uint32_t call_flags, void* stream);

// Has what `make(IndexList&)` lists checked wherever this call checks index tensors, before its kernels are launched.
template <class Args, class Make>
void check_indices(const Runtime& runtime, const Args& args, const Make& make) {
  const bool here = runtime.call == nullptr && reads_index_data(runtime.driver->device());
  if (!here && runtime.call == nullptr) return;
  IndexList list;
  make(list);
  if (list.empty()) return;
  if (here) return expect(list);
  enqueue_checks(runtime, list, args.flags, args.stream);
}

}  // namespace quern::ops
