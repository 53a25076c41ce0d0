// SPDX-License-Identifier: Apache-2.0
#include "sources/repeat/repeats.h"

#include <algorithm>
#include <cstring>

#include "jit/error.h"

namespace quern::ops {
namespace {

std::uint64_t word_at(const unsigned char* bytes, std::size_t at) {
  std::uint64_t word;
  std::memcpy(&word, bytes + at, sizeof(word));
  return word;
}

void set_word(unsigned char* bytes, std::size_t at, std::uint64_t word) {
  std::memcpy(bytes + at, &word, sizeof(word));
}

// Addresses that sums of distances stay within.
bool is_usual(std::uint64_t address) { return address >> 62 == 0; }

bool lie_apart(const Extents& extents, const std::uint64_t* addresses, std::size_t i, std::size_t j) {
  const auto from = [&](std::size_t k) { return static_cast<std::int64_t>(addresses[k]) + extents.begin[k]; };
  const auto to = [&](std::size_t k) { return static_cast<std::int64_t>(addresses[k]) + extents.end[k]; };
  return to(i) <= from(j) || to(j) <= from(i);
}

bool same(const jit::Launch& a, const jit::Launch& b) {
  return std::ranges::equal(a.grid, b.grid) && std::ranges::equal(a.block, b.block) &&
         std::ranges::equal(a.cluster, b.cluster) && a.shared_bytes == b.shared_bytes &&
         a.programmatic == b.programmatic && a.stream == b.stream;
}

bool same(const Recording& a, const Recording& b) {
  if (a.launch_count != b.launch_count || a.argument_count != b.argument_count || a.byte_count != b.byte_count)
    return false;
  for (std::size_t i = 0; i < a.launch_count; ++i) {
    const Recording::Launched &one = a.launches[i], &other = b.launches[i];
    if (one.kernel != other.kernel || one.what != other.what || one.first != other.first || one.count != other.count ||
        !same(one.how, other.how)) {
      return false;
    }
  }
  for (std::size_t i = 0; i < a.argument_count; ++i) {
    if (a.arguments[i].at != b.arguments[i].at || a.arguments[i].bytes != b.arguments[i].bytes) return false;
  }
  return true;
}

// But for the address.
bool same(const jit::TensorMapDesc& a, const jit::TensorMapDesc& b) {
  return a.data_type == b.data_type && a.rank == b.rank && std::ranges::equal(a.extent, b.extent) &&
         std::ranges::equal(a.stride, b.stride) && std::ranges::equal(a.box, b.box) && a.swizzle == b.swizzle &&
         a.l2_promotion == b.l2_promotion;
}

}  // namespace

void Extents::tensor(const DLTensor* tensor) {
  if (tensor == nullptr || tensor->data == nullptr) return;
  const std::int64_t bytes = (std::int64_t{tensor->dtype.bits} * tensor->dtype.lanes + 7) / 8;
  std::int64_t from = 0, to = bytes, compact = bytes;
  for (std::int32_t d = tensor->ndim - 1; d >= 0; --d) {
    const std::int64_t extent = tensor->shape[d];
    std::int64_t stride = compact, further = 0;
    if ((tensor->strides != nullptr && __builtin_mul_overflow(tensor->strides[d], bytes, &stride)) ||
        __builtin_mul_overflow(compact, extent, &compact) || __builtin_mul_overflow(extent - 1, stride, &further) ||
        __builtin_add_overflow(further < 0 ? from : to, further, further < 0 ? &from : &to)) {
      known = false;
    }
  }
  add(from, to);
}

Repeats::Repeats(const jit::Driver& driver)
    : device_{driver.device().device_type, driver.device().device_id},
      headers_(std::make_unique<Header[]>(kSets * kWays)),
      records_(std::make_unique_for_overwrite<Record[]>(kSets * kWays)) {}

Repeats::~Repeats() = default;

// Zeros where the frames of what is called next will be: gaps between the fields of what it makes there are then alike
// each time.
[[gnu::noinline]] void Repeats::scrub_stack() noexcept {
  unsigned char below[16 * 1024];
  std::memset(below, 0, sizeof(below));
  asm volatile("" : : "r"(below) : "memory");
}

// True: it has been launched. With a place the call has been made before, and is to be made and kept now.
bool Repeats::launch(const Runtime& runtime, const Signature& call, Place* place) {
  const std::uint64_t hash = call.hash(), generation = generation_.load(std::memory_order_acquire);
  const std::size_t set = (hash >> 32) % kSets * kWays;
  for (std::size_t way = set; way < set + kWays; ++way) {
    Header& header = headers_[way];
    if (header.hash.load(std::memory_order_relaxed) != hash) continue;
    if (header.busy.exchange(1, std::memory_order_acquire) != 0) return false;
    Place here;
    here.header = &header;
    if (header.hash.load(std::memory_order_relaxed) != hash) return false;
    if (header.generation != generation) header.kind = Header::Kind::seen;
    if (header.kind == Header::Kind::unfit) return false;
    Record& record = records_[way];
    if (header.kind == Header::Kind::seen) {
      place->header = here.header, place->record = &record, place->generation = generation;
      here.header = nullptr;
      return false;
    }
    if (record.word_count != call.count() || record.address_count != call.address_count() ||
        std::memcmp(record.words.data(), call.words(), call.count() * sizeof(std::uint64_t)) != 0) {
      return false;
    }
    std::uint64_t moved = 0;
    for (std::size_t i = 0; i < record.address_count; ++i) moved |= record.addresses[i] ^ call.addresses()[i];
    if (moved != 0 && !move(runtime, record, call)) return false;
    for (std::size_t i = 0; i < record.launch_count; ++i) {
      Recording::Launched& one = record.launches[i];
      one.how.stream = call.stream();
      const int code =
          runtime.driver->launch(one.kernel->loaded, one.how, record.arguments.data() + one.first, one.count);
      if (code != 0) [[unlikely]]
        refuse_launch(runtime, one.how, code, one.what);
    }
    repeated_.store(repeated_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return true;
  }
  Place first_time;
  take(hash, &first_time);
  return false;
}

// The place of a call of this hash, which is seen from now on; none where others are busy.
void Repeats::take(std::uint64_t hash, Place* place) noexcept {
  const std::uint64_t generation = generation_.load(std::memory_order_acquire);
  const std::size_t set = (hash >> 32) % kSets * kWays;
  std::size_t chosen = set + turn_.fetch_add(1, std::memory_order_relaxed) % kWays;
  for (std::size_t way = set; way < set + kWays; ++way) {
    const std::uint64_t there = headers_[way].hash.load(std::memory_order_relaxed);
    if (there == 0 || there == hash) chosen = way;
    if (there == hash) break;
  }
  Header& header = headers_[chosen];
  if (header.busy.exchange(1, std::memory_order_acquire) != 0) return;
  header.hash.store(hash, std::memory_order_relaxed);
  header.kind = Header::Kind::seen;
  header.generation = generation;
  place->header = &header, place->record = &records_[chosen], place->generation = generation;
}

// Writes a call's addresses into what is kept. False, and nothing has changed: its tensors lie otherwise to each other.
bool Repeats::move(const Runtime& runtime, Record& record, const Signature& call) {
  const std::uint64_t* const now = call.addresses();
  const std::size_t count = record.address_count;
  std::array<std::uint64_t, Signature::kMostAddresses> by;
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_usual(now[i])) return false;
    by[i] = now[i] - record.addresses[i];
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (by[i] == 0) continue;
    for (std::size_t j = 0; j < count; ++j) {
      if (j == i) continue;
      if (record.part[i] == record.part[j] ? by[i] != by[j] : !lie_apart(record.extents, now, i, j)) return false;
    }
  }
  std::array<jit::TensorMap, Recording::kMostMaps> maps;
  std::array<jit::TensorMapDesc, Recording::kMostMaps> descs;
  for (std::size_t i = 0; i < record.map_count; ++i) {
    const std::uint64_t further = by[record.map_places[i].address];
    if (further == 0) continue;
    descs[i] = record.maps[i];
    descs[i].address = static_cast<unsigned char*>(descs[i].address) + further;
    try {
      runtime.tensor_maps->get(descs[i], maps[i]);
    } catch (...) {
      return false;  // the call's own way says why
    }
  }
  for (std::size_t i = 0; i < record.map_count; ++i) {
    const Record::Patch& place = record.map_places[i];
    if (by[place.address] == 0) continue;
    record.maps[i] = descs[i];
    std::memcpy(record.bytes.data() + place.at, &maps[i], sizeof(maps[i]));
  }
  for (std::size_t i = 0; i < record.patch_count; ++i) {
    const Record::Patch& patch = record.patches[i];
    set_word(record.bytes.data(), patch.at, word_at(record.bytes.data(), patch.at) + by[patch.address]);
  }
  std::copy_n(now, count, record.addresses.begin());
  return true;
}

bool Repeats::shift(const Signature& call, const Extents& extents, Shifted* shifted) noexcept {
  const std::size_t count = call.address_count();
  const std::uint64_t* const addresses = call.addresses();
  if (extents.size != count || !std::all_of(addresses, addresses + count, is_usual)) return false;
  for (std::size_t i = 0; i < count; ++i) shifted->part[i] = static_cast<std::uint8_t>(i);
  // What lies over each other is of one part, named after its first.
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const std::uint8_t a = shifted->part[i], b = shifted->part[j];
      if (a == b || lie_apart(extents, addresses, i, j)) continue;
      for (std::size_t k = 0; k <= i; ++k) {
        if (shifted->part[k] == a || shifted->part[k] == b) shifted->part[k] = std::min(a, b);
      }
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t part = shifted->part[i], first = addresses[part];
    const std::uint64_t distance = addresses[i] > first ? addresses[i] - first : first - addresses[i];
    if (distance > Extents::kMost) return false;
    shifted->first[i] = made_up(addresses[i], first, part, false);
    shifted->second[i] = made_up(addresses[i], first, part, true);
  }
  return true;
}

bool Repeats::keep(const Runtime& runtime, const Signature& call, const Extents& extents, const Shifted& shifted,
                   const Recording& made, const Recording& first, const Recording& second, Place& place) {
  if (!same(made, first) || !same(made, second) || made.map_count != first.map_count ||
      first.map_count != second.map_count)
    return false;
  Record& record = *place.record;
  record.word_count = call.count(), record.address_count = call.address_count();
  record.launch_count = made.launch_count, record.argument_count = made.argument_count;
  record.patch_count = record.map_count = 0;
  std::copy_n(call.words(), call.count(), record.words.begin());
  std::copy_n(call.addresses(), call.address_count(), record.addresses.begin());
  std::copy_n(shifted.part.begin(), call.address_count(), record.part.begin());
  record.extents = extents;
  std::copy_n(made.launches.begin(), made.launch_count, record.launches.begin());
  std::copy_n(made.bytes.begin(), made.byte_count, record.bytes.begin());
  // The number of the address that moves from one made-up call to the other as these two do; none where they differ in
  // another way.
  const auto mover = [&](std::uint64_t one, std::uint64_t other) -> std::size_t {
    const std::uint64_t further = other - one;
    const std::uint64_t part = further / kFurther - 1;
    const bool known = further % kFurther == 0 && part < call.address_count() && shifted.part[part] == part;
    return known ? part : call.address_count();
  };
  const auto back = [&](std::uint64_t made_up_word, std::size_t address) {
    return made_up_word - shifted.first[address] + call.addresses()[address];
  };
  for (std::size_t i = 0; i < made.argument_count; ++i) {
    const auto [at, bytes] = made.arguments[i];
    record.arguments[i] = record.bytes.data() + at;
    for (std::size_t word = at; word < at + bytes; word += 8) {
      const std::uint64_t one = word_at(first.bytes.data(), word), other = word_at(second.bytes.data(), word);
      const std::uint64_t there = word_at(made.bytes.data(), word);
      if (one == Recording::kMapMark && first.map_count != 0) {
        const std::uint64_t number = word_at(first.bytes.data(), word + 8);
        if (other != one || number >= first.map_count || word_at(second.bytes.data(), word + 8) != number ||
            word + sizeof(jit::TensorMap) > at + bytes || record.map_count == Recording::kMostMaps) {
          return false;
        }
        jit::TensorMapDesc desc = first.maps[number];
        const std::uint64_t from = reinterpret_cast<std::uintptr_t>(desc.address),
                            to = reinterpret_cast<std::uintptr_t>(second.maps[number].address);
        const std::size_t address = mover(from, to);
        if (address == call.address_count() || !same(desc, second.maps[number])) return false;
        desc.address = reinterpret_cast<void*>(back(from, address));  // NOLINT(performance-no-int-to-ptr)
        jit::TensorMap map;
        runtime.tensor_maps->get(desc, map);
        if (there != one || word_at(made.bytes.data(), word + 8) != number || made.maps[number].address != desc.address)
          return false;
        std::memcpy(record.bytes.data() + word, &map, sizeof(map));
        record.maps[record.map_count] = desc;
        record.map_places[record.map_count++] = {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(address)};
        word += sizeof(jit::TensorMap) - 8;
        continue;
      }
      if (one == other) {
        if (there != one) return false;
        continue;
      }
      const std::size_t address = mover(one, other);
      if (address == call.address_count() || there != back(one, address) ||
          record.patch_count == record.patches.size()) {
        return false;
      }
      record.patches[record.patch_count++] = {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(address)};
    }
  }
  place.header->generation = place.generation;
  place.header->kind = Header::Kind::kept;
  return true;
}

}  // namespace quern::ops
