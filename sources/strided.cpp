// SPDX-License-Identifier: Apache-2.0
#include "sources/strided.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "jit/error.h"
#include "sources/late.h"

namespace quern::ops {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 48;

std::size_t at(int d) { return static_cast<std::size_t>(d); }

void read_layout(const DLTensor& given, const char* name, View& view) {
  std::int64_t compact = 1;
  for (int d = view.rank - 1; d >= 0; --d) {
    const std::int64_t extent = given.shape[d];
    if (extent < 0 || extent > kMost) refuse_extent(name, d, extent, "0 to 2^48");
    view.shape[at(d)] = extent;
    view.strides[at(d)] = given.strides != nullptr ? given.strides[d] : compact;
    // Strides and reaches no larger than this cannot overflow what is computed from them.
    if (view.strides[at(d)] < -kMost || view.strides[at(d)] > kMost)
      refuse_stride(name, d, view.strides[at(d)], "-2^48 to 2^48");
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(view.strides[at(d)], std::max<std::int64_t>(extent, 1), &reach) ||
        std::abs(reach) > (std::int64_t{1} << 56))
      refuse_stride(name, d, view.strides[at(d)], "at most 2^56 elements from the first to the last");
    if (__builtin_mul_overflow(compact, std::max<std::int64_t>(extent, 1), &compact) || compact > kMost)
      refuse_extent(name, d, extent, "at most 2^48 elements in all");
  }
}

// Bytes from `data` to the first and behind the last that a tensor has elements in.
struct Range {
  std::int64_t begin, end;
  bool dense;  // every byte between is an element's
};
Range range_of(const View& view) {
  std::int64_t low = 0, high = 1, span = 1;
  for (int d = 0; d < view.rank; ++d) {
    const std::int64_t reach = (view.shape[at(d)] - 1) * view.strides[at(d)];
    (reach < 0 ? low : high) += reach;
    span *= view.strides[at(d)] == 0 ? 1 : view.shape[at(d)];
  }
  return {low * view.bytes, high * view.bytes, span == high - low};
}

// By insertion, stable: the library's own may allocate, which a call may not.
template <class T, class Before>
void sort(T* items, int count, Before before) {
  for (int i = 1; i < count; ++i) {
    for (int j = i; j > 0 && before(items[j], items[j - 1]); --j) std::swap(items[j], items[j - 1]);
  }
}

struct Dimension {
  std::int64_t extent;
  std::array<std::int64_t, kMostWalked> strides;
};

bool continues(const Dimension& outer, const Dimension& inner, std::size_t tensors) {
  for (std::size_t i = 0; i < tensors; ++i) {
    if (outer.strides[i] != inner.strides[i] * inner.extent) return false;
  }
  return true;
}

}  // namespace

View read_view(const DLTensor* given, const char* name, const Place& place, bool any_type) {
  if (given == nullptr) refuse_missing(name);
  View view;
  view.rank = given->ndim;
  if (view.rank < 0 || view.rank > kMostDimensions)
    refuse_value((std::string(name) + ".ndim").c_str(), std::int64_t{given->ndim}, "0 to 6");
  view.dtype = dtype_of(given->dtype);
  const int bits = given->dtype.bits;
  const bool plain = given->dtype.lanes == 1 && (bits == 8 || bits == 16 || bits == 32 || bits == 64);
  if (view.dtype == Dtype::other && !(any_type && plain)) {
    refuse_dtype(name, given->dtype,
                 {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::e4m3, Dtype::e5m2, Dtype::i8, Dtype::u8, Dtype::i16,
                  Dtype::i32, Dtype::i64, Dtype::boolean});
  }
  view.bytes = bits / 8;
  if (static_cast<std::int32_t>(given->device.device_type) != place.device_type ||
      given->device.device_id != place.device_id) {
    refuse_device(name, given->device, place.device_type, place.device_id);
  }
  if (given->shape == nullptr && view.rank > 0) refuse_shape(name);
  read_layout(*given, name, view);
  if (given->data == nullptr) {
    if (!place.may_lack_data && view.count() > 0) refuse_data(name);
    return view;
  }
  view.data = static_cast<std::uint8_t*>(given->data) + given->byte_offset;
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);
  if (view.count() > 0 && address % static_cast<std::uintptr_t>(view.bytes) != 0) {
    throw Error(QUERN_INVALID, std::string(name) + ": data is aligned to " + std::to_string(address & (~address + 1)) +
                                   " bytes; allowed: multiples of the " + std::to_string(view.bytes) +
                                   " that an element takes");
  }
  if (place.late != nullptr) {
    const auto rank = static_cast<std::size_t>(view.rank);
    place.late->note(name, view.data, view.bytes, counts(view.dtype), {view.shape.data(), rank},
                     {view.strides.data(), rank});
  }
  return view;
}

View broadcast(const View& view, const char* name, const View& to, const char* to_name) {
  const int missing = to.rank - view.rank;
  if (missing < 0) {
    throw Error(QUERN_INVALID, std::string(name) + " has " + std::to_string(view.rank) +
                                   " dimensions; allowed: up to " + to_name + "'s " + std::to_string(to.rank));
  }
  View result = view;
  result.rank = to.rank;
  result.shape = to.shape;
  for (int d = to.rank - 1; d >= 0; --d) {
    const int own = d - missing;
    if (own >= 0 && view.shape[at(own)] != 1 && view.shape[at(own)] != to.shape[at(d)]) {
      const std::string allowed =
          "1 or " + std::to_string(to.shape[at(d)]) + ", as " + to_name + ".shape[" + std::to_string(d) + "] is";
      refuse_extent(name, own, view.shape[at(own)], allowed.c_str());
    }
    result.strides[at(d)] = own >= 0 && view.shape[at(own)] != 1 ? view.strides[at(own)] : 0;
  }
  return result;
}

bool lie_alike(const View& a, const View& b) {
  if (a.data != b.data || a.bytes != b.bytes || a.rank != b.rank) return false;
  for (int d = 0; d < a.rank; ++d) {
    if (a.shape[at(d)] != b.shape[at(d)]) return false;
    if (a.shape[at(d)] > 1 && a.strides[at(d)] != b.strides[at(d)]) return false;
  }
  return true;
}

bool overlap(const View& a, const View& b) {
  if (a.data == nullptr || b.data == nullptr || a.count() == 0 || b.count() == 0) return false;
  if (a.data == b.data) return true;
  const Range of_a = range_of(a), of_b = range_of(b);
  if (!of_a.dense || !of_b.dense) return false;
  const auto from_a = reinterpret_cast<std::intptr_t>(a.data), from_b = reinterpret_cast<std::intptr_t>(b.data);
  return from_a + of_a.begin < from_b + of_b.end && from_b + of_b.begin < from_a + of_a.end;
}

void expect_beside(const Tensor& written, const char* name, const Tensor& read, const char* read_name, bool in_place) {
  const auto view_of = [](const Tensor& t) {
    View view;
    view.data = t.data, view.rank = t.rank, view.dtype = t.dtype, view.bytes = bytes_of(t.dtype);
    std::copy_n(t.shape, t.rank, view.shape.begin());
    std::copy_n(t.strides, t.rank, view.strides.begin());
    return view;
  };
  const View to = view_of(written), from = view_of(read);
  if (!overlap(to, from) || (in_place && lie_alike(to, from))) return;
  throw Error(QUERN_INVALID, std::string(name) + " lies over " + read_name + "; allowed: apart" +
                                 (in_place ? ", or with its shape, strides and size of element" : ""));
}

void expect_apart(const View& view, const char* name) {
  std::array<int, kMostDimensions> order{};
  int count = 0;
  for (int d = view.rank - 1; d >= 0; --d) {
    if (view.shape[at(d)] == 0) return;
    if (view.shape[at(d)] > 1) order[at(count++)] = d;
  }
  const auto step = [&](int d) { return std::abs(view.strides[at(d)]); };
  sort(order.data(), count, [&](int a, int b) { return step(a) < step(b); });
  // From the shortest stride on: what the dimensions so far span must fit between two elements of the next.
  std::int64_t span = 1;
  for (int i = 0; i < count; ++i) {
    const int d = order[at(i)];
    if (step(d) < span)
      refuse_stride(name, d, view.strides[at(d)], "a distance at which elements do not lie over each other");
    std::int64_t further = 0;
    if (__builtin_mul_overflow(step(d), view.shape[at(d)] - 1, &further) ||
        __builtin_add_overflow(span, further, &span))
      return;
  }
}

Walk walk(std::span<const View> views, bool in_order) {
  Walk result;
  for (std::size_t i = 0; i < views.size(); ++i) result.data[i] = views[i].data;
  std::array<Dimension, kMostDimensions> all{};
  std::size_t count = 0;
  for (int d = views[0].rank - 1; d >= 0; --d) {
    const std::int64_t extent = views[0].shape[at(d)];
    if (extent <= 1) continue;
    Dimension& dimension = all[count++];
    dimension.extent = extent;
    const bool turn = !in_order && views[0].strides[at(d)] < 0;
    for (std::size_t i = 0; i < views.size(); ++i) {
      const std::int64_t stride = views[i].strides[at(d)];
      dimension.strides[i] = turn ? -stride : stride;
      if (!turn) continue;
      result.moved[i] += (extent - 1) * stride * views[i].bytes;
    }
  }
  if (!in_order) {
    sort(all.data(), static_cast<int>(count),
         [](const Dimension& a, const Dimension& b) { return a.strides[0] < b.strides[0]; });
  }
  std::size_t rank = 0;
  for (std::size_t d = 0; d < count; ++d) {
    if (rank > 0 && continues(all[d], all[rank - 1], views.size())) {
      all[rank - 1].extent *= all[d].extent;
    } else {
      all[rank++] = all[d];
    }
  }
  for (std::size_t d = 0; d < rank; ++d) {
    result.shape[d] = all[d].extent;
    for (std::size_t i = 0; i < views.size(); ++i) result.strides[i][d] = all[d].strides[i];
  }
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (result.data[i] != nullptr) result.data[i] += result.moved[i];
  }
  // A single element is contiguous.
  if (rank == 0) {
    for (std::size_t i = 0; i < views.size(); ++i) result.strides[i][0] = 1;
  }
  result.rank = std::max(static_cast<int>(rank), 1);
  return result;
}

int widest(const Walk& walk, int tensor, std::int64_t element_bytes, int alignment, int most) {
  const auto fits = [&](std::int64_t bytes) {
    if (bytes > element_bytes && (bytes > alignment || walk.moved[at(tensor)] % bytes != 0)) return false;
    for (int d = 1; d < walk.rank; ++d) {
      if (walk.strides[at(tensor)][at(d)] * element_bytes % bytes != 0) return false;
    }
    return true;
  };
  int width = most;
  while (width > 1 && !fits(width * element_bytes)) width /= 2;
  return width;
}

void expect_data_aligned(const View& view, const char* name, int alignment) {
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);
  bool single = true;
  for (int d = 0; d < view.rank; ++d) single = single && (view.shape[at(d)] <= 1 || view.strides[at(d)] == 0);
  if (single || address % static_cast<std::uintptr_t>(alignment) == 0) return;
  refuse_alignment(name, "data", address & (~address + 1), alignment);
}

}  // namespace quern::ops
