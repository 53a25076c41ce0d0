// SPDX-License-Identifier: Apache-2.0
#include "widened.h"

#include <ggml-backend-impl.h>

#include <iterator>

namespace quern::ggml {
namespace {

constexpr std::size_t kShareLeft = 8;

}  // namespace

void* Widened::of(const ggml_tensor* matrix, std::size_t bytes, bool* held) {
  *held = false;
  const ggml_backend_buffer* buffer = matrix->buffer;
  if (buffer == nullptr || buffer->buft != type_ || buffer->usage != GGML_BACKEND_BUFFER_USAGE_WEIGHTS) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<std::uintptr_t>(matrix->data);
  const std::size_t from_bytes = ggml_nbytes(matrix);
  if (const auto found = kept_.find(address); found != kept_.end()) {
    const Kept& kept = found->second;
    // Another view of the same weights is widened for each product, as what is no weight is.
    if (kept.from_bytes != from_bytes || kept.bytes != bytes || kept.columns != matrix->ne[0] ||
        kept.type != matrix->type) {
      return nullptr;
    }
    *held = kept.held;
    return kept.memory;
  }
  const auto next = kept_.lower_bound(address);
  const bool overlaps_next = next != kept_.end() && next->first < address + from_bytes;
  const bool overlaps_last =
      next != kept_.begin() && std::prev(next)->first + std::prev(next)->second.from_bytes > address;
  if (overlaps_next || overlaps_last) return nullptr;
  std::size_t free = 0, total = 0;
  memory_.room(&free, &total);
  if (free < bytes + total / kShareLeft) return nullptr;
  void* memory = memory_.allocate(bytes);
  if (memory != nullptr) kept_[address] = {from_bytes, bytes, matrix->ne[0], matrix->type, memory, false};
  return memory;
}

void Widened::keep(const ggml_tensor* matrix) {
  const std::lock_guard lock(mutex_);
  if (const auto found = kept_.find(reinterpret_cast<std::uintptr_t>(matrix->data)); found != kept_.end()) {
    found->second.held = true;
  }
}

void Widened::forget(const void* begin, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  bool waited = false;
  for (auto at = kept_.begin(); at != kept_.end() && at->first < first + bytes;) {
    if (at->first + at->second.from_bytes <= first) {
      ++at;
      continue;
    }
    // A graph that reads it may still run.
    if (!waited) memory_.synchronise();
    waited = true;
    memory_.free(at->second.memory);
    at = kept_.erase(at);
  }
}

}  // namespace quern::ggml
