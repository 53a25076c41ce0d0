// Attention of a given shape over random data.
// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/device/problem.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>

namespace quern::bench {
namespace {

using demo::Tensor;

// Two values a thread and turn; the sum of a hash's four bytes is near enough to a normal distribution.
constexpr const char* kFill = R"(#include "quern/kernel.cuh"
struct Params {
  q::u32* pairs;
  q::u64 count;
  q::u32 seed;
};
static QUERN_DEVICE q::f32 normal(q::u32 x) {
  x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; x ^= x >> 16;
  const q::u32 sum = (x & 255) + (x >> 8 & 255) + (x >> 16 & 255) + (x >> 24);
  return (static_cast<q::f32>(sum) - 510.0f) * (1.0f / 147.8f);
}
QUERN_KERNEL(fill_normal, 256, 1, QUERN_PARAM Params p) {
  const q::u64 step = static_cast<q::u64>(q::block_count(0)) * 256;
  for (q::u64 i = static_cast<q::u64>(q::block_index(0)) * 256 + q::thread_index(); i < p.count; i += step) {
    const q::u32 x = static_cast<q::u32>(i) * 2u + p.seed;
    p.pairs[i] = q::pack<q::bf16>(normal(x), normal(x + 1u));
  }
}
)";

struct FillParams {
  void* pairs;
  std::uint64_t count;
  std::uint32_t seed;
};

void fill(Gpu& gpu, void* memory, std::size_t bytes, std::uint32_t seed) {
  const quern_source source{sizeof(quern_source), 0, "fill_normal.cuh", kFill, 0};
  auto desc = demo::sized<quern_kernel_desc>();
  desc.entry = "fill_normal";
  desc.source = &source;
  quern_kernel* kernel = nullptr;
  demo::call([&](quern_error* error) { return quern_kernel_prepare(gpu.context(), &desc, &kernel, error); });
  FillParams parameters{memory, bytes / 4, seed};
  void* arguments[] = {&parameters};
  auto launch = demo::sized<quern_launch>();
  launch.stream = gpu.stream();
  launch.grid_x = gpu.device().sm_count * 8;
  launch.block_x = 256;
  launch.args = arguments;
  launch.arg_count = 1;
  demo::call([&](quern_error* error) { return quern_kernel_launch(gpu.context(), kernel, &launch, error); });
}

std::int64_t pages_of(const Shape& shape) {
  return shape.page_size == 0 ? 0 : (shape.kv_len + shape.page_size - 1) / shape.page_size;
}
std::int64_t bound_of(const Shape& shape) { return shape.max_kv_len == 0 ? shape.kv_len : shape.max_kv_len; }
std::size_t count(std::int64_t number) { return static_cast<std::size_t>(number); }

}  // namespace

double Shape::kv_bytes() const { return 2.0 * 2.0 * static_cast<double>(batch * kv_len * kv_heads * dim); }

double Shape::flops() const {
  const auto queries = static_cast<double>(q_len), before = static_cast<double>(kv_len - q_len);
  const double pairs = queries * before + queries * queries / 2;
  return 4.0 * static_cast<double>(batch * heads * dim) * pairs;
}

Pools::Pools(Gpu& gpu, std::size_t kv, std::size_t query, std::uint32_t seed)
    : k(gpu.memory().allocate(kv)),
      v(gpu.memory().allocate(kv)),
      q(gpu.memory().allocate(query)),
      out(gpu.memory().allocate(query)),
      kv_bytes(kv),
      q_bytes(query) {
  if (seed != 0) {
    fill(gpu, k, kv, seed);
    fill(gpu, v, kv, seed * 2654435761U);
    fill(gpu, q, query, seed * 2246822519U);
  }
  gpu.memory().synchronise();
}

struct Problem::Tensors {
  Tensor q, k, v, out, lengths, cu_q, cu_kv, page_table;
};

Problem::Problem(Gpu& gpu, const Pools& pools, const Shape& shape, std::uint32_t seed)
    : gpu_(gpu),
      context_(gpu.context()),
      shape_(shape),
      pools_(pools),
      // As wide as the bound asks for, so that calls that differ in it alone read the same table.
      max_pages_(shape.page_size == 0 ? 1 : std::max(pages_of(shape), bound_of(shape) / shape.page_size)),
      lengths_(gpu.memory(), count(shape.batch), static_cast<std::int32_t>(shape.kv_len)),
      cu_q_(gpu.memory(), count(shape.batch + 1)),
      cu_kv_(gpu.memory(), count(shape.batch + 1)),
      pages_(gpu.memory(), count(shape.batch * max_pages_)),
      tensors_([&] {
        const DLDevice at = gpu.where();
        const std::int64_t rows = shape.batch * shape.q_len, tokens = shape.batch * shape.kv_len;
        const std::int64_t all_pages = shape.batch * pages_of(shape);
        const std::int64_t kv_elements =
            (shape.page_size == 0 ? tokens : all_pages * shape.page_size) * shape.kv_heads * shape.dim;
        if (count(kv_elements) * 2 > pools.kv_bytes || count(rows * shape.heads * shape.dim) * 2 > pools.q_bytes) {
          throw std::runtime_error("the pools are too small for this shape");
        }
        const auto cache = [&](void* data) {
          return shape.page_size == 0
                     ? Tensor(data, at, demo::kBf16, {tokens, shape.kv_heads, shape.dim})
                     : Tensor(data, at, demo::kBf16, {all_pages, shape.page_size, shape.kv_heads, shape.dim});
        };
        return std::shared_ptr<Tensors>(new Tensors{
            Tensor(pools.q, at, demo::kBf16, {rows, shape.heads, shape.dim}),
            cache(pools.k),
            cache(pools.v),
            Tensor(pools.out, at, demo::kBf16, {rows, shape.heads, shape.dim}),
            Tensor(lengths_.device(), at, demo::kI32, {shape.batch}),
            Tensor(cu_q_.device(), at, demo::kI32, {shape.batch + 1}),
            Tensor(cu_kv_.device(), at, demo::kI32, {shape.batch + 1}),
            Tensor(pages_.device(), at, demo::kI32, {shape.batch, max_pages_}),
        });
      }()),
      args_(demo::sized<quern_attention_args>()) {
  for (std::size_t i = 0; i < cu_q_.host.size(); ++i) {
    cu_q_.host[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) * shape.q_len);
    cu_kv_.host[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) * shape.kv_len);
  }
  if (shape.page_size != 0) pages_.host = pages(seed);
  for (demo::Mirrored<std::int32_t>* array : {&lengths_, &cu_q_, &cu_kv_, &pages_}) array->upload();

  args_.flags = QUERN_ATTENTION_CAUSAL;
  args_.stream = gpu.stream();
  args_.q = tensors_->q;
  args_.k = tensors_->k;
  args_.v = tensors_->v;
  args_.out = tensors_->out;
  args_.lengths = tensors_->lengths;
  if (shape.q_len > 1) args_.cu_q = tensors_->cu_q;
  if (shape.page_size == 0) {
    args_.cu_kv = tensors_->cu_kv;
  } else {
    args_.page_table = tensors_->page_table;
  }
  args_.max_q_len = static_cast<std::int32_t>(shape.q_len);
  args_.max_kv_len = static_cast<std::int32_t>(bound_of(shape));
  demo::call(
      [&](quern_error* error) { return quern_attention_workspace(context_, &args_, &args_.workspace_size, error); });
  args_.workspace = gpu.memory().allocate(static_cast<std::size_t>(args_.workspace_size));
  gpu.memory().synchronise();
}

std::vector<std::int32_t> Problem::pages(std::uint32_t seed) const {
  const std::int64_t each = pages_of(shape_);
  std::vector<std::int32_t> order(count(shape_.batch * each));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  std::vector<std::int32_t> table(count(shape_.batch * max_pages_), 0);
  for (std::int64_t b = 0; b < shape_.batch; ++b) {
    std::copy_n(order.begin() + b * each, each, table.begin() + b * max_pages_);
  }
  return table;
}

void Problem::prepare() const {
  demo::call([&](quern_error* error) { return quern_attention_prepare(context_, &args_, error); });
}

void Problem::enqueue() const {
  demo::call([&](quern_error* error) { return quern_attention(context_, &args_, error); });
}

void Problem::check() const {
  const std::size_t elements =
      std::min<std::size_t>(count(shape_.batch * shape_.q_len * shape_.heads * shape_.dim), 65536);
  std::vector<std::uint16_t> out(elements, 0x7fc0);  // NaN
  gpu_.memory().upload(pools_.out, out.data(), elements * 2);
  enqueue();
  gpu_.synchronise();
  gpu_.memory().download(out.data(), pools_.out, elements * 2);
  bool all_zero = true;
  for (const std::uint16_t bits : out) {
    if ((bits & 0x7f80) == 0x7f80) throw std::runtime_error("attention wrote what is no number, or nothing");
    all_zero &= (bits & 0x7fff) == 0;
  }
  if (all_zero) throw std::runtime_error("attention wrote zeros only");
}

}  // namespace quern::bench
