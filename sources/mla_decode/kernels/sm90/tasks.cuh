// How the warp that schedules tells the others what to do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/tma.cuh"
#include "mla_decode/kernels/shared/schedule.cuh"

namespace q {

// A piece as this block of threads has it: one tile of its rows.
struct Task {
  i32 q_begin;
  i32 position, kv_len;
  i32 first_row, rows;  // of the sequence's rows; 0 where only the other block of the cluster has any; -1: the end
  i32 key, end_key;     // the first key, and where the last pair of blocks ends
  Range any, all;       // what any of its rows sees, and what all of them see; of a cluster's together
  i32 slot;             // of the partial result; -1: results go to `out`
  i32 index;            // which of the item's pieces
  i32 partner;          // the slot of the other of two pieces; -1: there are not two
  i32 counter;          // ... and which of MlaParams::counters they count with
  i64 pages;            // where the sequence's pages begin in MlaParams::pages
};
// In shared memory: two tasks, so that the next is told while the others still have the one before.
struct Mailbox {
  Mbarrier told[2], done[2];
  Task tasks[2];
  Task none, unread;  // without rows; of no consequence

  QUERN_DEVICE void init(u32 listeners) {
    QUERN_ROLLED for (int i = 0; i < 2; ++i) {
      mbarrier_init(told[i], 1);
      mbarrier_init(done[i], listeners);
    }
  }
};

QUERN_DEVICE Sequence sequence_of(const Task& t) {
  Sequence s{};
  s.q_begin = t.q_begin;
  s.position = t.position;
  s.kv_len = t.kv_len;
  return s;
}

// Where a row of the tile's queries lies; beyond the last there is none.
struct QueryRow {
  const Element *latent, *rope;
  bool there;
  QUERN_DEVICE QueryRow(const MlaParams& p, const Task& t, i32 row) : there(row < t.rows) {
    const i32 of = t.first_row + (there ? row : 0), within = of / p.by_heads, head = of - within * p.heads;
    const i64 token = t.q_begin + within;
    latent = static_cast<const Element*>(p.q) + token * p.q_stride_token + head * p.q_stride_head;
    rope = static_cast<const Element*>(p.q_rope) + token * p.q_rope_stride_token + head * p.q_rope_stride_head;
  }
};

// The pieces of this block of threads as tasks, one after the other, that one warp tells the others.
class Tasks {
 public:
  // `counted` is what count_together made; null for who never tells.
  QUERN_DEVICE Tasks(const MlaParams& params, Mailbox& mailbox, const i32* counted)
      : p_(params), mailbox_(mailbox), schedule_(params, counted), place_(0), phase_(0) {}

  // Finds the next and tells it. False when there is none; of that the others are told, too. All blocks of a cluster
  // tell the same pieces.
  QUERN_DEVICE bool tell_next(i32* counted) {
    Task t;
    const bool more = find(t, counted);
    tell(t);
    return more;
  }
  // Where it is `pretended` that all has been planned, what is found means nothing.
  QUERN_DEVICE bool find(Task& t, i32* counted, bool pretended = false) {
    if (pretended) schedule_.pretend();
    const i32 tile = tile_of_block(p_);
    bool more;
    QUERN_ROLLED for (;;) {
      Sequence s;
      Piece piece;
      more = schedule_.next(s, piece, counted);
      t = {};
      t.rows = -1;
      if (!more) break;
      if (piece.begin >= piece.end) continue;
      Listed listed{s.index, 0, 0};
      if (kListed) {
        listed = listed_of(p_, s.index);
        s.kv_len = listed.kv_len;
        s.position = listed.position;
        if (listed.sequence < 0) s.q_len = 0;
      }
      note_cut(p_, s, piece, lane() == 0 && !pretended);
      t.first_row = (piece.group * p_.side_by_side + tile) * kRows;
      const i32 rows = s.q_len * p_.heads;
      t.rows = clamped(rows - t.first_row, 0, kRows);
      // Of a cluster each block copies for all of them, and so takes part as long as any has rows.
      const i32 first = kPaired ? piece.group * p_.side_by_side * kRows : t.first_row;
      const i32 count = kPaired ? clamped(rows - first, 0, p_.side_by_side * kRows) : t.rows;
      if (count == 0) continue;
      const Range a = visible(p_, s, first), b = visible(p_, s, first + count - 1);
      t.q_begin = s.q_begin;
      t.position = s.position;
      t.kv_len = s.kv_len;
      t.key = s.first + piece.begin * kBlock;
      t.end_key = s.first + piece.end * kBlock;
      t.any = {a.first, b.last};
      t.all = {b.first, a.last};
      t.slot = piece.count > 1 ? slot_of_piece(piece.slot, piece.slot_step, piece.index) : -1;
      t.index = piece.index;
      t.partner = piece.count == 2 && p_.joined == 2 ? slot_of_piece(piece.slot, piece.slot_step, piece.index ^ 1) : -1;
      t.counter = piece.cut * p_.side_by_side + tile;
      t.pages = 0;
      if (!kSlots) {
        t.pages =
            p_.page_indptr ? static_cast<i64>(p_.page_indptr[listed.sequence]) : listed.sequence * p_.pages_stride;
      }
      break;
    }
    return more;
  }
  QUERN_DEVICE void tell(const Task& t) {
    mbarrier_wait(mailbox_.done[place_], phase_ ^ 1);
    sync_warp();  // a lane that comes late would find the barrier a round further
    if (lane() == 0) {
      mailbox_.tasks[place_] = t;
      mbarrier_arrive(mailbox_.told[place_]);
    }
    place_ ^= 1;
    phase_ ^= static_cast<u32>(place_ == 0);
  }

 private:
  const MlaParams& p_;
  Mailbox& mailbox_;
  Schedule schedule_;
  i32 place_;
  u32 phase_;
};

// Who is told: waits for each task, and says when it needs it no more.
struct Listener {
  Mailbox& mailbox;
  i32 place;
  u32 phase;
  QUERN_DEVICE explicit Listener(Mailbox& from) : mailbox(from), place(0), phase(0) {}
  QUERN_DEVICE Task& next() const {
    mbarrier_wait(mailbox.told[place], phase);
    return mailbox.tasks[place];
  }
  QUERN_DEVICE void done() {
    sync_warp();
    if (lane() == 0) mbarrier_arrive(mailbox.done[place]);
    place ^= 1;
    phase ^= static_cast<u32>(place == 0);
  }
};

}  // namespace q
