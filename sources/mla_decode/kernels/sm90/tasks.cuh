// Shared memory of the kernel of 64 rows, and how the warp that schedules tells the others what to do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/sm90/tma.cuh"
#include "mla_decode/kernels/shared/schedule.cuh"

namespace q {

inline constexpr int kTiles = 9, kRopeTile = 8, kHalf = 4;  // of 64 columns; those of a half of the values
inline constexpr int kParts = 5, kRopePart = 4;             // two tiles each, but for the rope part
inline constexpr int kTileBytes = kRows64Tile, kBlockBytes = kRows64Matrix;
inline constexpr int kGroupThreads = 128, kConsumers = 2 * kGroupThreads;
inline constexpr int kKeys = 64;               // of a block; the schedule counts pairs
inline constexpr int kOutPitch = kLatent + 8;  // elements from row to row of staged results
inline constexpr f32 kSlack = 8.0f;  // by how much a maximum may be left behind, in powers of two: see raise()
static_assert(kRows == 64 && kBlock == 2 * kKeys && kLatent == 512 && kRope == 64 && THREADS == kRows64Threads);
static_assert(kRows * kOutPitch * 2 <= kBlockBytes, "results are staged where the queries were");

// Named barriers: the weights of block 0 and of block 1 are there; one of each warpgroup; one of both; block 0's maxima
// are there; a warpgroup's own weights are there.
enum Named { kWeights0 = 1, kWeights1 = 2, kOwn = 3, kBoth = 5, kBase = 6, kStored = 7 };

struct Barriers {
  Mbarrier full[2][kParts];
  Mbarrier empty[2][2];  // of block 0: left; right and rope. Of block 1: left and rope; right
  Mbarrier told[2], done[2];
};

// A piece as this block of threads has it: one tile of its rows.
struct Task {
  i32 q_begin;
  i32 position, kv_len;
  i32 first_row, rows;  // of the sequence's rows; rows 0: there is no further task
  i32 key, end_key;     // the first key, and where the last pair of blocks ends
  Range any, all;       // what any of its rows sees, and what all of them see
  i32 slot;             // of the partial result; -1: results go to `out`
  i64 pages;            // where the sequence's pages begin in MlaParams::pages
};
struct Told {
  Barriers barriers;
  Task tasks[2];
  u64 there[2];  // a bit for each key of a block that its rows see; where keys are listed
};
static_assert(sizeof(Told) <= kRows64Told && kCountedChunks * 4 <= kRows64Numbers);

// Piece `piece` (of 16 bytes) of row `row` of a swizzled tile.
QUERN_DEVICE u32 place_in_tile(i32 row, i32 piece) { return static_cast<u32>(row * 128 + ((piece ^ (row & 7)) << 4)); }

// Shared memory, by where it begins.
struct Memory {
  u8* at;
  QUERN_DEVICE u8* queries() const { return at; }
  QUERN_DEVICE u8* keys(int block) const { return at + (1 + block) * kBlockBytes; }
  QUERN_DEVICE f32* numbers(int i) const { return reinterpret_cast<f32*>(at + 3 * kBlockBytes) + i * kRows; }
  // The rows' maxima as block 0's and as block 1's logits left them; the sums of each warpgroup's weights.
  QUERN_DEVICE f32* base(int block) const { return numbers(block); }
  QUERN_DEVICE f32* sum(int group) const { return numbers(2 + group); }
  // Before there are any: the units of the sequences, for who schedules.
  QUERN_DEVICE i32* chunks() const { return reinterpret_cast<i32*>(numbers(0)); }
  QUERN_DEVICE Told& told() const { return *reinterpret_cast<Told*>(at + 3 * kBlockBytes + kRows64Numbers); }
  QUERN_DEVICE Barriers& barriers() const { return told().barriers; }
};

// ---- Who schedules tells the others of a task while they still have the one before
QUERN_DEVICE Sequence sequence_of(const Task& t) {
  Sequence s{};
  s.q_begin = t.q_begin;
  s.position = t.position;
  s.kv_len = t.kv_len;
  return s;
}

// The pieces of this block of threads as tasks, one after the other, that one warp tells the others.
class Tasks {
 public:
  QUERN_DEVICE Tasks(const MlaParams& params, Memory memory)
      : p_(params), m_(memory), schedule_(params, memory.chunks()), place_(0), phase_(0) {}

  // False when there is none; of that the others are told, too.
  QUERN_DEVICE bool tell_next() {
    Task t;
    const i32 tile = block_index(0) % p_.side_by_side;
    bool more;
    QUERN_ROLLED for (;;) {
      Sequence s;
      Piece piece;
      more = schedule_.next(s, piece);
      t = {};
      if (!more) break;
      if (piece.begin >= piece.end) continue;
      Listed listed{s.index, 0, 0};
      if (kListed) {
        listed = listed_of(p_, s.index);
        s.kv_len = listed.kv_len;
        s.position = listed.position;
        if (listed.sequence < 0) s.q_len = 0;
      }
      note_cut(p_, s, piece, lane() == 0);
      t.first_row = (piece.group * p_.side_by_side + tile) * kRows;
      t.rows = s.q_len * p_.heads - t.first_row;
      if (t.rows <= 0) continue;
      if (t.rows > kRows) t.rows = kRows;
      const Range a = visible(p_, s, t.first_row), b = visible(p_, s, t.first_row + t.rows - 1);
      t.q_begin = s.q_begin;
      t.position = s.position;
      t.kv_len = s.kv_len;
      t.key = s.first + piece.begin * kBlock;
      t.end_key = s.first + piece.end * kBlock;
      t.any = {a.first, b.last};
      t.all = {b.first, a.last};
      t.slot = piece.count > 1 ? slot_of_piece(piece.slot, piece.slot_step, piece.index) : -1;
      t.pages = 0;
      if (!kSlots) {
        t.pages =
            p_.page_indptr ? static_cast<i64>(p_.page_indptr[listed.sequence]) : listed.sequence * p_.pages_stride;
      }
      break;
    }
    mbarrier_wait(m_.barriers().done[place_], phase_ ^ 1);
    sync_warp();  // a lane that comes late would find the barrier a round further
    if (lane() == 0) {
      m_.told().tasks[place_] = t;
      mbarrier_arrive(m_.barriers().told[place_]);
    }
    place_ ^= 1;
    phase_ ^= static_cast<u32>(place_ == 0);
    return more;
  }

 private:
  const MlaParams& p_;
  Memory m_;
  Schedule schedule_;
  i32 place_;
  u32 phase_;
};

// Who is told: waits for each task, and says when it needs it no more.
struct Listener {
  Memory m;
  i32 place;
  u32 phase;
  QUERN_DEVICE explicit Listener(Memory memory) : m(memory), place(0), phase(0) {}
  QUERN_DEVICE Task& next() const {
    mbarrier_wait(m.barriers().told[place], phase);
    return m.told().tasks[place];
  }
  QUERN_DEVICE void done() {
    sync_warp();
    if (lane() == 0) mbarrier_arrive(m.barriers().done[place]);
    place ^= 1;
    phase ^= static_cast<u32>(place == 0);
  }
};

}  // namespace q
