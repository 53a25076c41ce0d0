// Converts every code of the narrow types to f32, and a list of f32 to every narrow type.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.cuh"

struct ConversionParams {
  float* f16;   // [65536]
  float* bf16;  // [65536]
  float* e4m3;  // [256]
  float* e5m2;  // [256]
  const float* values;
  unsigned* narrow;  // [count][4]: f16, bf16, e4m3, e5m2
  int count;
};

QUERN_KERNEL(quern_conversions, 256, 1, QUERN_PARAM ConversionParams p) {
  using namespace q;
  const int step = 256 * block_count(0);
  const int first = block_index(0) * 256 + thread_index();
  for (int i = 2 * first; i < 65536; i += 2 * step) {
    // One of each pair alone, the other as half of a pair: both ways are the layer's.
    const u32 pair = static_cast<u32>(i) | static_cast<u32>(i + 1) << 16;
    p.f16[i] = to_f32(f16{static_cast<u16>(i)});
    p.bf16[i] = to_f32(bf16{static_cast<u16>(i)});
    p.f16[i + 1] = unpack<f16>(pair).y;
    p.bf16[i + 1] = unpack<bf16>(pair).y;
    if (i < 256) {
      const u16 bytes = static_cast<u16>(i | (i + 1) << 8);
      p.e4m3[i] = to_f32(e4m3{static_cast<u8>(i)});
      p.e5m2[i] = to_f32(e5m2{static_cast<u8>(i)});
      p.e4m3[i + 1] = unpack_fp8<e4m3>(bytes).y;
      p.e5m2[i + 1] = unpack_fp8<e5m2>(bytes).y;
    }
  }
  for (int i = first; i < p.count; i += step) {
    const f32 v = from_f32<f32>(to_f32(p.values[i]));
    u32* to = p.narrow + 4 * static_cast<i64>(i);
    if (i & 1) {
      to[0] = pack<f16>(0.0f, v) >> 16;
      to[1] = pack<bf16>(0.0f, v) >> 16;
      to[2] = pack_fp8<e4m3>(0.0f, v) >> 8;
      to[3] = pack_fp8<e5m2>(0.0f, v) >> 8;
    } else {
      to[0] = from_f32<f16>(v).bits;
      to[1] = from_f32<bf16>(v).bits;
      to[2] = from_f32<e4m3>(v).bits;
      to[3] = from_f32<e5m2>(v).bits;
    }
  }
}
