// Chooses how a convolution is done.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "sources/conv2d/convolution.h"

namespace quern::ops::conv2d {
namespace {

// Below so many output channels of a group, or elements of its window, tensor cores would multiply mostly zeros.
constexpr std::int64_t kFewOuts = 8, kFewElements = 8;

bool is_plain(std::int64_t taps, std::int64_t begin, std::int64_t end) { return taps == 1 && begin == 0 && end == 0; }
bool keeps_rows(const Convolution& c) { return is_plain(c.kernel.rows, c.pad_begin.rows, c.pad_end.rows); }
bool keeps_columns(const Convolution& c) { return is_plain(c.kernel.columns, c.pad_begin.columns, c.pad_end.columns); }
bool is_line(const Convolution& c) { return c.image.rows == 1 && keeps_rows(c); }

// Whether rows follow each other as columns do.
bool merges(const Tensor& t, std::int64_t columns) { return t.strides[2] == columns * t.strides[3]; }

// As few rows as there can be: where a window has one place, places are those of one row, and a single column is a row.
void straighten(Convolution& c) {
  if (is_line(c)) return;
  if (keeps_rows(c) && keeps_columns(c) && c.stride.rows == 1 && c.stride.columns == 1 &&
      merges(c.x, c.image.columns) && merges(c.out, c.places.columns) && c.image.count() <= INT32_MAX) {
    c.image = c.places = {1, c.image.count()};
  } else if (c.image.columns == 1 && keeps_columns(c)) {
    for (Plane* each : {&c.image, &c.kernel, &c.places, &c.stride, &c.dilation, &c.pad_begin, &c.pad_end})
      std::swap(each->rows, each->columns);
    for (Tensor* each : {&c.x, &c.weight, &c.out}) std::swap(each->strides[2], each->strides[3]);
  }
}

// Whether a weight lies as the product's rows: of its three dimensions within an output channel, from the last.
bool lies_so(const Convolution& c, bool taps_last) {
  const std::int64_t* w = c.weight.strides;
  const auto is = [](std::int64_t extent, std::int64_t stride, std::int64_t wanted) {
    return extent == 1 || stride == wanted;
  };
  const std::int64_t across = taps_last ? 1 : c.channels, down = across * c.kernel.columns;
  return is(c.kernel.columns, w[3], across) && is(c.kernel.rows, w[2], down) &&
         is(c.channels, w[1], taps_last ? c.kernel.count() : 1);
}

}  // namespace

void choose_way(Convolution& c) {
  straighten(c);
  const bool line = is_line(c);
  const std::int64_t window = c.channels * c.kernel.count();
  c.places_first = c.out.strides[3] == 1;
  const bool in_rows =
      (c.places_first || c.outs == 1 || c.out.strides[1] == 1) && (line || merges(c.out, c.places.columns));
  c.direct = !in_rows || c.group_outs < kFewOuts || window < kFewElements;
  c.implicit = false;
  if (c.direct) {
    c.places_first = c.out.strides[3] <= c.out.strides[1];
    return;
  }
  const std::int64_t chunk = c.chunk;
  const auto whole = [chunk](std::int64_t elements) { return elements % chunk == 0; };
  const auto rounded = [chunk](std::int64_t elements) { return (elements + chunk - 1) / chunk * chunk; };
  const bool many = c.channels >= chunk;
  c.over = line && c.dilation.columns == 1 && many;
  c.taps_last = !many && c.channels > 1 && c.weight.strides[1] != 1;
  c.per = many ? rounded(c.channels) : c.channels;
  c.k = many ? c.per * c.kernel.count() : rounded(window);
  const Plane begin = c.pad_begin, end = c.pad_end;
  c.rows = c.over ? begin.columns + c.image.columns + end.columns : c.places.count();
  const bool vectors = c.call.alignment == 16;
  const std::int64_t place = c.x.strides[3];
  const bool dense = place == c.channels || (c.kernel.columns == 1 && whole(place));
  const bool side_by_side = c.x.strides[1] == 1 && dense && (c.batch <= 1 || whole(c.x.strides[0]));
  c.lays_x = !(vectors && c.over && c.groups == 1 && begin.columns == 0 && end.columns == 0 && whole(c.channels) &&
               side_by_side);
  c.plain = c.lays_x && many && c.x.strides[1] != 1;
  // Where windows lie over each other, laying them out would write and read x several times.
  const bool overlap = c.kernel.count() > c.stride.rows * c.stride.columns;
  if (!line && many && overlap && takes_implicit(c)) {
    c.implicit = true;
    const auto steps = [&](std::int64_t extent, int d) { return extent <= 1 || whole(c.x.strides[d]); };
    c.lays_x = c.plain = !(vectors && c.x.strides[1] == 1 && whole(c.channels) && steps(c.batch, 0) &&
                           steps(c.image.rows, 2) && steps(c.image.columns, 3));
  }
  c.lays_weight = !(vectors && c.k == window && lies_so(c, c.taps_last) && whole(c.weight.strides[0]));
}

}  // namespace quern::ops::conv2d
