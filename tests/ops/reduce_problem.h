// A call of reduce: tensors that lie in any way, the three calls, and what plain loops in fp64 make of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "tests/ops/compiled.h"
#include "tests/ops/device.h"
#include "tests/ops/element.h"
#include "tests/ops/random.h"
#include "tests/ops/refusal.h"

namespace quern::test::reduce {

inline constexpr int kSum = QUERN_REDUCE_SUM, kMean = QUERN_REDUCE_MEAN, kMax = QUERN_REDUCE_MAX,
                     kMin = QUERN_REDUCE_MIN, kArgmax = QUERN_REDUCE_ARGMAX, kArgmin = QUERN_REDUCE_ARGMIN,
                     kL2 = QUERN_REDUCE_L2, kDot = QUERN_REDUCE_DOT, kLogSumExp = QUERN_REDUCE_LOGSUMEXP,
                     kAny = QUERN_REDUCE_ANY, kAll = QUERN_REDUCE_ALL;

inline constexpr int kResults = 4;

// An array of any rank: its elements lie `order` says how, the first of it innermost, `gap` elements between rows of
// the innermost dimension; `turned` has a bit for each dimension that lies backwards.
class Array {
 public:
  void set(Element element, const std::vector<std::int64_t>& shape, std::vector<int> order, std::int64_t gap,
           std::int64_t offset, unsigned turned) {
    element_ = element, shape_ = shape, strides_.assign(shape.size(), 0);
    std::int64_t next = 1;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto d = static_cast<std::size_t>(order[i]);
      strides_[d] = next;
      next = next * shape[d] + (i == 0 ? gap : 0);
    }
    const std::int64_t all = next + offset + gap;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if ((turned >> d & 1) != 0) offset += (shape[d] - 1) * strides_[d], strides_[d] = -strides_[d];
    }
    offset_ = offset;
    put_.assign(static_cast<std::size_t>(all) * element.bytes(), 0xee);
    device_ = Buffer(put_.size(), 0xee);
    tensor = DLTensor{};
    tensor.data = device_.data(), tensor.device = dl_device(), tensor.dtype = element.type();
    tensor.ndim = static_cast<std::int32_t>(shape.size()), tensor.shape = shape_.data();
    tensor.strides = strides_.data(), tensor.byte_offset = static_cast<std::uint64_t>(offset) * element.bytes();
  }
  std::int64_t at(const std::vector<std::int64_t>& place) const {
    return offset_ + std::inner_product(place.begin(), place.end(), strides_.begin(), std::int64_t{0});
  }
  void put(const std::vector<std::int64_t>& place, double v) { element_.store(memory(put_, place), v); }
  double get(const std::vector<std::int64_t>& place) const {
    return element_.load(const_cast<Array*>(this)->memory(const_cast<Array*>(this)->put_, place));
  }
  void upload() { device_.write(put_); }

  DLTensor tensor{};
  std::vector<std::int64_t> shape_, strides_;

 private:
  unsigned char* memory(std::vector<unsigned char>& of, const std::vector<std::int64_t>& place) {
    return &of[static_cast<std::size_t>(at(place)) * element_.bytes()];
  }

  Element element_ = Element::f32;
  std::int64_t offset_ = 0;
  std::vector<unsigned char> put_;
  Buffer device_;
};

inline constexpr DLDataType kInt64{kDLInt, 64, 1}, kUint8{kDLUInt, 8, 1};

struct Case {
  std::string name;
  Element x = Element::f32;
  std::vector<std::int64_t> shape;
  std::vector<int> order;  // of x's dimensions in memory, the innermost first; empty: row-major
  std::uint32_t axes = 0;
  std::vector<int> kinds;
  std::vector<DLDataType> outs;  // f32, int64, uint8 where empty
  std::int64_t gap = 0, offset = 0;
  const char *before = nullptr, *after = nullptr;  // after: of the first
  std::uint32_t flags = 0;
  int max_sms = 0;
  bool keep = false;        // results have all dimensions
  bool y_apart = false;     // y lies in another way than x
  unsigned turned = 0;      // dimensions along which x lies backwards,
  unsigned out_turned = 0;  // and the results'
};
inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Problem {
 public:
  explicit Problem(const Case& c) : args(sized<quern_reduce_args>()), c_(c) {
    Random random(c.name);
    std::vector<int> order = c.order;
    for (int d = static_cast<int>(c.shape.size()) - 1; c.order.empty() && d >= 0; --d) order.push_back(d);
    x.set(c.x, c.shape, order, c.gap, c.offset, c.turned);
    fill(x, random);
    reads_y_ = std::ranges::count(c.kinds, int{QUERN_REDUCE_DOT}) > 0 ||
               (c.before != nullptr && std::strstr(c.before, "tensor0") != nullptr);
    if (reads_y_) {
      if (c.y_apart) std::ranges::reverse(order);
      y.set(c.x, c.shape, order, c.gap, c.y_apart ? 1 : c.offset, c.y_apart ? c.turned >> 1 : c.turned);
      fill(y, random);
    }
    axes_ = c.axes == 0 ? (1u << c.shape.size()) - 1 : c.axes;
    for (std::size_t d = 0; d < c.shape.size(); ++d) {
      const bool reduced = (axes_ >> d & 1) != 0;
      if (!reduced) kept_.push_back(c.shape[d]);
      if (!reduced || c.keep) out_shape_.push_back(reduced ? 1 : c.shape[d]);
    }
    count_ = std::accumulate(kept_.begin(), kept_.end(), std::int64_t{1}, std::multiplies<>());
    const DLTensor** outs[] = {&args.out, &args.out1, &args.out2, &args.out3};
    std::int32_t* reductions[] = {&args.reduction, &args.reduction1, &args.reduction2, &args.reduction3};
    for (std::size_t i = 0; i < c.kinds.size(); ++i) {
      const int kind = c.kinds[i];
      DLTensor& t = out[i];
      t.dtype = !c.outs.empty()                                              ? c.outs[i]
                : kind == QUERN_REDUCE_ARGMAX || kind == QUERN_REDUCE_ARGMIN ? kInt64
                : kind == QUERN_REDUCE_ANY || kind == QUERN_REDUCE_ALL       ? kUint8
                                                                             : kFloat32;
      memory_[i] = Buffer(static_cast<std::size_t>(count_) * t.dtype.bits / 8, 0xee);
      t.data = memory_[i].data(), t.device = dl_device();
      t.ndim = static_cast<std::int32_t>(out_shape_.size()), t.shape = out_shape_.data();
      lay_out(t);
      *outs[i] = &t, *reductions[i] = kind;
    }
    args.x = &x.tensor, args.y = reads_y_ ? &y.tensor : nullptr;
    args.axes = c.axes, args.flags = c.flags, args.max_sms = c.max_sms;
  }

  void put() {
    x.upload();
    if (reads_y_) y.upload();
    for (Buffer& each : memory_) each.fill(0xee);
  }
  void formulas(quern_context* context) {
    auto error = sized<quern_error>();
    if (c_.before != nullptr) {
      ASSERT_EQ(quern_expression_create(context, c_.before, &args.before, &error), QUERN_OK) << error.text;
    }
    if (c_.after != nullptr) {
      ASSERT_EQ(quern_expression_create(context, c_.after, &args.after, &error), QUERN_OK) << error.text;
    }
    if (c_.before != nullptr || c_.after != nullptr) args.scalars = kScalars, args.scalar_count = 2;
  }
  void call(quern_context* context) {
    auto error = sized<quern_error>();
    put();
    ASSERT_EQ(quern_reduce(context, &args, &error), QUERN_OK) << error.text;
    synchronize();
  }
  void run(quern_context* context) {
    auto error = sized<quern_error>();
    std::uint64_t bytes = 1;
    ASSERT_NO_FATAL_FAILURE(formulas(context));
    ASSERT_EQ(quern_reduce_workspace(context, &args, &bytes, &error), QUERN_OK) << error.text;
    workspace_ = Buffer(bytes, 0);
    args.workspace = workspace_.data(), args.workspace_size = bytes;
    ASSERT_EQ(quern_reduce_prepare(context, &args, &error), QUERN_OK) << error.text;
    args.flags |= QUERN_CALL_CACHED_ONLY;
    call(context);
  }
  std::vector<unsigned char> results() const {
    std::vector<unsigned char> all;
    for (const Buffer& each : memory_) {
      const std::vector<unsigned char> bytes = each.read();
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }
  double found(std::size_t i, std::int64_t row) const {
    const std::vector<unsigned char> bytes = memory_[i].read();
    std::int64_t place = 0;
    for (std::size_t d = out_shape_.size(); d-- > 0; row /= out_shape_[d]) {
      const std::int64_t own = row % out_shape_[d];
      place += ((c_.out_turned >> d & 1) != 0 ? out_shape_[d] - 1 - own : own) * std::abs(out_strides_[d]);
    }
    const unsigned char* at = bytes.data() + static_cast<std::size_t>(place) * out[i].dtype.bits / 8;
    const DLDataType& t = out[i].dtype;
    if (t.code == kDLUInt) return *at;
    if (t.code == kDLInt && t.bits == 64) {
      std::int64_t value = 0;
      std::memcpy(&value, at, 8);
      return static_cast<double>(value);
    }
    if (t.code == kDLInt) {
      std::int32_t value = 0;
      std::memcpy(&value, at, 4);
      return value;
    }
    return (t.code == kDLBfloat ? Element(Element::bf16)
            : t.bits == 16      ? Element(Element::f16)
                                : Element(Element::f32))
        .load(at);
  }

  // Sums may be off by what f32 loses in as many additions as a thread and its team make; all else is exact.
  void check() const {
    for (std::int64_t row = 0; row < count_; ++row) {
      std::vector<double> v, w;
      elements(row, &v, &w);
      for (std::size_t i = 0; i < c_.kinds.size(); ++i) {
        double spread = 0;
        double exact = reduced(c_.kinds[i], v, w, &spread);
        if (i == 0 && c_.after != nullptr) exact = exact * kScalars[0] + kScalars[1];
        const double here = found(i, row);
        const DLDataType& t = out[i].dtype;
        if (t.bits == 16) spread += std::fabs(exact) * (t.code == kDLBfloat ? 0x1p-8 : 0x1p-11);
        if (std::isnan(exact) || std::isinf(exact)) {
          ASSERT_TRUE(std::isnan(exact) ? std::isnan(here) : here == exact)
              << "row " << row << " of " << i << ": " << here;
        } else {
          ASSERT_LE(std::fabs(here - exact), spread)
              << "row " << row << " of " << i << ": " << here << ", not " << exact;
        }
      }
    }
  }

  static constexpr float kScalars[2] = {0.5f, 2.0f};
  quern_reduce_args args;
  Array x, y;
  DLTensor out[kResults]{};

 private:
  void fill(Array& array, Random& random) {
    each_place(c_.shape, [&](const std::vector<std::int64_t>& at) {
      array.put(at, c_.x.kind() == Element::i8 ? std::nearbyint(40.0 * random.normal()) : random.normal());
    });
  }
  void lay_out(DLTensor& t) {
    out_strides_.assign(out_shape_.size(), 0);
    std::int64_t next = 1;
    for (std::size_t d = out_shape_.size(); d-- > 0; next *= out_shape_[d]) {
      const bool turned = (c_.out_turned >> d & 1) != 0;
      out_strides_[d] = turned ? -next : next;
      if (turned) t.byte_offset += static_cast<std::uint64_t>((out_shape_[d] - 1) * next) * t.dtype.bits / 8;
    }
    t.strides = out_strides_.data();
  }
  template <class F>
  static void each_place(const std::vector<std::int64_t>& shape, F&& f) {
    const std::int64_t count = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    std::vector<std::int64_t> place(shape.size());
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t left = i;
      for (std::size_t d = shape.size(); d-- > 0; left /= shape[d]) place[d] = left % shape[d];
      f(place);
    }
  }
  // A row's elements in the order of the axes, behind the formula, and those of y.
  void elements(std::int64_t row, std::vector<double>* v, std::vector<double>* w) const {
    std::vector<std::int64_t> inner, fixed(c_.shape.size());
    for (std::size_t d = c_.shape.size(); d-- > 0;) {
      if ((axes_ >> d & 1) != 0) continue;
      fixed[d] = row % c_.shape[d], row /= c_.shape[d];
    }
    for (std::size_t d = 0; d < c_.shape.size(); ++d) inner.push_back((axes_ >> d & 1) != 0 ? c_.shape[d] : 1);
    each_place(inner, [&](const std::vector<std::int64_t>& at) {
      std::vector<std::int64_t> place = fixed;
      for (std::size_t d = 0; d < place.size(); ++d) place[d] += at[d];
      const double of_y = reads_y_ ? y.get(place) : 1.0;
      v->push_back(c_.before == nullptr ? x.get(place) : x.get(place) * of_y * kScalars[1]);
      w->push_back(of_y);
    });
  }
  static double reduced(int kind, const std::vector<double>& v, const std::vector<double>& w, double* spread) {
    const auto better = [&](double a, double b) {
      return (kind == QUERN_REDUCE_ARGMAX || kind == QUERN_REDUCE_MAX ? a > b : a < b) ||
             (std::isnan(a) && !std::isnan(b));
    };
    double sum = 0, terms = 0, largest = -INFINITY, powers = 0;
    std::int64_t at = -1;
    bool any = false, all = true;
    for (std::size_t i = 0; i < v.size(); ++i) {
      const double by = kind == QUERN_REDUCE_L2 ? v[i] : kind == QUERN_REDUCE_DOT ? w[i] : 1.0;
      sum += v[i] * by, terms += std::fabs(v[i] * by);
      largest = std::fmax(largest, v[i]);
      any = any || v[i] != 0, all = all && v[i] != 0;
      if (at < 0 || better(v[i], v[static_cast<std::size_t>(at)])) at = static_cast<std::int64_t>(i);
    }
    const double origin = std::isinf(largest) ? 0.0 : largest;
    for (const double each : v) powers += std::exp(each - origin);
    switch (kind) {
      case QUERN_REDUCE_SUM:
      case QUERN_REDUCE_DOT:
        *spread = 0x1p-19 * terms;
        return sum;
      case QUERN_REDUCE_MEAN:
        *spread = 0x1p-19 * terms / static_cast<double>(v.size());
        return sum / static_cast<double>(v.size());
      case QUERN_REDUCE_L2:
        *spread = 0x1p-19 * std::sqrt(sum);
        return std::sqrt(sum);
      case QUERN_REDUCE_MAX:
      case QUERN_REDUCE_MIN:
        *spread = v.empty() ? 0 : 0x1p-22 * std::fabs(v[static_cast<std::size_t>(at)]);  // of a formula
        return at >= 0 ? v[static_cast<std::size_t>(at)] : kind == QUERN_REDUCE_MAX ? -INFINITY : INFINITY;
      case QUERN_REDUCE_ARGMAX:
      case QUERN_REDUCE_ARGMIN:
        return static_cast<double>(at);
      case QUERN_REDUCE_LOGSUMEXP:
        *spread = 0x1p-19 * (1.0 + std::fabs(origin));
        return std::log(powers) + origin;
      default:
        return kind == QUERN_REDUCE_ANY ? any : all;
    }
  }

  const Case c_;
  bool reads_y_ = false;
  std::uint32_t axes_ = 0;
  std::vector<std::int64_t> kept_, out_shape_, out_strides_;
  std::int64_t count_ = 0;
  std::array<Buffer, kResults> memory_;
  Buffer workspace_;
};

inline Case plain(const std::string& name, std::vector<std::int64_t> shape, std::uint32_t axes,
                  std::vector<int> kinds) {
  Case c;
  c.name = name, c.shape = std::move(shape), c.axes = axes, c.kinds = std::move(kinds);
  return c;
}

}  // namespace quern::test::reduce
