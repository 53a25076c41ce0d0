// Which boxes overlap too much: a block of threads has a square of 64 by 64 of an image's boxes in their order, a
// thread a box and a word of bits for those that it overlaps. Only those that come after it are asked for.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.cuh"
#include "nms/params.cuh"

namespace q {

struct Box {
  f32 x1, y1, x2, y2, area;
  i32 of_class;
};

// Products are written so that no compiler makes them part of a sum: every target has the same areas.
QUERN_DEVICE f32 product(f32 a, f32 b) { return fma(a, b, 0.0f); }
QUERN_DEVICE f32 side(f32 from, f32 to) { return to > from ? to - from : 0.0f; }

QUERN_DEVICE Box box_at(const NmsParams& p, i32 image, i32 place) {
  const i32 id = p.positions[i64{image} * p.n + place];
  const f32* at = p.boxes + image * p.image_stride + id * p.box_stride;
  Box box{at[0], at[1], at[2], at[3], 0.0f, p.classes ? p.classes[image * p.classes_stride + id] : 0};
  box.area = product(side(box.x1, box.x2), side(box.y1, box.y2));
  // A box with a corner that is no number overlaps none: neither does its area.
  if (!(box.x1 == box.x1 && box.y1 == box.y1 && box.x2 == box.x2 && box.y2 == box.y2)) box.area = nan();
  return box;
}

QUERN_DEVICE bool overlap(const Box& a, const Box& b, f32 threshold) {
  const f32 width = side(a.x1 > b.x1 ? a.x1 : b.x1, a.x2 < b.x2 ? a.x2 : b.x2);
  const f32 height = side(a.y1 > b.y1 ? a.y1 : b.y1, a.y2 < b.y2 ? a.y2 : b.y2);
  const f32 inter = product(width, height);
  return a.of_class == b.of_class && inter > product(threshold, a.area + b.area - inter);
}

QUERN_DEVICE void compare(const NmsParams& p, i32 image, i32 row, i32 column) {
  QUERN_SHARED(Box, others, kBoxesAtOnce);
  const i32 place = row * kBoxesAtOnce + thread_index(), first = column * kBoxesAtOnce;
  const i32 count = p.n - first < kBoxesAtOnce ? p.n - first : kBoxesAtOnce;
  if (thread_index() < count) others[thread_index()] = box_at(p, image, first + thread_index());
  sync_block();
  if (place < p.n && p.order[i64{image} * p.n + place] != 0) {
    const Box mine = box_at(p, image, place);
    u64 bits = 0;
    QUERN_FOUR_AT_ONCE for (i32 i = 0; i < count; ++i) {
      if (first + i > place && overlap(mine, others[i], p.iou_threshold)) bits |= u64{1} << i;
    }
    p.overlaps[(i64{image} * p.n + place) * p.words + column] = bits;
  }
  sync_block();
}

}  // namespace q

QUERN_KERNEL(quern_nms_overlaps, q::kBoxesAtOnce, 16, QUERN_PARAM q::NmsParams p) {
  q::launch_next_grid();
  q::wait_for_previous_grid();
  const q::i64 each = q::i64{p.words} * p.words, all = p.images * each;
  QUERN_ROLLED for (q::i64 at = q::block_index(0); at < all; at += q::block_count(0)) {
    const q::i32 image = static_cast<q::i32>(at / each), square = static_cast<q::i32>(at - image * each);
    const q::i32 row = square / p.words, column = square - row * p.words;
    if (column >= row) q::compare(p, image, row, column);
  }
}
