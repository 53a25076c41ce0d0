// The kv_copy_pages op: copies pages of a cache.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "jit/error.h"
#include "sources/call.h"
#include "sources/common_headers.h"
#include "sources/description.h"
#include "sources/divisor.h"
#include "sources/embedded.h"
#include "sources/index_data.h"
#include "sources/kv_copy_pages/params.cuh"
#include "sources/launch.h"
#include "sources/ops.h"
#include "sources/tensor.h"

namespace quern::ops::kv_copy_pages {
namespace {

constexpr int kThreads = 256;
constexpr int kAtOnce = 4;  // chunks of a thread
constexpr int kBlocksPerSm = 6;

struct Shape {
  int chunk_bytes = 16;  // that a thread copies at a time
};
constexpr Names<int, 3> kChunks = {{{"16", 16}, {"8", 8}, {"4", 4}}};
constexpr auto kConstants = describe<Shape>(
    tag_kv_copy_pages, "kv_copy_pages", choice<&Shape::chunk_bytes>("chunk_bytes", "CHUNK_BYTES", kChunks).optional());

Constants constants(const jit::Spec& spec) { return kConstants.to_constants(kConstants.to_shape(spec)); }

jit::Spec parse(const Constants& given, const jit::TargetInfo& target) {
  return kConstants.to_spec(kConstants.read(given), target.target);
}

jit::Unit unit(const jit::Spec& spec) {
  jit::Unit unit;
  unit.op = "kv_copy_pages";
  unit.target = jit::Target::from_tag(spec.target);
  unit.entry = "quern_kv_copy_pages";
  kConstants.define(kConstants.to_shape(spec), &unit);
  for (const jit::Constant& each : {jit::Constant{"AT_ONCE", std::to_string(kAtOnce)},
                                    {"THREADS", std::to_string(kThreads)},
                                    {"BLOCKS_PER_SM", std::to_string(kBlocksPerSm)}}) {
    unit.constants.push_back(each);
  }
  unit.source = embedded("kv_copy_pages/kv_copy_pages.cuh");
  unit.headers = device_headers(unit.target);
  return unit;
}

void list(const quern_model& model, const jit::TargetInfo& target, std::vector<jit::Spec>* specs) {
  const bool codes = (model.kv_dtype.bits != 0 ? model.kv_dtype.bits : model.dtype.bits) == 8;
  std::uint32_t dim_k = model.head_dim, dim_v = model.v_head_dim != 0 ? model.v_head_dim : model.head_dim;
  if ((model.flags & QUERN_MODEL_MLA) != 0) dim_k = model.kv_lora_rank + model.rope_head_dim, dim_v = 0;
  if (dim_k == 0) return;
  const bool halves = codes && (dim_k % 16 != 0 || dim_v % 16 != 0);
  specs->push_back(kConstants.to_spec({halves ? 8 : 16}, target.target));
}

struct Problem {
  int chunk_bytes;
  q::KvCopyPagesParams params;
  std::int64_t blocks;
};

// A pool and the one that its pages are copied to: [pages, page_size, heads, d], or numbers of each of these rows.
struct Pools {
  Tensor from, to;
  bool latent = false;  // given without heads: there is one
};

class Reader {
 public:
  Reader(const Call& call, Problem& problem) : call_(call), problem_(problem) {}

  Pools read_pools(const DLTensor* from, const char* name, const DLTensor* to, const char* to_name) {
    Pools pools{read_pool(from, name), {}, from != nullptr && from->ndim == 3};
    pools.to = to != nullptr ? read_pool(to, to_name) : pools.from;
    if (to != nullptr) {
      if (to->ndim != from->ndim) refuse_rank(to_name, to->ndim, from->ndim);
      if (pools.to.dtype != pools.from.dtype) refuse_dtype(to_name, to->dtype, {pools.from.dtype});
      for (int d = 1; d < 3; ++d) expect_extent(pools.to, to_name, d, pools.from.shape[d]);
      const std::int64_t row = pools.from.shape[3];
      if (pools.to.shape[3] != row)
        refuse_extent(to_name, pools.latent ? 2 : 3, pools.to.shape[3], std::to_string(row).c_str());
    }
    expect_apart(pools.to, to != nullptr ? to_name : name);
    return pools;
  }

  void expect_same_pages(const Pools& k, const Pools& v, const DLTensor* given) {
    if (v.from.dtype != k.from.dtype) refuse_dtype("v", given->dtype, {k.from.dtype});
    for (int d = 1; d < 3; ++d) expect_extent(v.from, "v", d, k.from.shape[d]);
  }

  // 16 bytes at a time, or as many as all rows are made of.
  void choose_chunks(const Pools& k, const Pools* v) {
    int bytes = call_.alignment;
    for (const Pools* pools : {&k, v}) {
      while (pools != nullptr && pools->from.shape[3] * bytes_of(pools->from.dtype) % bytes != 0) bytes /= 2;
    }
    problem_.chunk_bytes = bytes;
  }

  void take(int kind, const Pools& pools) {
    set(kind, pools, pools.from.shape[3] * bytes_of(pools.from.dtype) / problem_.chunk_bytes);
    problem_.params.pages_from[kind] = pools.from.shape[0];
    problem_.params.pages_to[kind] = pools.to.shape[0];
  }

  void take_scales(int kind, const Pools& codes, const DLTensor* from, const char* name, const DLTensor* to,
                   const char* to_name) {
    if (from == nullptr) {
      if (to != nullptr)
        throw Error(QUERN_INVALID, std::string(to_name) + " is given; it must be NULL without " + name);
      return;
    }
    const auto read_scales = [&](const DLTensor* given, const char* given_name) {
      const int rank = codes.latent ? 2 : 3;
      const Tensor t = read(given, given_name, rank, {Dtype::f32}, call_.place);
      return codes.latent ? with_a_head(t) : t;
    };
    Pools scales{read_scales(from, name), {}, codes.latent};
    scales.to = to != nullptr ? read_scales(to, to_name) : scales.from;
    for (int d = 0; d < 3; ++d) {
      expect_extent(scales.from, name, d, codes.from.shape[d]);
      expect_extent(scales.to, to != nullptr ? to_name : name, d, codes.to.shape[d]);
    }
    expect_apart(scales.to, to != nullptr ? to_name : name);
    set(kind, scales, 1);
  }

 private:
  // A latent pool's rows, or their scales, are those of one head.
  Tensor with_a_head(const Tensor& t) {
    Tensor result = t;
    std::array<std::int64_t, 4>& shape = shapes_.at(used_++);
    shape = {t.shape[0], t.shape[1], 1, t.rank == 3 ? t.shape[2] : 1};
    result.shape = shape.data(), result.rank = t.rank + 1;
    result.strides[2] = 0, result.strides[3] = t.rank == 3 ? t.strides[2] : 0;
    return result;
  }

  Tensor read_pool(const DLTensor* given, const char* name) {
    if (given != nullptr && given->ndim != 3 && given->ndim != 4) refuse_rank(name, given->ndim, 3, 4);
    const int rank = given != nullptr ? given->ndim : 4, last = rank - 1;
    const Tensor t =
        read(given, name, rank, {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::e4m3, Dtype::e5m2, Dtype::i8, Dtype::u8},
             call_.place);
    if (t.shape[last] < 8 || t.shape[last] % 8 != 0)
      refuse_extent(name, last, t.shape[last], "positive multiples of 8");
    expect_unit_stride(t, name, last);
    // Of 8 bits a row may be an odd number of 8 bytes.
    const bool wide = t.shape[last] * bytes_of(t.dtype) % 16 == 0;
    expect_aligned(t, name, wide ? call_.alignment : std::min(call_.alignment, 8));
    return rank == 3 ? with_a_head(t) : t;
  }

  void set(int kind, const Pools& pools, std::int64_t chunks) {
    const std::int64_t tokens = pools.from.shape[1], heads = pools.from.shape[2], bytes = bytes_of(pools.from.dtype);
    if (tokens * heads * chunks > INT32_MAX) throw Error(QUERN_INVALID, "a page has 2^31 pieces or more");
    // Rows in the order in which they lie.
    const bool heads_outside = pools.from.strides[2] > pools.from.strides[1];
    const int outer = heads_outside ? 2 : 1, inner = heads_outside ? 1 : 2;
    q::PageRows& rows = problem_.params.rows[kind];
    rows.from = pools.from.data, rows.to = pools.to.data;
    rows.from_page = pools.from.strides[0] * bytes, rows.to_page = pools.to.strides[0] * bytes;
    rows.from_outer = pools.from.strides[outer] * bytes, rows.to_outer = pools.to.strides[outer] * bytes;
    rows.from_inner = pools.from.strides[inner] * bytes, rows.to_inner = pools.to.strides[inner] * bytes;
    rows.inner = divisor(static_cast<std::int32_t>(std::max<std::int64_t>(pools.from.shape[inner], 1)));
    rows.chunks = divisor(static_cast<std::int32_t>(std::max<std::int64_t>(chunks, 1)));
    rows.count = static_cast<std::int32_t>(tokens * heads * chunks);
    rows.strips = static_cast<std::int32_t>((rows.count + std::int64_t{kThreads} * kAtOnce - 1) / (kThreads * kAtOnce));
  }

  const Call& call_;
  Problem& problem_;
  std::array<std::array<std::int64_t, 4>, 8> shapes_{};  // of those that were given without heads
  std::size_t used_ = 0;
};

Problem read_problem(const quern_kv_copy_pages_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call = read_call(runtime, args, 0, "enum quern_call_flags", 4, may_lack_data);
  Problem problem{};
  Reader reader(call, problem);
  const Pools k = reader.read_pools(args.k, "k", args.k_to, "k_to");
  reader.take_scales(2, k, args.k_scale, "k_scale", args.k_scale_to, "k_scale_to");
  q::KvCopyPagesParams& p = problem.params;
  if (args.v != nullptr) {
    const Pools v = reader.read_pools(args.v, "v", args.v_to, "v_to");
    reader.expect_same_pages(k, v, args.v);
    reader.choose_chunks(k, &v);
    reader.take(1, v);
    reader.take_scales(3, v, args.v_scale, "v_scale", args.v_scale_to, "v_scale_to");
  } else {
    for (const auto& [name, given] :
         {std::pair{"v_to", args.v_to}, {"v_scale", args.v_scale}, {"v_scale_to", args.v_scale_to}}) {
      if (given != nullptr) throw Error(QUERN_INVALID, std::string(name) + " is given; it must be NULL without v");
    }
    reader.choose_chunks(k, nullptr);
  }
  reader.take(0, k);
  if (args.v == nullptr) p.pages_from[1] = p.pages_from[0], p.pages_to[1] = p.pages_to[0];
  const Tensor sources = read_indices(args.sources, "sources", call.place);
  const Tensor destinations = read_indices(args.destinations, "destinations", call.place);
  if (destinations.dtype != sources.dtype) refuse_dtype("destinations", args.destinations->dtype, {sources.dtype});
  expect_extent(destinations, "destinations", 0, sources.shape[0]);
  p.sources = {sources.data, sources.strides[0], sources.dtype == Dtype::i64};
  p.destinations = {destinations.data, destinations.strides[0], destinations.dtype == Dtype::i64};
  std::int64_t strips = 0;
  for (const q::PageRows& rows : p.rows) strips += rows.strips;
  if (strips * sources.shape[0] > INT32_MAX) refuse_extent("sources", 0, sources.shape[0], "fewer pages at once");
  p.strips = divisor(static_cast<std::int32_t>(std::max<std::int64_t>(strips, 1)));
  p.pairs = strips == 0 ? 0 : static_cast<std::int32_t>(sources.shape[0]);
  problem.blocks = args.max_sms > 0 ? std::min<std::int64_t>(strips * p.pairs, std::int64_t{call.sms} * kBlocksPerSm)
                                    : strips * p.pairs;
  return problem;
}

// A pair with a negative number is skipped; a number that no page has is a mistake.
void list_index_data(const q::KvCopyPagesParams& p, IndexList* list) {
  const auto add = [&](const char* name, const q::Integers& numbers, const q::Integers& others, const q::i64(&pages)[2],
                       const char* bound) {
    q::IndexCheck& check =
        list->in_range(name, numbers, p.pairs, 0, std::int64_t{std::min(pages[0], pages[1])} - 1, nullptr, bound);
    check.others = others, check.flags |= q::kLessAllowed | q::kOtherNegative;
  };
  add("sources", p.sources, p.destinations, p.pages_from, "k's and v's pages; a negative number skips its pair");
  add("destinations", p.destinations, p.sources, p.pages_to,
      "k_to's and v_to's pages; a negative number skips its pair");
}

}  // namespace

const Op op{"kv_copy_pages", unit, parse, list, constants};

std::uint64_t workspace(const Runtime& runtime, const quern_kv_copy_pages_args& args) {
  read_problem(args, runtime, true);
  return 0;
}

void prepare(const Runtime& runtime, const quern_kv_copy_pages_args& args) {
  const Problem problem = read_problem(args, runtime, true);
  kernel_for(runtime, kConstants.to_spec({problem.chunk_bytes}, runtime.driver->device().limits.target), args.flags,
             args.stream);
}

void run(const Runtime& runtime, const quern_kv_copy_pages_args& args) {
  Problem problem = read_problem(args, runtime, false);
  const jit::Kernel* kernel =
      kernel_for(runtime, kConstants.to_spec({problem.chunk_bytes}, runtime.driver->device().limits.target), args.flags,
                 args.stream);
  if (problem.params.pairs == 0) return;
  check_indices(runtime, args, [&](IndexList& list) { list_index_data(problem.params, &list); });
  jit::Launch launch;
  launch.grid[0] = static_cast<std::uint32_t>(problem.blocks);
  launch.block[0] = kThreads;
  launch.programmatic = (args.flags & QUERN_CALL_PROGRAMMATIC) != 0;
  launch.stream = args.stream;
  ops::launch(runtime, *kernel, launch, "launching kv_copy_pages", problem.params);
}

}  // namespace quern::ops::kv_copy_pages
