// Walks the tree of drafts from its root, accepting or rejecting: all threads take the same way, and share the work
// where a whole distribution has to be looked at. That is once where a chain ends, and once more for each sibling of a
// rejected one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verify_draft/kernels/residual.cuh"

namespace q {

// The drafts of a sequence, in shared memory.
struct Drafts {
  i32 *tokens, *parents;  // [kMostDrafts]
  f32 *target, *draft;    // [kMostDrafts]: the probabilities of each one's token at its parent
  u32* wrong;             // [1]
  i32 count;
};

struct Verdict {
  i32 accepted, token;
  u32 status;
};

// Numbers of its own for each node, and for the token behind the accepted ones.
struct VerifyStream {
  u64 seed, offset, row;
  QUERN_DEVICE Philox at(u32 place) const { return philox(seed, offset, row << 32 | place); }
  // Uniform in (0, 1).
  QUERN_DEVICE f64 of_node(i32 node) const {
    return (static_cast<f64>(at(static_cast<u32>(node) + 1).x[0]) + 0.5) * 0x1p-32;
  }
  QUERN_DEVICE u64 of_token() const {
    const Philox random = at(0);
    return static_cast<u64>(random.x[1]) << 32 | random.x[0];
  }
};

QUERN_DEVICE const Element* row_of_target(const VerifyParams& p, i64 b, i32 node) {
  return static_cast<const Element*>(p.target) + b * p.target_stride + (node + 1) * p.target_row_stride;
}

QUERN_DEVICE void read_drafts(const VerifyParams& p, i64 b, Drafts& d) {
  d.count = p.lengths ? p.lengths[b] : p.n;
  if (thread_index() == 0) d.wrong[0] = d.count < 0 || d.count > p.n ? static_cast<u32>(kRowIndex) : 0u;
  d.count = d.count < 0 ? 0 : d.count > p.n ? p.n : d.count;
  sync_block();
  QUERN_ROLLED for (i32 i = thread_index(); i < d.count; i += kThreads) {
    const i32 token = p.draft_ids[b * p.draft_ids_stride + i],
              parent = p.parents ? p.parents[b * p.parents_stride + i] : i - 1;
    d.tokens[i] = token, d.parents[i] = parent;
    if (token < 0 || token >= p.vocab || parent < -1 || parent >= i) {
      atomic_or(d.wrong, static_cast<u32>(kRowIndex));
    } else if (p.target) {
      const f32 of_target = to_f32(row_of_target(p, b, parent)[token]);
      d.target[i] = kLogits ? probability_of(p.kept[b * (p.n + 1) + parent + 1], of_target, token) : of_target;
      if (p.draft) d.draft[i] = p.draft[b * p.draft_stride + (parent + 1) * p.draft_row_stride + token];
    }
  }
  sync_block();
}

// The children of a node, the first from `from` on; count where there are no more.
QUERN_DEVICE i32 next_child(const Drafts& d, i32 node, i32 from) {
  while (from < d.count && d.parents[from] != node) ++from;
  return from;
}

QUERN_DEVICE Verdict walk_greedily(const VerifyParams& p, i64 b, const Drafts& d, i32* path) {
  i32 node = -1, accepted = 0;
  while (true) {
    const i64 at = b * (p.n + 1) + node + 1;
    const i32 best = p.best[at];
    if (best < 0 || !(p.best_values[at] > p.least_value)) return {0, -1, kRowEmpty};
    i32 child = accepted < p.depth ? next_child(d, node, node + 1) : d.count;
    while (child < d.count && d.tokens[child] != best) child = next_child(d, node, child + 1);
    if (child >= d.count) return {accepted, best, 0};
    if (thread_index() == 0) path[accepted] = child;
    ++accepted, node = child;
  }
}

QUERN_DEVICE Verdict walk(const VerifyParams& p, i64 b, const Drafts& d, const VerifyStream& stream,
                          const DrawRoom& room, Rejected& rejected, i32* path) {
  i32 node = -1, accepted = 0;
  while (true) {
    KeptRow kept{};
    if constexpr (kLogits) kept = p.kept[b * (p.n + 1) + node + 1];
    const u32 status = kept.status & ~static_cast<u32>(kRowNan);
    if (status != 0) return {0, -1, status};
    const Node here(row_of_target(p, b, node), kept,
                    p.draft ? p.draft + b * p.draft_stride + (node + 1) * p.draft_row_stride : nullptr, p.vocab);
    rejected.count = 0;
    f64 drawn = 0;  // draft's probability of the rejected, where they cannot come twice
    f32 inverse = 1.0f;
    i32 child = accepted < p.depth ? next_child(d, node, node + 1) : d.count;
    bool taken = false;
    u64 total = 0;
    while (true) {
      if (child < d.count) {
        const i32 token = d.tokens[child];
        const f32 target = d.target[child], draft = p.draft ? d.draft[child] : 1.0f;
        const bool distinct = rejected.proposal == Proposal::distinct;
        const f32 scale = !distinct ? 1.0f : drawn < 1.0 ? static_cast<f32>(1.0 / (1.0 - drawn)) : 0.0f;
        const f64 left = static_cast<f64>(residual_of(rejected, token, target, draft)) * inverse,
                  of_draft = rejected.proposal == Proposal::own ? 1.0 : static_cast<f64>(draft) * scale;
        taken = stream.of_node(child) * of_draft < left;
        if (taken) break;
        sync_block();  // what the others read of the list so far
        if (thread_index() == 0) {
          rejected.tokens[rejected.count] = token;
          rejected.inverses[rejected.count] = inverse;
          rejected.scales[rejected.count] = scale;
        }
        sync_block();
        ++rejected.count;
        drawn += draft;
        child = next_child(d, node, child + 1);
      }
      total = weigh_node(room, here, rejected);
      if (child < d.count) {
        inverse = total != 0 ? static_cast<f32>(static_cast<f64>(kUnits) / static_cast<f64>(total)) : 0.0f;
      } else if (total == 0 && rejected.count > 0) {
        rejected.count = 0;  // rounding has left nothing: of all of it, then
      } else {
        break;
      }
    }
    if (!taken) {
      if (total == 0) return {0, -1, kRowEmpty};
      return {accepted, find_token(room, here, rejected, scale_to(stream.of_token(), total)), 0};
    }
    if (thread_index() == 0) path[accepted] = child;
    ++accepted, node = child;
  }
}

QUERN_DEVICE void report(const VerifyParams& p, i64 b, const Drafts& d, const i32* path, const Verdict& verdict) {
  sync_block();  // the path, which thread 0 wrote
  if (row_block() != 0) return;
  QUERN_ROLLED for (i32 i = thread_index(); i <= p.depth; i += kThreads) {
    p.ids[b * p.ids_stride + i] = i < verdict.accepted ? d.tokens[path[i]] : i == verdict.accepted ? verdict.token : -1;
    if (p.path && i < p.depth) p.path[b * p.path_stride + i] = i < verdict.accepted ? path[i] : -1;
  }
  if (thread_index() != 0) return;
  p.accepted[b] = verdict.accepted;
  if (p.status) p.status[b] = static_cast<i32>(verdict.status);
  if (p.offsets) p.offsets[b] += 1;
}

QUERN_DEVICE void verify_draft(const VerifyParams& p) {
  QUERN_SHARED(i32, tokens, kMostDrafts);
  QUERN_SHARED(i32, parents, kMostDrafts);
  QUERN_SHARED(i32, path, kMostDrafts);
  QUERN_SHARED(f32, of_target, kMostDrafts);
  QUERN_SHARED(f32, of_draft, kMostDrafts);
  QUERN_SHARED(u32, wrong, 1);
  QUERN_SHARED(i32, rejected_tokens, kMostDrafts);
  QUERN_SHARED(f32, inverses, kMostDrafts);
  QUERN_SHARED(f32, scales, kMostDrafts);
  QUERN_SHARED(u64, of_steps, kWarps * kMostSteps);
  QUERN_SHARED(u64, of_warps, kWarps);
  QUERN_SHARED(u64, of_blocks, kMostRowBlocks);
  QUERN_SHARED(i32, found, 1);
  const i32 step = block_count(0) / row_blocks();
  QUERN_ROLLED for (i64 b = block_index(0) / row_blocks(); b < p.batch; b += step) {
    Drafts drafts{tokens, parents, of_target, of_draft, wrong, 0};
    const VerifyStream stream{p.seeds ? static_cast<u64>(p.seeds[b]) : p.seed,
                              p.offsets ? static_cast<u64>(p.offsets[b]) : p.offset,
                              p.seeds ? u64{0} : static_cast<u64>(b) + 1};
    read_drafts(p, b, drafts);
    Verdict verdict{0, -1, wrong[0]};
    if (verdict.status == 0) {
      if (!p.target) {
        verdict = walk_greedily(p, b, drafts, path);
      } else {
        Rejected rejected{rejected_tokens, inverses, scales, 0,
                          !p.draft                ? Proposal::own
                          : p.without_replacement ? Proposal::distinct
                                                  : Proposal::independent};
        verdict = walk(p, b, drafts, stream, {of_steps, of_warps, of_blocks, found}, rejected, path);
      }
    }
    // All blocks have read the offset before it is raised, and what they share before it is written again.
    sync_row();
    report(p, b, drafts, path, verdict);
    if (b + step < p.batch) sync_row();
  }
}

}  // namespace q

QUERN_KERNEL(quern_verify_draft, THREADS, BLOCKS_PER_SM, QUERN_PARAM q::VerifyParams p) {
  q::launch_next_grid();
  q::begin_rows();
  q::wait_for_previous_grid();
  q::verify_draft(p);
}
