// SPDX-License-Identifier: Apache-2.0
#include "sources/rope/heads.h"

#include <string>
#include <utility>

namespace quern::ops::rope {

q::RopeHeads read_heads(const DLTensor* from, const char* from_name, const DLTensor* to, const char* to_name,
                        Dtype dtype, const Call& call, std::int64_t tokens, std::int64_t dim) {
  const Tensor x = read(from, from_name, 3, {dtype}, call.place);
  const Tensor out = to != nullptr ? read(to, to_name, 3, {dtype}, call.place) : x;
  const char* out_name = to != nullptr ? to_name : from_name;
  expect_extent(x, from_name, 0, tokens);
  expect_extent(x, from_name, 2, dim);
  for (int d = 0; d < 3; ++d) expect_extent(out, out_name, d, x.shape[d]);
  for (const auto& [tensor, name] : {std::pair{&x, from_name}, std::pair{&out, out_name}}) {
    expect_unit_stride(*tensor, name, 2);
    expect_aligned(*tensor, name, call.alignment);
  }
  expect_apart(out, out_name);
  if (x.data != nullptr && x.data == out.data && (x.strides[0] != out.strides[0] || x.strides[1] != out.strides[1])) {
    refuse_stride(out_name, 0, out.strides[0], (std::string("those of ") + from_name + ", which it is").c_str());
  }
  return {x.data,
          out.data,
          x.strides[0],
          x.strides[1],
          out.strides[0],
          out.strides[1],
          static_cast<std::int32_t>(x.shape[1]),
          0};
}

}  // namespace quern::ops::rope
