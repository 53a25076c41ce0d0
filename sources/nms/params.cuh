// The run-time arguments of nms's kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/types.cuh"

namespace q {

inline constexpr i32 kMostBoxes = 32768;
inline constexpr i32 kBoxesAtOnce = 64;  // a bit of a word each
inline constexpr i32 kNmsThreads = 512;

struct NmsParams {
  const f32* boxes;
  const f32* scores;
  const i32* classes;  // may be null
  const i32* lengths;  // may be null
  i32* ids;
  i32* counts;                   // may be null
  u32* order;                    // [images, n]: by descending score; 0: the box is out
  i32* positions;                // [images, n]: the boxes in that order
  u64* overlaps;                 // [images, n, words]: bit b of word w: what comes in place 64 w + b overlaps
  i64 image_stride, box_stride;  // of boxes; in elements, as all
  i64 scores_stride, classes_stride, ids_stride;
  i32 images, n, words, most;
  f32 iou_threshold, score_threshold;
  i32 has_threshold;
};

}  // namespace q
