// SPDX-License-Identifier: Apache-2.0
#include "sources/attention/maps.h"

#include <algorithm>

#include "sources/attention/kernels/sm90/room.cuh"

namespace quern::ops::attention {
namespace {

constexpr int kSwizzle128 = 3;

struct View {
  const void* data;
  int dim;
  std::int64_t pages;
  std::uint32_t token_bytes, page_bytes;
  std::int64_t head_bytes;
};

jit::TensorMap map_of(const Runtime& runtime, const Problem& problem, const Tiling& tiling, const View& v) {
  const Shape& shape = problem.shape;
  const std::int64_t tokens = std::max<std::int64_t>(problem.page_tokens, 1), heads = problem.params.kv_heads;
  const int bytes = shape.cache_bytes();
  const std::int64_t row = static_cast<std::int64_t>(v.dim) * bytes;
  // Where there is one of a kind its stride says nothing, but must be one.
  const auto stride = [&](std::int64_t given, std::int64_t instead) {
    return static_cast<std::uint64_t>(given > 0 ? given : instead);
  };
  jit::TensorMapDesc desc;
  desc.data_type = bytes == 1 ? jit::kTensorU8 : shape.element == Dtype::f16 ? jit::kTensorF16 : jit::kTensorBF16;
  desc.rank = 4;
  desc.address = const_cast<void*>(v.data);  // they are only read
  desc.extent[0] = static_cast<std::uint64_t>(v.dim);
  desc.extent[1] = static_cast<std::uint64_t>(tokens);
  desc.extent[2] = static_cast<std::uint64_t>(heads);
  desc.extent[3] = static_cast<std::uint64_t>(std::max<std::int64_t>(v.pages, 1));
  desc.stride[0] = stride(v.token_bytes, row);
  desc.stride[1] = stride(v.head_bytes, row * tokens);
  desc.stride[2] = stride(shape.paged ? v.page_bytes : 0, row * tokens * heads);
  desc.box[0] = static_cast<std::uint32_t>(q::kSpanBytes / bytes);
  desc.box[1] = static_cast<std::uint32_t>(shape.paged ? q::box_keys(shape.page_size, tiling.block) : tiling.block);
  desc.box[2] = desc.box[3] = 1;
  desc.swizzle = kSwizzle128;
  desc.l2_promotion = jit::kPromote128;
  jit::TensorMap map;
  runtime.tensor_maps->get(desc, map);
  return map;
}

}  // namespace

jit::TensorMap map_of_keys(const Runtime& runtime, const Problem& problem, const Tiling& tiling) {
  const q::AttentionParams& p = problem.params;
  return map_of(runtime, problem, tiling,
                {p.keys, problem.shape.dim_k, problem.pages, p.k_token_bytes, p.k_page_bytes, p.k_stride_head});
}

jit::TensorMap map_of_values(const Runtime& runtime, const Problem& problem, const Tiling& tiling) {
  const q::AttentionParams& p = problem.params;
  return map_of(runtime, problem, tiling,
                {p.values, problem.shape.dim_v, problem.value_pages, p.v_token_bytes, p.v_page_bytes, p.v_stride_head});
}

}  // namespace quern::ops::attention
