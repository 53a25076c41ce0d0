// Edits the rows of target's logits as sample does, each for the tokens on its node's path, into rows of f32: what
// comes behind reads these as if there were no edits.
//
// A block takes a part of a row. Penalties and masks that have a place for each token are applied as it streams by;
// then what lists and the path name is written once more, from sample's table of edited tokens. A row whose parameters
// make no sense becomes -inf throughout, so that nothing can be drawn from it; why is told to the report.
// SPDX-License-Identifier: Apache-2.0
#include "sample/kernels/edits.cuh"
#include "verify_draft/around.cuh"
#include "verify_draft/params.cuh"

namespace q {

// The drafts from the root to a node, in no particular order.
struct DraftPath {
  i32* tokens;  // [kMostDrafts] in shared memory
  i32 count;
};

// Of the node that row `node` of target is behind. `parents` and `count` are shared memory to work in. All threads;
// ends with a barrier. Where parents make no sense, which the walk reports, the path is some shorter one.
QUERN_DEVICE DraftPath path_of(const EditParams& p, i64 b, i32 node, i32* tokens, i32* parents, i32* count) {
  const i32* const ids = p.draft_ids + b * p.draft_ids_stride;
  if (!p.parents) {
    QUERN_ROLLED for (i32 i = thread_index(); i < node; i += kThreads) tokens[i] = ids[i];
    sync_block();
    return {tokens, node};
  }
  QUERN_ROLLED for (i32 i = thread_index(); i < node; i += kThreads) {
    parents[i] = p.parents[b * p.parents_stride + i];
  }
  sync_block();
  if (thread_index() == 0) {
    i32 depth = 0;
    QUERN_ROLLED for (i32 i = node - 1; i >= 0;) {
      tokens[depth++] = ids[i];
      const i32 parent = parents[i];
      i = parent < i ? parent : -1;
    }
    *count = depth;
  }
  sync_block();
  return {tokens, *count};
}

// The tokens first .. end-1 that a sequence's lists and the path name, each as often as they do.
struct NamedInPart {
  const SampleParams& p;
  i32 i;
  const DraftPath& path;
  i32 first, end;
  template <class F>
  QUERN_DEVICE void operator()(F f) const {
    const auto of_part = [&](i32 token, From from, i32 at) {
      if (token >= first && token < end && token < p.vocab) f(token, from, at);
    };
    each_edited(p, i, of_part);
    QUERN_ROLLED for (i32 t = thread_index(); t < path.count; t += kThreads) of_part(path.tokens[t], From::output, 0);
  }
};

QUERN_DEVICE void store_chunk(f32* out, i32 begin, i32 vocab, const f32 (&x)[kEach]) {
  const bool whole = begin + kChunk <= vocab;
  QUERN_UNROLL for (int j = 0; j < kLoads; ++j) {
    const i32 at = begin + place_in_chunk(j);
    const f32* const own = x + j * kVector;
    if (whole) {
      QUERN_UNROLL for (int e = 0; e < kVector; e += 4) {
        store16_global(out + at + e,
                       {{bits_of(own[e]), bits_of(own[e + 1]), bits_of(own[e + 2]), bits_of(own[e + 3])}});
      }
    } else {
      QUERN_UNROLL for (int e = 0; e < kVector; ++e) {
        if (at + e < vocab) out[at + e] = own[e];
      }
    }
  }
}

QUERN_DEVICE void edit_rows(const EditParams& p) {
  QUERN_SHARED(i32, tokens, kMostDrafts);
  QUERN_SHARED(i32, parents, kMostDrafts);
  QUERN_SHARED(i32, count, 1);
  QUERN_SHARED(u32, found, 1);
  const SampleParams& s = p.of_sequences;
  QUERN_ROLLED for (i64 unit = block_index(0); unit < p.units; unit += block_count(0)) {
    const i64 r = unit / p.parts, b = r / p.rows;
    const i32 part = static_cast<i32>(unit - r * p.parts), node = static_cast<i32>(r - b * p.rows);
    if (node > 0 && p.lengths && node > p.lengths[b]) continue;
    Row row = row_of_call(s, static_cast<i32>(b));
    row.logits = static_cast<const Logit*>(p.target) + b * p.target_stride + node * p.target_row_stride;
    if (p.allowed) row.allowed = p.allowed + b * p.allowed_stride + node * p.allowed_row_stride;
    sync_block();  // what was there of the last unit has been read
    if (thread_index() == 0) found[0] = 0;
    sync_block();
    const u32 mistakes = mistakes_of_edits(s, row, 0);
    if (mistakes != 0) atomic_or(found, mistakes);
    sync_block();
    const u32 wrong = found[0];
    if (node == 0 && part == 0 && thread_index() == 0) p.wrong[b] = static_cast<i32>(wrong);
    const i32 first_chunk = part * s.chunks_per_block, rest = s.chunks - first_chunk,
              chunks = rest < s.chunks_per_block ? rest : s.chunks_per_block;
    const i32 first = first_chunk * kChunk, end = first + chunks * kChunk;
    f32* const out = p.out + r * p.out_stride;
    QUERN_ROLLED for (i32 c = warp(); c < chunks; c += kThreads / kWarp) {
      f32 x[kEach];
      const i32 begin = first + c * kChunk;
      load_chunk(row, begin, s.vocab, p.vectors, x);
      edit_chunk(s, row, begin, nullptr, x);
      if (wrong != 0) {
        QUERN_UNROLL for (int i = 0; i < kEach; ++i) x[i] = -infinity();
      }
      store_chunk(out, begin, s.vocab, x);
    }
    if (s.slots == 0 || wrong != 0) continue;
    DraftPath path{tokens, 0};
    if (p.penalised) path = path_of(p, b, node, tokens, parents, count);
    // The table's barriers stand between what was stored above and what is now.
    const EditTable table = make_table(s, row, NamedInPart{s, row.i, path, first, end});
    QUERN_ROLLED for (u32 slot = static_cast<u32>(thread_index()); slot < table.slots; slot += kThreads) {
      if (table.tokens[slot] != EditTable::kFree) out[table.tokens[slot]] = table.values[slot];
    }
  }
}

}  // namespace q

QUERN_KERNEL(quern_verify_draft_edit, THREADS, 2, QUERN_PARAM q::EditParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  q::edit_rows(p);
}
