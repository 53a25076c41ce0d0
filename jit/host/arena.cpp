// The shared memory of one block.
// SPDX-License-Identifier: Apache-2.0
#include "jit/host/arena.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "jit/host/sanitizer.h"

namespace quern::jit::host {
namespace {

constexpr std::uint64_t kAlign = 128;
constexpr std::uint64_t kZone = 128;
constexpr int kZoneByte = 0xa5;

constexpr std::uint64_t kTileAlign = 1024;

constexpr std::uint64_t aligned(std::uint64_t bytes, std::uint64_t to = kAlign) { return (bytes + to - 1) / to * to; }

}  // namespace

std::uint64_t place(q::host::SharedArray* arrays) {
  std::uint64_t end = 0;
  for (auto* a = arrays; a != nullptr; a = a->next) {
    a->offset = end;
    end += aligned(a->bytes) + kZone;
  }
  return aligned(end, kTileAlign);
}

std::uint64_t static_bytes(const q::host::SharedArray* arrays) {
  std::uint64_t sum = 0;
  for (const auto* a = arrays; a != nullptr; a = a->next) sum += a->bytes;
  return sum;
}

Arena::~Arena() {
  allow_all();
  std::free(memory_);
}

void Arena::allow_all() {
  if (memory_ != nullptr) make_accessible(memory_, capacity_);
}

void Arena::lay_out(std::uint64_t image, const q::host::SharedArray* arrays, std::uint64_t placed_bytes,
                    std::uint32_t dynamic_bytes) {
  if (image == image_ && dynamic_bytes == dynamic_bytes_) return;
  allow_all();
  image_ = 0;
  parts_.clear();
  const std::uint64_t need = aligned(placed_bytes + aligned(dynamic_bytes) + kZone, kTileAlign);
  if (need > capacity_) {
    std::free(memory_);
    capacity_ = 0;
    memory_ = static_cast<unsigned char*>(std::aligned_alloc(kTileAlign, need));
    if (memory_ == nullptr) throw std::bad_alloc();
    capacity_ = need;
  }
  for (const auto* a = arrays; a != nullptr; a = a->next) {
    const std::uint64_t next = a->next != nullptr ? a->next->offset : placed_bytes;
    parts_.push_back({memory_ + a->offset, a->bytes, next - a->offset - a->bytes});
  }
  parts_.push_back({memory_ + placed_bytes, dynamic_bytes, capacity_ - placed_bytes - dynamic_bytes});
  for (const Part& p : parts_) {
    std::memset(p.begin + p.bytes, kZoneByte, p.zone);
    make_inaccessible(p.begin + p.bytes, p.zone);
  }
  image_ = image;
  placed_ = placed_bytes;
  dynamic_bytes_ = dynamic_bytes;
}

void Arena::poison() {
  for (const Part& p : parts_) std::memset(p.begin, 0xff, p.bytes);
}

void Arena::poison(std::uint64_t seed) {
  for (const Part& p : parts_) {
    for (std::size_t i = 0; i < p.bytes; ++i) {
      // The low byte of each word, the others 0.
      if (i % 4 == 0) seed = seed * 6364136223846793005u + 1442695040888963407u;
      p.begin[i] = i % 4 == 0 ? static_cast<unsigned char>(seed >> 58) : 0;
    }
  }
}

std::string Arena::overrun() {
#ifndef QUERN_HOST_ASAN  // which reports the access itself
  for (const Part& p : parts_) {
    // Only the first bytes: whatever overruns begins there, and this is paid for every block.
    const unsigned char* zone = p.begin + p.bytes;
    const unsigned char* end = zone + std::min(p.zone, kZone);
    const unsigned char* bad = std::find_if(zone, end, [](unsigned char b) { return b != kZoneByte; });
    if (bad == end) continue;
    image_ = 0;  // the zones must be made anew
    const bool dynamic = &p == &parts_.back();
    return "shared memory overrun: the kernel wrote " + std::to_string(bad - zone) + " bytes past the end of " +
           (dynamic ? "the " + std::to_string(p.bytes) + " bytes of dynamic shared memory"
                    : "a static array of " + std::to_string(p.bytes) + " bytes");
  }
#endif
  return {};
}

}  // namespace quern::jit::host
