// Asynchronous copies of windows of x into the stages of a matrix product: each line of a stage is a window, each 16
// bytes of it some channels of one tap. What lies in the padding arrives as zeros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "conv2d/params.cuh"
#include "gemm/kernels/portable/load.cuh"

namespace q {

// As gemm's Loader, by which the pipeline knows it: a thread copies the same 16 bytes of every k block for some lines a
// fixed number of them apart, divided among the sections.
template <class Staged>
class WindowLoader {
  static constexpr i32 kPerCopy = kCopyBytes / static_cast<i32>(sizeof(ElementA));
  static constexpr i32 kRowCopies = Staged::kRowBytes / kCopyBytes;
  static constexpr i32 kLinesAtOnce = kThreads / kRowCopies;
  static constexpr i32 kPasses = Staged::kRows / kLinesAtOnce;
  static constexpr bool kDivided = kSections == 2 && kPasses % 2 == 0;
  static constexpr i32 kPassBytes = kLinesAtOnce * Staged::kPitchBytes;
  static_assert(kCopyBytes == 16 && kThreads % kRowCopies == 0 && Staged::kRows % kLinesAtOnce == 0);

 public:
  static constexpr i32 kSectionPasses = kDivided ? kPasses / 2 : kPasses;

  // Lines from `first` on, of which there are those below `lines`.
  QUERN_DEVICE void begin(const ImplicitParams& p, i32 group, i32 first, i32 lines, i32 first_k_block) {
    p_ = &p;
    const i32 row = thread_index() / kRowCopies, column = thread_index() % kRowCopies * kPerCopy;
    in_stage_ = row * Staged::kPitchBytes + column * static_cast<i32>(sizeof(ElementA));
    QUERN_UNROLL for (i32 pass = 0; pass < kPasses; ++pass) {
      const i32 line = first + row + pass * kLinesAtOnce;
      const i32 sample = p.merged != 0 ? line / p.of_sample : group;
      const i32 place = p.merged != 0 ? line - sample * p.of_sample.value : line;
      const i32 down = place / p.of_row, across = place - down * p.of_row.value;
      const i32 top = down * p.places.stride_h - p.places.pad_top,
                left = across * p.places.stride_w - p.places.pad_left;
      from_[pass] = sample * p.sample_stride + top * p.row_stride + left * p.column_stride;
      // A line that there is not lies above everything.
      corner_[pass] = line < lines ? (top << 16 | (left & 0xffff)) : kNowhere << 16;
    }
    // The tap and the channel of the thread's first element.
    const i32 k = first_k_block * kBlockK + column, tap = k / p.per;
    channel_ = k - tap * p.per, tap_row_ = tap / p.tap_columns, tap_column_ = tap - tap_row_ * p.tap_columns;
    find_tap();
  }
  QUERN_DEVICE void begin_k_block(i32 stage) { to_ = in_stage_ + stage; }
  QUERN_DEVICE void copy(SharedPlace stages, i32 section, i32 first, i32 last) const {
    if (!kDivided && section != 0) return;
    const SharedPlace to = stages + to_;
    QUERN_UNROLL for (i32 i = first; i < last; ++i) {
      // Registers cannot be indexed at run time.
      const bool second = kDivided && section != 0;
      const i32 corner = second ? corner_[kPasses - kSectionPasses + i] : corner_[i];
      const i32 from = second ? from_[kPasses - kSectionPasses + i] : from_[i];
      const i32 y = (corner >> 16) + down_, x = static_cast<i16>(corner & 0xffff) + across_;
      const bool there =
          static_cast<u32>(y) < static_cast<u32>(height_) && static_cast<u32>(x) < static_cast<u32>(width_);
      copy_async_16(to + i * kPassBytes, base_ + static_cast<i64>(there ? from + tap_ : 0) * 16, there);
    }
  }
  QUERN_DEVICE void stop() { height_ = 0; }
  QUERN_DEVICE void finish_section() {
    if constexpr (kDivided) to_ += kSectionPasses * kPassBytes;
  }
  QUERN_DEVICE void finish_k_block() {
    channel_ += kBlockK;
    QUERN_ROLLED while (channel_ >= p_->per) {
      channel_ -= p_->per;
      if (++tap_column_ == p_->tap_columns) tap_column_ = 0, ++tap_row_;
    }
    find_tap();
  }

 private:
  static constexpr i32 kNowhere = -0x8000;

  QUERN_DEVICE void find_tap() {
    down_ = tap_row_ * p_->places.dilation_h, across_ = tap_column_ * p_->places.dilation_w;
    tap_ = down_ * p_->row_stride + across_ * p_->column_stride + channel_ / kPerCopy;
    // Behind the last tap there is nothing.
    base_ = p_->x, width_ = p_->places.width, height_ = tap_row_ < p_->tap_rows ? p_->places.height : 0;
  }

  const ImplicitParams* p_ = nullptr;
  const u8* base_ = nullptr;
  i32 from_[kPasses] = {}, corner_[kPasses] = {};  // of each window: its first element, in 16 bytes; its row and column
  i32 channel_ = 0, tap_row_ = 0, tap_column_ = 0;
  i32 down_ = 0, across_ = 0, tap_ = 0;  // of the tap, from the window's corner; the last in 16 bytes
  i32 height_ = 0, width_ = 0;
  i32 in_stage_ = 0, to_ = 0;
};

}  // namespace q
