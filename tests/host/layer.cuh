// Exercises every function of the device-side layer once and writes what came of it: layer_layout.cuh says where.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.cuh"
#include "layer_layout.cuh"

namespace q::layer {

struct Out {
  u32* block;
  QUERN_DEVICE void operator()(int row, u32 v) const { block[row * kThreads + thread_index()] = v; }
};

QUERN_DEVICE void execution(const Out& out) {
  out(kThreadIndex, static_cast<u32>(thread_index()));
  out(kLane, static_cast<u32>(lane()));
  out(kWarpOf, static_cast<u32>(warp()));
  QUERN_UNROLL
  for (int d = 0; d < 3; ++d) {
    out(kBlockIndex + d, static_cast<u32>(block_index(d)));
    out(kBlockCount + d, static_cast<u32>(block_count(d)));
  }
}

QUERN_DEVICE void collectives(const Out& out) {
  const u32 mine = static_cast<u32>(thread_index() * 3 + 1);
  out(kShuffle, shuffle(mine, (lane() * 7 + 3) % kWarp));
  out(kShuffleXor, shuffle_xor(mine, 5));
  out(kShuffleUp, shuffle_up(mine, 3));
  const u64 wide = shuffle_xor(static_cast<u64>(mine) << 32 | static_cast<u64>(thread_index()), 1);
  out(kShuffle64, static_cast<u32>(wide));
  out(kShuffle64 + 1, static_cast<u32>(wide >> 32));
  out(kShuffleF32, bits_of(shuffle(static_cast<f32>(thread_index()) + 0.5f, 0)));
  const u64 votes = ballot(thread_index() % 3 == 0);
  out(kBallot, static_cast<u32>(votes));
  out(kBallot + 1, static_cast<u32>(votes >> 32));
}

QUERN_DEVICE void barriers(const Out& out) {
  QUERN_SHARED(u32, words, kThreads);
  QUERN_SHARED(u8, odd, 3 * kThreads);
  u32* dynamic = reinterpret_cast<u32*>(dynamic_shared());
  const int t = thread_index();
  odd[3 * t] = odd[3 * t + 1] = odd[3 * t + 2] = static_cast<u8>(t);
  words[t] = static_cast<u32>(t * 5);
  dynamic[t] = static_cast<u32>(t * 9);
  sync_block();
  out(kSyncBlock, words[(t + 37) % kThreads]);
  out(kSyncBlockDynamic, dynamic[(t + 41) % kThreads]);
  sync_block();
  words[t] = static_cast<u32>(t + 1000);
  sync_warp();
  out(kSyncWarp, words[t - lane() + (lane() + 1) % kWarp]);
  sync_block();
#ifdef QUERN_NAMED_BARRIERS
  words[t] = static_cast<u32>(t + 2000);
  sync_named(1 + warp() / 2, 2 * kWarp);
  out(kSyncNamed, words[t ^ kWarp]);
#else
  out(kSyncNamed, 0);
#endif
  sync_block();
  out(kStaticKept, odd[3 * ((t + 1) % kThreads) + 2]);
}

QUERN_DEVICE void memory(const Params& p, const Out& out) {
  const int t = thread_index();
  u32* dynamic = reinterpret_cast<u32*>(dynamic_shared());
  store16(dynamic + 4 * t, load16(p.input + 4 * t));
  const vec16 once = load16_once(p.input + 4 * ((t + 1) % kThreads));
  sync_block();
  QUERN_UNROLL
  for (int i = 0; i < 4; ++i) {
    out(kLoad16 + i, dynamic[4 * ((t + 3) % kThreads) + i]);
    out(kLoad16Once + i, once.x[i]);
  }
  out(kLoadVolatile, load_volatile(p.input + t));
  out(kAcquire, acquire(p.input + (t + 2) % kThreads));
  sync_block();
}

QUERN_DEVICE void atomics(const Params& p, const Out& out) {
  const int t = thread_index();
  out(kOldCount, atomic_add(p.counters + kCountOnes, 1u));
  fence();
  atomic_add(reinterpret_cast<i32*>(p.counters + kSumSigned), 5 - t);
  atomic_add(reinterpret_cast<f32*>(p.counters + kSumF32), 0.5f);
  atomic_max(p.counters + kMaxU32, 0x80000000u + static_cast<u32>(t));
  atomic_max(reinterpret_cast<i32*>(p.counters + kMaxI32), -t);
}

// A pipeline of two stages, as kernels use it: the next copy is under way while this one is read.
QUERN_DEVICE void copies(const Params& p, const Out& out) {
  const int t = thread_index();
  u32* stage[2] = {reinterpret_cast<u32*>(dynamic_shared()), reinterpret_cast<u32*>(dynamic_shared()) + 4 * kThreads};
  const auto begin = [&](int round) {
    copy_async_16(stage[round & 1] + 4 * t, p.input + 4 * ((t + round) % (kInputs / 4)), (t + round) % 5 != 0);
    copy_async_commit();
  };
  begin(0);
  for (int round = 0; round < kCopyRounds; ++round) {
    if (round + 1 < kCopyRounds) {
      begin(round + 1);
      copy_async_wait<1>();
    } else {
      copy_async_wait<0>();
    }
    sync_block();
    out(kCopy16 + round, stage[round & 1][4 * ((t + 1) % kThreads) + round]);
    sync_block();
  }
  copy_async_4(stage[0] + t, p.input + t + 7, t % 4 != 0);
  copy_async_commit();
  copy_async_wait<0>();
  sync_block();
  out(kCopy4, stage[0][kThreads - 1 - t]);
  sync_block();
}

QUERN_DEVICE void maths(const Params& p, const Out& out) {
  const f32 x = p.x * static_cast<f32>(thread_index() + 1);
  out(kMaths, bits_of(exp2(x)));
  out(kMaths + 1, bits_of(log2(x)));
  out(kMaths + 2, bits_of(rcp(x)));
  out(kMaths + 3, bits_of(rsqrt(x)));
  out(kMaths + 4, bits_of(fmin(x, p.y)));
  out(kMaths + 5, bits_of(fmax(x, p.y)));
  out(kMaths + 6, bits_of(fma(x, p.y, p.z)));
  out(kMaths + 7, bits_of(infinity()));
  out(kMaths + 8, bits_of(nan()));
  out(kMaths + 9, bits_of(f32_of(0x12345678u + static_cast<u32>(thread_index()))));
  out(kMaths + 10, bits_of(fabs(thread_index() % 2 == 0 ? x : -x)));
}

QUERN_DEVICE void write(u32* to, const Accumulator& c) {
  QUERN_UNROLL
  for (int i = 0; i < 256 / kWarp; ++i) to[row_of(lane(), held_row(i)) * 16 + column_of(lane(), i)] = bits_of(c.x[i]);
}

template <class T>
QUERN_DEVICE void tiles(u32* to) {
  constexpr int kPitch = 24;  // 48 bytes
  T* a = reinterpret_cast<T*>(dynamic_shared());
  T* b = a + 16 * kPitch;
  T* b_transposed = b + 16 * kPitch;
  for (int i = thread_index(); i < 256; i += kThreads) {
    const int row = i / 16, column = i % 16;
    a[row * kPitch + column] = from_f32<T>(static_cast<f32>(a_entry(row, column)));
    b[row * kPitch + column] = from_f32<T>(static_cast<f32>(b_entry(column, row)));
    b_transposed[row * kPitch + column] = from_f32<T>(static_cast<f32>(b_entry(row, column)));
  }
  sync_block();
  const OperandA<T> left = load_a(a, kPitch);
  const OperandB<T> right = load_b(b, kPitch);
  Accumulator c{};
  mma(c, left, right);
  write(to + kProduct * 256, c);
  Accumulator transposed;
  QUERN_UNROLL
  for (int i = 0; i < 256 / kWarp; ++i) transposed.x[i] = 1.0f;
  mma(transposed, left, load_b_transposed(b_transposed, kPitch));
  write(to + kProductTransposed * 256, transposed);
  Accumulator second{};
  mma(second, to_operand<T>(c), right);
  write(to + kSecond * 256, second);
  QUERN_UNROLL
  for (int held = 0; held < kRowsHeld; ++held) {
    f32 sum = 0.0f, most = -infinity();
    QUERN_UNROLL
    for (int i = 0; i < 256 / kWarp; ++i) {
      if (held_row(i) != held) continue;
      sum += c.x[i];
      most = fmax(most, c.x[i]);
    }
    sum = reduce_row_sum(sum);
    most = reduce_row_max(most);
    // The lane that holds the row's last column writes, so the result must have come to it too.
    if (column_of(lane(), 256 / kWarp - 1) == 15) {
      to[kMatrices * 256 + row_of(lane(), held)] = bits_of(sum);
      to[kMatrices * 256 + 16 + row_of(lane(), held)] = bits_of(most);
    }
  }
  sync_block();
}

QUERN_DEVICE void everything(const Params& p) {
  wait_for_previous_grid();
  if (laid_first(p.results == nullptr)) stay_in_branch();
  const int block = (block_index(2) * block_count(1) + block_index(1)) * block_count(0) + block_index(0);
  const Out out{p.results + block * kBlockResults};
  execution(out);
  collectives(out);
  barriers(out);
  memory(p, out);
  atomics(p, out);
  copies(p, out);
  maths(p, out);
  u32* tile = out.block + kTiles + warp() * kTypes * kTileValues;
  tiles<f16>(tile);
  tiles<bf16>(tile + kTileValues);
  launch_next_grid();
}

}  // namespace q::layer

QUERN_KERNEL(quern_layer, q::layer::kThreads, 1, QUERN_PARAM q::layer::Params p) { q::layer::everything(p); }
