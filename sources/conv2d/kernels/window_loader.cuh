// Where windows of x lie, as who copies them into the stages of a matrix product asks: each line of a stage is a
// window, each 16 bytes of it some channels of one tap. What lies in the padding is not there and becomes zeros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "conv2d/params.cuh"
#include "gemm/kernels/shared/tile.cuh"

namespace q {

// A thread's pieces of some windows: the same 16 bytes of each, k block by k block. Windows are a fixed number of lines
// apart.
template <i32 kWindows>
class Windows {
 public:
  static constexpr i32 kPerPiece = 16 / static_cast<i32>(sizeof(ElementA));

  struct Piece {
    const u8* at;
    bool there;
  };

  // From line `first` on, `step` lines apart, of which there are those below `lines`; the pieces begin at element `k`
  // of a window.
  QUERN_DEVICE void begin(const ImplicitParams& p, i32 group, i32 first, i32 step, i32 lines, i32 k) {
    p_ = &p;
    QUERN_UNROLL for (i32 i = 0; i < kWindows; ++i) {
      const i32 line = first + i * step;
      const i32 sample = p.merged != 0 ? line / p.of_sample : group;
      const i32 place = p.merged != 0 ? line - sample * p.of_sample.value : line;
      const i32 down = place / p.of_row, across = place - down * p.of_row.value;
      const i32 top = down * p.places.stride_h - p.places.pad_top,
                left = across * p.places.stride_w - p.places.pad_left;
      from_[i] = sample * p.sample_stride + top * p.row_stride + left * p.column_stride;
      // A line that there is not lies above everything.
      corner_[i] = line < lines ? (top << 16 | (left & 0xffff)) : kNowhere << 16;
    }
    const i32 tap = k / p.per;
    channel_ = k - tap * p.per, tap_row_ = tap / p.tap_columns, tap_column_ = tap - tap_row_ * p.tap_columns;
    find_tap();
  }
  // That of window i. Registers cannot be indexed at run time: i, and with `second` i + further, are constants.
  QUERN_DEVICE Piece piece(i32 i, bool second = false, i32 further = 0) const {
    const i32 corner = second ? corner_[i + further] : corner_[i], from = second ? from_[i + further] : from_[i];
    const i32 y = (corner >> 16) + down_, x = static_cast<i16>(corner & 0xffff) + across_;
    const bool there =
        static_cast<u32>(y) < static_cast<u32>(height_) && static_cast<u32>(x) < static_cast<u32>(width_);
    return {base_ + static_cast<i64>(there ? from + tap_ : 0) * 16, there};
  }
  // From now on no piece is there.
  QUERN_DEVICE void stop() { height_ = 0; }
  QUERN_DEVICE void next_k_block() {
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
    tap_ = down_ * p_->row_stride + across_ * p_->column_stride + channel_ / kPerPiece;
    // Behind the last tap there is nothing.
    base_ = p_->x, width_ = p_->places.width, height_ = tap_row_ < p_->tap_rows ? p_->places.height : 0;
  }

  const ImplicitParams* p_ = nullptr;
  const u8* base_ = nullptr;
  i32 from_[kWindows] = {}, corner_[kWindows] = {};  // of each: its first element, in 16 bytes; its row and column
  i32 channel_ = 0, tap_row_ = 0, tap_column_ = 0;
  i32 down_ = 0, across_ = 0, tap_ = 0;  // of the tap, from the window's corner; the last in 16 bytes
  i32 height_ = 0, width_ = 0;
};

}  // namespace q
