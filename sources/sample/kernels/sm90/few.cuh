// A few tokens in shared memory: in order, and one of them chosen. Part is a kernel's, with a desk there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/tma.cuh"
#include "sample/kernels/random.cuh"
#include "sample/kernels/report.cuh"

namespace q {

// What block r has at this place.
template <class T>
QUERN_DEVICE T of_block(const T* place, i32 r) {
  return load_cluster<T>(cluster_address(place, static_cast<u32>(r)));
}

// One of `count` tokens in few, its weight, and how many there are before it in order and what they weigh. Several
// lanes next to each other have the same token and share the comparisons; the first of them is `there`.
struct Ranked {
  bool there;
  Place place;
  u64 weight, before;
  u32 rank;
};
template <class Part, class Scope>
QUERN_DEVICE Ranked rank_few(const Part& part, const Scope& scope, i32 count) {
  auto& desk = *part.desk;
  i32 sharers = 1;
  QUERN_UNROLL for (int wider = 2; wider <= 8; wider *= 2) sharers = count * wider <= kThreads ? wider : sharers;
  const i32 t = thread_index() / sharers, among = thread_index() & (sharers - 1);
  Ranked own{};
  own.there = among == 0 && t < count;
  own.place = t < count ? desk.few[t] : Place{0};
  own.weight = t < count ? scope.weigh(value_at(own.place)) : u64{0};
  if (own.there) desk.weights[t] = own.weight;
  sync_block();
  if (warp() * kWarp / sharers < count) {
    QUERN_FOUR_AT_ONCE for (i32 i = among; i < count; i += sharers) {
      const bool more = desk.few[i] > own.place;
      own.before += more ? desk.weights[i] : u64{0}, own.rank += more;
    }
    QUERN_ROLLED for (int d = 1; d < sharers; d *= 2) {
      own.before += shuffle_xor(own.before, d), own.rank += shuffle_xor(own.rank, d);
    }
  }
  return own;
}

// Of a few tokens: the k largest, the share of those, one of what is left. One thread finds each
// and tells it.
struct Choice {
  i32 id;
  f32 x;  // its logit
};
template <class Part>
QUERN_DEVICE Choice choose_of_few(const Part& part, const Ranked& own, const Settings& s, i32 count, u64 random) {
  u64* const told = part.desk->bins[0];
  const u32 last = static_cast<u32>(s.top_k > 0 && s.top_k < count ? s.top_k : count) - 1;
  const u64 through = own.before + own.weight;
  if (own.there && own.rank == last) told[0] = through;
  sync_block();
  u64 left = told[0];
  if (s.top_p < 1.0f) {
    const u64 wanted = share_of(s.top_p, left, false);
    if (own.there && own.before < wanted && wanted <= through) told[1] = through;
    sync_block();
    left = told[1];
  }
  const u64 target = place_on_line(random, left);
  if (own.there && own.before <= target && target < through) told[2] = own.place;
  sync_block();
  return {index_at(told[2]), value_at(told[2])};
}

}  // namespace q
