// SPDX-License-Identifier: Apache-2.0
#include "sources/kv_append/places.h"

#include <string>

#include "jit/error.h"

namespace quern::ops::kv_append {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(QUERN_INVALID, text); }

const std::int32_t* ints(const Tensor& t) { return reinterpret_cast<const std::int32_t*>(t.data); }

q::Integers read_integers(const DLTensor* given, const char* name, std::int64_t tokens, const Place& place) {
  const Tensor t = read_indices(given, name, place);
  expect_extent(t, name, 0, tokens);
  // Whether they are given is what the kernel asks: none is needed where there is no token.
  return {t.data, t.strides[0], t.dtype == Dtype::i64};
}
Tensor read_array(const DLTensor* given, const char* name, std::int64_t length, const Place& place) {
  const Tensor t = read(given, name, 1, {Dtype::i32}, place);
  if (length >= 0) expect_extent(t, name, 0, length);
  expect_unit_stride(t, name, 0);
  return t;
}

void read_batch(const PlaceTensors& given, const Place& place, q::TokenPlaces& p) {
  std::int64_t batch = 0;
  if (given.page_table != nullptr) {
    const Tensor t = read(given.page_table, "page_table", 2, {Dtype::i32}, place);
    expect_unit_stride(t, "page_table", 1);
    batch = t.shape[0];
    p.pages = ints(t), p.pages_stride = t.strides[0], p.page_columns = t.shape[1];
  } else {
    const Tensor indptr = read_array(given.page_indptr, "page_indptr", -1, place);
    if (indptr.shape[0] < 1) refuse_extent("page_indptr", 0, indptr.shape[0], "the batch and 1");
    batch = indptr.shape[0] - 1;
    p.page_indptr = ints(indptr);
    const Tensor t = read_array(given.page_indices, "page_indices", -1, place);
    p.pages = ints(t), p.page_columns = t.shape[0];
  }
  p.batch = static_cast<std::int32_t>(batch);
  if (given.cu_q != nullptr) p.cu_q = ints(read_array(given.cu_q, "cu_q", batch + 1, place));
  if (given.lengths != nullptr) p.lengths = ints(read_array(given.lengths, "lengths", batch, place));
  if (given.positions == nullptr && given.lengths == nullptr)
    refuse("positions and lengths are NULL; one of them must be given with a page table");
  if (given.positions != nullptr) refuse_unless_null(given.lengths, "lengths", "with positions");
}

}  // namespace

void refuse_unless_null(const DLTensor* given, const char* name, const char* when) {
  if (given != nullptr) refuse(std::string(name) + " is given; it must be NULL " + when);
}

void read_places(const PlaceTensors& given, std::int64_t tokens, bool turns, const Place& place,
                 q::TokenPlaces* places) {
  const bool indices = given.page_indices != nullptr || given.page_indptr != nullptr;
  if ((given.page_table != nullptr) + indices + (given.slots != nullptr) != 1) {
    refuse("exactly one of slots, page_table, and page_indptr with page_indices must be given");
  }
  if (given.positions != nullptr) places->positions = read_integers(given.positions, "positions", tokens, place);
  if (given.slots == nullptr) {
    read_batch(given, place, *places);
    return;
  }
  places->slots = read_integers(given.slots, "slots", tokens, place);
  refuse_unless_null(given.cu_q, "cu_q", "with slots");
  refuse_unless_null(given.lengths, "lengths", "with slots");
  if (turns && given.positions == nullptr) refuse("positions is NULL; it must be given with rope and slots");
}

}  // namespace quern::ops::kv_append
