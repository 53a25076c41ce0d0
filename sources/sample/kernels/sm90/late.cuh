// Where edits that only lower logits wait until few tokens of a row are left: these are candidates, by their raw
// logits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sample/kernels/sm90/listed.cuh"

namespace q {

// A place has a bit that no index has, and that is not set in it where the prompt's mask has the token.
inline constexpr Place kPromptPlace = Place{1} << 31;
QUERN_DEVICE Place with_prompt(Place place) { return place & ~kPromptPlace; }
static_assert(kMostVocab <= 1 << 30);

// The lists are looked through for candidates, which are in a hash of their ids: open addressing in the place of bins
// that are all 0 and not asked for then.
struct Late {
  bool waits;
  const SampleParams& p;
  const Row& row;
  const Entries& entries;
  const HeldEntries& held;
  static constexpr u32 kSlots = 2 * kSegment;
  static_assert(!kFilters || (8 * 4 * kSegment + 8 * kSlots <= 4 * kBinWordsKept));

  // 1 + the id, 0: nothing; what lists say of it.
  QUERN_DEVICE static u32* ids_of(const Part& part) { return reinterpret_cast<u32*>(part.work + 8 * 4 * kSegment); }
  QUERN_DEVICE static u32* words_of(const Part& part) { return ids_of(part) + kSlots; }
  QUERN_DEVICE static u32 slot_of(u32 id) { return id * 0x9e3779b1u >> 23; }
  static_assert(kSlots == 1u << (32 - 23));

  // One of the candidates: *slot becomes its slot.
  QUERN_DEVICE void seek(const Part& part, Place place, u64* slot) const {
    if (!part.lists()) return;
    u32* const ids = ids_of(part);
    const u32 id = static_cast<u32>(index_of(place)) + 1;
    u32 its = slot_of(id);
    while (atomic_cas(ids + its, 0u, id) != 0) its = (its + 1) & (kSlots - 1);
    *slot = its;
  }
  QUERN_DEVICE static i32 index_of(Place place) { return index_at(place | kPromptPlace); }

  // Once all have been sought: what is sampled from takes the candidates' places; *max is the largest. How many are no
  // less than `least`. All threads; a barrier before it, and it ends with one.
  QUERN_DEVICE u32 settle(const Part& part, Place* places, const u64* slots, i32 count, f32 least, f32* max) const {
    Desk& desk = *part.desk;
    const u32* const ids = ids_of(part);
    u32* const words = words_of(part);
    if (part.lists()) {
      QUERN_ROLLED for (i32 base = 0; base < entries.all; base += kHeld * kThreads) {
        HeldEntries own = held;
        if (base != 0) own = ask_for_entries(entries, base);
        QUERN_UNROLL for (int j = 0; j < kHeld; ++j) {
          // What is no token is sought as 0, and found at a slot that nobody has.
          const u32 id = static_cast<u32>(own.tokens[j] < 0 ? -1 : own.tokens[j]) + 1;
          u32 slot = slot_of(id), stood = ids[slot];
          while (stood != id && stood != 0) slot = (slot + 1) & (kSlots - 1), stood = ids[slot];
          if (stood == 0) continue;
          const int list = entries.list_of(base + j * kThreads + thread_index());
          if (list == 1) {
            atomic_add(words + slot, 1u);
          } else {
            atomic_or(words + slot, list == 0 ? kSaidPrompt : kSaidBanned);
          }
        }
      }
      sync_block();
    }
    const i32 t = thread_index();
    if (warp() * kWarp < count) {
      f32 x = -infinity();
      if (t < count) {
        const Place place = places[t];
        const i32 token = index_of(place);
        const u32 said = part.lists() ? words[slots[t]] : 0;
        const i32 number = static_cast<i32>(said & kSaidCount) + (row.counts ? row.counts[token] : 0);
        x = penalise(row, value_at(place), (place & kPromptPlace) == 0 || (said & kSaidPrompt) != 0, number);
        x = (said & kSaidBanned) != 0 ? -infinity() : fmax(x, -infinity());
        places[t] = place_of(x, token);
      }
      const u32 top = warp_max(key_of(x)), reach = static_cast<u32>(popcount(ballot(t < count && x >= least)));
      if (lane() == 0) atomic_max(&desk.top, top), atomic_add(&desk.reach, reach);
    }
    sync_block();
    *max = value_of(desk.top);
    return desk.reach;
  }
};

}  // namespace q
