// What sample and the ops that sample as it does read their parameters with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/call.h"
#include "sources/sample/params.cuh"

namespace quern::ops::sample {

// A vector of `count` that may be missing. Throws Error(QUERN_INVALID).
template <class T>
T* read_vector(const DLTensor* given, const char* name, Dtype dtype, std::int64_t count, const Place& place) {
  if (given == nullptr) return nullptr;
  const Tensor t = read(given, name, 1, {dtype}, place);
  expect_extent(t, name, 0, count);
  expect_unit_stride(t, name, 0);
  return reinterpret_cast<T*>(t.data);
}

inline Tensor read_matrix(const DLTensor* given, const char* name, Dtype dtype, std::int64_t rows, const Place& place) {
  const Tensor t = read(given, name, 2, {dtype}, place);
  expect_extent(t, name, 0, rows);
  expect_unit_stride(t, name, 1);
  return t;
}

template <class T>
constexpr Dtype kDtype = Dtype::f32;
template <>
inline constexpr Dtype kDtype<std::int32_t> = Dtype::i32;

// A parameter as an array or as one number for all rows; those that the host can see are held against their range.
class Parameters {
 public:
  Parameters(std::int64_t count, const Place& place) : count_(count), place_(place) {}

  template <class T, class Allowed>
  void read(const DLTensor* rows, const char* rows_name, T all, const char* name, Allowed allowed, const char* range,
            q::PerRow<T>* to) const {
    to->rows = read_vector<T>(rows, rows_name, kDtype<T>, count_, place_);
    to->all = all;
    if (rows == nullptr && !allowed(all)) refuse(name, all, range);
  }

 private:
  static void refuse(const char* name, float v, const char* range) { refuse_value(name, double{v}, range); }
  static void refuse(const char* name, std::int32_t v, const char* range) {
    refuse_value(name, std::int64_t{v}, range);
  }

  std::int64_t count_;
  Place place_;
};

template <class T>
bool given(const q::PerRow<T>& parameter, T off) {
  return parameter.rows != nullptr || parameter.all != off;
}

}  // namespace quern::ops::sample
