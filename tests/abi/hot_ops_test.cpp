// A hot call of any op neither allocates nor locks, from the C ABI to the driver: in front of a libcuda that does
// nothing, on a device that it says is a Hopper.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "bindings/demo/call.h"
#include "bindings/demo/tensor.h"
#include "tests/abi/support.h"
#include "tests/bench/counts.h"
#include "tests/drivers/fake/cuda.h"

namespace quern::test {
namespace {

using bench::Counts;
using demo::kBf16, demo::kF32, demo::kI32;
constexpr DLDataType kE4m3{kDLFloat8_e4m3fn, 8, 1};
constexpr int kCalls = 100;

// Memory that nobody reads.
void* memory(std::uintptr_t number) {
  return reinterpret_cast<void*>((number + 1) << 36);  // NOLINT(performance-no-int-to-ptr)
}
struct Tensor : demo::Tensor {
  Tensor(std::uintptr_t number, DLDataType dtype, std::initializer_list<std::int64_t> shape)
      : demo::Tensor(memory(number), {kDLCUDA, 0}, dtype, shape) {}
};

template <class Args>
Args args_of() {
  auto args = sized<Args>();
  args.stream = jit::cuda::fake::stream_of(0);
  args.workspace = memory(0);
  args.workspace_size = std::uint64_t{1} << 32;
  return args;
}

class HotOps : public testing::Test {
 protected:
  void SetUp() override {
    // As a serving thread has it: the context of its device is current.
    void* const library = dlopen((std::string(QUERN_TEST_FAKE_CUDA) + "/libcuda.so.1").c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    using SetCurrent = void(jit::cuda::Context);
    reinterpret_cast<SetCurrent*>(dlsym(library, "fake_cuda_set_current"))(jit::cuda::fake::context_of(0));
    const Counts before = bench::counts();
    context_ = context_of(0);
    ASSERT_NE(context_, nullptr);
    const Counts made = bench::counts() - before;
    ASSERT_GT(made.allocations, 0u) << "libquern's allocations are not seen at all";
    ASSERT_GT(made.locks, 0u) << "nor its locks";
  }

  Context context_of(std::int32_t device) const {
    const char* const fake = QUERN_TEST_FAKE_CUDA;
    return make_context(folder_, kDLCUDA, [&](quern_context_options& o) {
      o.device_id = device;
      o.search_dirs = &fake;
      o.search_dir_count = 1;
    });
  }
  quern_context* context() const { return context_.get(); }

  // One call, which readies the kernels, and many that are counted.
  void expect_free(const char* what, const std::function<std::int32_t(quern_context*, quern_error*)>& call) {
    SCOPED_TRACE(what);
    auto error = sized<quern_error>();
    // The first may be done by a kernel that is compiled sooner than its own.
    ASSERT_EQ(call(context_.get(), &error), QUERN_OK) << error.text;
    ASSERT_EQ(quern_wait(context_.get(), 120000, &error), QUERN_OK) << error.text;
    ASSERT_EQ(call(context_.get(), &error), QUERN_OK) << error.text;
    std::int32_t failed = 0;
    const Counts before = bench::counts();
    for (int i = 0; i < kCalls; ++i) failed |= call(context_.get(), &error);
    const Counts during = bench::counts() - before;
    EXPECT_EQ(failed, 0) << error.text;
    EXPECT_EQ(during.allocations, 0u);
    EXPECT_EQ(during.locks, 0u);
  }

  void expect_refused(const std::string& text, const std::function<std::int32_t(quern_context*, quern_error*)>& call) {
    auto error = sized<quern_error>();
    EXPECT_EQ(call(context_.get(), &error), QUERN_INVALID);
    EXPECT_NE(std::string(error.text).find(text), std::string::npos) << error.text;
  }

 private:
  Folder folder_;
  Context context_;
};

// Rows for each variant that a product has: streaming, shared tiles, Hopper's.
TEST_F(HotOps, Fp8Gemm) {
  constexpr std::int64_t kN = 4096, kK = 7168;
  auto epilogue = sized<quern_epilogue>();
  epilogue.flags = QUERN_EPILOGUE_GATE;
  const Tensor bias(6, kBf16, {kN});
  epilogue.bias = bias;
  for (const std::int64_t m : {1, 40, 4096}) {
    const Tensor a(1, kE4m3, {m, kK}), b(2, kE4m3, {kN, kK}), out(5, kBf16, {m, kN}), half(5, kBf16, {m, kN / 2});
    const Tensor rows(3, kF32, {m}), columns(4, kF32, {kN}), row_blocks(3, kF32, {m, kK / 128}),
        blocks(4, kF32, {kN / 128, kK / 128});
    auto args = args_of<quern_fp8_gemm_args>();
    args.a = a, args.b = b, args.out = out;
    args.scale_a = rows, args.scale_b = columns;
    expect_free("rows and columns", [&](quern_context* c, quern_error* e) { return quern_fp8_gemm(c, &args, e); });
    args.scale_a = row_blocks, args.scale_b = blocks;
    args.out = half;
    args.epilogue = &epilogue;
    expect_free("blocks, gated, with a bias",
                [&](quern_context* c, quern_error* e) { return quern_fp8_gemm(c, &args, e); });
  }
}

TEST_F(HotOps, QuantizedGemm) {
  constexpr std::int64_t kN = 4096, kK = 2048;
  constexpr DLDataType kU8{kDLUInt, 8, 1}, kF16{kDLFloat, 16, 1};
  for (const std::int64_t m : {1, 30, 60, 1000}) {
    const Tensor a(1, kBf16, {m, kK}), b(2, kU8, {kN, kK / 2}), scale(3, kF16, {kN, kK / 128}), out(4, kBf16, {m, kN});
    auto args = args_of<quern_quantized_gemm_args>();
    args.a = a, args.b = b, args.scale_b = scale, args.out = out, args.b_format = QUERN_QUANTIZED_INT4;
    expect_free("4 bits", [&](quern_context* c, quern_error* e) { return quern_quantized_gemm(c, &args, e); });
  }
}

TEST_F(HotOps, Fp8GemmWithAnExpression) {
  constexpr std::int64_t kM = 64, kN = 512, kK = 256;
  const Tensor a(1, kE4m3, {kM, kK}), b(2, kE4m3, {kN, kK}), rows(3, kF32, {kM}), columns(4, kF32, {kN}),
      out(5, kE4m3, {kM, kN});
  const Tensor column(6, kBf16, {kN}), out_scale(7, kF32, {kM, kN / 128});
  const DLTensor* operands[] = {column};
  const float scalars[] = {0.5f};
  auto epilogue = sized<quern_epilogue>();
  epilogue.operands = operands, epilogue.operand_count = 1;
  epilogue.scalars = scalars, epilogue.scalar_count = 1;
  epilogue.out_scale = out_scale;
  auto args = args_of<quern_fp8_gemm_args>();
  args.a = a, args.b = b, args.out = out, args.scale_a = rows, args.scale_b = columns;
  args.epilogue = &epilogue;
  expect_free("8-bit results of an expression", [&](quern_context* c, quern_error* e) {
    if (epilogue.expression == nullptr) {
      if (const std::int32_t status = quern_expression_create(c, "silu(acc + col0) * scalar0", &epilogue.expression, e))
        return status;
    }
    return quern_fp8_gemm(c, &args, e);
  });
}

TEST_F(HotOps, GroupedFp8Gemm) {
  constexpr std::int64_t kExperts = 8, kRows = 1024, kN = 512, kK = 256;
  const Tensor b(2, kE4m3, {kExperts, kN, kK}), scale_b(4, kF32, {kExperts, kN / 128, kK / 128}), status(8, kI32, {1});
  const Tensor a(1, kE4m3, {kRows, kK}), scale_a(3, kF32, {kRows, kK / 128}), out(5, kBf16, {kRows, kN});
  const Tensor offsets(6, kI32, {kExperts + 1}), indices(7, kI32, {kRows});
  auto args = args_of<quern_grouped_fp8_gemm_args>();
  args.a = a, args.b = b, args.scale_a = scale_a, args.scale_b = scale_b, args.out = out, args.status = status;
  args.offsets = offsets;
  expect_free("contiguous", [&](quern_context* c, quern_error* e) { return quern_grouped_fp8_gemm(c, &args, e); });
  args.indices = indices;
  expect_free("gathered", [&](quern_context* c, quern_error* e) { return quern_grouped_fp8_gemm(c, &args, e); });
  const Tensor slots(1, kE4m3, {kExperts, 32, kK}), slot_scales(3, kF32, {kExperts, 32, kK / 128}),
      slot_out(5, kBf16, {kExperts, 32, kN});
  const Tensor counts(6, kI32, {kExperts});
  args.a = slots, args.scale_a = slot_scales, args.out = slot_out;
  args.offsets = nullptr, args.indices = nullptr, args.counts = counts;
  expect_free("masked", [&](quern_context* c, quern_error* e) { return quern_grouped_fp8_gemm(c, &args, e); });
}

TEST_F(HotOps, Gemm) {
  for (const std::int64_t m : {1, 4096}) {
    const Tensor a(1, kBf16, {2, m, 512}), b(2, kBf16, {2, 1024, 512}), out(3, kBf16, {2, m, 1024});
    auto args = args_of<quern_gemm_args>();
    args.a = a, args.b = b, args.out = out;
    expect_free("batched", [&](quern_context* c, quern_error* e) { return quern_gemm(c, &args, e); });
  }
}

TEST_F(HotOps, QuantizeAndBack) {
  constexpr std::int64_t kRows = 300, kN = 1024;
  const Tensor x(1, kBf16, {kRows, kN}), codes(2, kE4m3, {kRows, kN}), groups(3, kF32, {kRows, kN / 128}),
      one(3, kF32, {1});
  const Tensor residual(4, kBf16, {kRows, kN}), weight(5, kBf16, {kN}), back(6, kF32, {kRows, kN});
  auto args = args_of<quern_quantize_args>();
  args.x = x, args.out = codes, args.scale = groups, args.scale_kind = QUERN_SCALE_GROUP;
  args.front = QUERN_FRONT_RMSNORM, args.eps = 1e-6f;
  args.residual = args.residual_out = residual, args.weight = weight;
  expect_free("a norm, in groups", [&](quern_context* c, quern_error* e) { return quern_quantize(c, &args, e); });
  args = args_of<quern_quantize_args>();
  args.x = x, args.out = codes, args.scale = one, args.scale_kind = QUERN_SCALE_TENSOR;
  expect_free("a tensor's scale, found", [&](quern_context* c, quern_error* e) { return quern_quantize(c, &args, e); });
  auto inverse = args_of<quern_dequantize_args>();
  inverse.x = codes, inverse.scale = groups, inverse.out = back, inverse.scale_kind = QUERN_SCALE_GROUP;
  expect_free("back", [&](quern_context* c, quern_error* e) { return quern_dequantize(c, &inverse, e); });
}

TEST_F(HotOps, MixtureOfExperts) {
  constexpr std::int64_t kExperts = 64, kTopK = 4;
  for (const std::int64_t tokens : {8, 1000}) {
    const Tensor logits(1, kF32, {tokens, kExperts}), weights(2, kF32, {tokens, kTopK}), ids(3, kI32, {tokens, kTopK});
    const Tensor offsets(4, kI32, {kExperts + 1}), indices(5, kI32, {tokens * kTopK}),
        positions(6, kI32, {tokens, kTopK});
    auto route = args_of<quern_moe_route_args>();
    route.logits = logits, route.weights = weights, route.ids = ids;
    route.offsets = offsets, route.indices = indices, route.positions = positions;
    route.top_k = kTopK;
    expect_free("moe_route", [&](quern_context* c, quern_error* e) { return quern_moe_route(c, &route, e); });
    const Tensor x(7, kBf16, {tokens * kTopK, 256}), out(8, kBf16, {tokens, 256});
    auto combine = args_of<quern_moe_combine_args>();
    combine.x = x, combine.positions = positions, combine.weights = weights, combine.out = out;
    expect_free("moe_combine", [&](quern_context* c, quern_error* e) { return quern_moe_combine(c, &combine, e); });
  }
}

TEST_F(HotOps, Sample) {
  constexpr std::int64_t kRows = 32, kVocab = 128256;
  const Tensor logits(1, kF32, {kRows, kVocab}), ids(2, kI32, {kRows}), each(3, kF32, {kRows}), ks(4, kI32, {kRows});
  const Tensor tokens(5, kI32, {kRows, 100}), mask(6, kI32, {kRows, (kVocab + 31) / 32});
  auto args = args_of<quern_sample_args>();
  args.logits = logits, args.ids = ids;
  expect_free("the whole row", [&](quern_context* c, quern_error* e) { return quern_sample(c, &args, e); });
  args.temperatures = each, args.top_ps = each, args.top_ks = ks;
  expect_free("filters", [&](quern_context* c, quern_error* e) { return quern_sample(c, &args, e); });
  args.repetitions = each, args.output_tokens = tokens, args.prompt_mask = mask;
  expect_free("penalties", [&](quern_context* c, quern_error* e) { return quern_sample(c, &args, e); });
  args.typical_ps = each;
  expect_free("rare filters", [&](quern_context* c, quern_error* e) { return quern_sample(c, &args, e); });
}

TEST_F(HotOps, Attention) {
  const Tensor q(1, kBf16, {4, 32, 128}), k(2, kBf16, {64, 16, 4, 128}), v(3, kBf16, {64, 16, 4, 128}),
      out(4, kBf16, {4, 32, 128});
  const Tensor lse(5, kF32, {4, 32}), lengths(6, kI32, {4}), table(7, kI32, {4, 64}), joined(8, kBf16, {4, 32, 128});
  auto args = args_of<quern_attention_args>();
  args.flags = QUERN_ATTENTION_CAUSAL;
  args.q = q, args.k = k, args.v = v, args.out = out, args.lse = lse, args.lengths = lengths, args.page_table = table;
  args.max_kv_len = 1024;
  expect_free("attention", [&](quern_context* c, quern_error* e) { return quern_attention(c, &args, e); });
  auto merge = args_of<quern_merge_state_args>();
  merge.out_a = out, merge.lse_a = lse, merge.out_b = q, merge.lse_b = lse, merge.out = joined;
  expect_free("merge_state", [&](quern_context* c, quern_error* e) { return quern_merge_state(c, &merge, e); });
}

TEST_F(HotOps, CacheOf8Bits) {
  const Tensor q(1, kBf16, {4, 32, 128}), new_k(2, kBf16, {4, 4, 128}), new_v(3, kBf16, {4, 4, 128}),
      k(4, kE4m3, {64, 16, 4, 128}), v(5, kE4m3, {64, 16, 4, 128}), k_scale(6, kF32, {64, 16, 4}),
      v_scale(7, kF32, {64, 16, 4});
  const Tensor lengths(8, kI32, {4}), table(9, kI32, {4, 64}), positions(10, kI32, {4}), out(11, kBf16, {4, 32, 128});
  quern_rope_options rope{};
  rope.size = sizeof(rope);
  rope.scaling = QUERN_ROPE_YARN, rope.factor = 8.0, rope.original_positions = 4096;
  auto turn = args_of<quern_rope_args>();
  turn.q = q, turn.k = new_k, turn.positions = positions, turn.rope = &rope;
  expect_free("rope", [&](quern_context* c, quern_error* e) { return quern_rope(c, &turn, e); });
  auto append = args_of<quern_kv_append_args>();
  append.k = new_k, append.v = new_v, append.k_cache = k, append.v_cache = v, append.q = q;
  append.k_scale = k_scale, append.v_scale = v_scale, append.page_table = table, append.lengths = lengths;
  append.rope = &rope;
  expect_free("kv_append", [&](quern_context* c, quern_error* e) { return quern_kv_append(c, &append, e); });
  auto copy = args_of<quern_kv_copy_pages_args>();
  copy.k = k, copy.v = v, copy.k_scale = k_scale, copy.v_scale = v_scale;
  copy.sources = positions, copy.destinations = lengths;
  expect_free("kv_copy_pages", [&](quern_context* c, quern_error* e) { return quern_kv_copy_pages(c, &copy, e); });
  auto args = args_of<quern_attention_args>();
  args.q = q, args.k = k, args.v = v, args.k_scale = k_scale, args.v_scale = v_scale, args.out = out;
  args.lengths = lengths, args.page_table = table, args.max_kv_len = 1024;
  expect_free("attention", [&](quern_context* c, quern_error* e) { return quern_attention(c, &args, e); });
  const Tensor parts(12, kBf16, {3, 4, 32, 128}), lses(13, kF32, {3, 4, 32});
  auto merge = args_of<quern_merge_states_args>();
  merge.parts = parts, merge.part_lses = lses, merge.out = out;
  expect_free("merge_states", [&](quern_context* c, quern_error* e) { return quern_merge_states(c, &merge, e); });
}

TEST_F(HotOps, Norms) {
  const Tensor x(1, kBf16, {64, 4096}), residual(2, kBf16, {64, 4096}), scale(3, kF32, {4, 4096}),
      shift(4, kF32, {4, 4096}), out(5, kBf16, {64, 4096}), gradient(6, kF32, {4096});
  auto args = args_of<quern_norm_args>();
  args.x = x, args.residual = residual, args.residual_out = residual, args.out = out;
  args.scale = scale, args.shift = shift, args.eps = 1e-6f;
  expect_free("norm", [&](quern_context* c, quern_error* e) { return quern_norm(c, &args, e); });
  auto back = args_of<quern_norm_backward_args>();
  back.x = x, back.dout = residual, back.dx = out, back.dweight = gradient, back.eps = 1e-6f;
  expect_free("norm_backward", [&](quern_context* c, quern_error* e) { return quern_norm_backward(c, &back, e); });
}

TEST_F(HotOps, Reduce) {
  const Tensor x(1, kBf16, {8, 4, 40000}), sums(2, kF32, {8, 40000}), all(3, kF32, {1});
  auto args = args_of<quern_reduce_args>();
  args.x = x, args.out = sums, args.axes = 1u << 1;
  expect_free("reduce of columns", [&](quern_context* c, quern_error* e) { return quern_reduce(c, &args, e); });
  args.out = all, args.axes = 0;
  expect_free("reduce of all", [&](quern_context* c, quern_error* e) { return quern_reduce(c, &args, e); });
}

TEST_F(HotOps, PointwiseAndCopy) {
  const Tensor x(1, kBf16, {64, 3, 4096}), y(2, kBf16, {3, 1}), out(3, kF32, {64, 3, 4096}),
      turned(4, kBf16, {4096, 192});
  auto args = args_of<quern_pointwise_args>();
  const DLTensor* const operands[] = {x, y};
  const float factor = 2.0f;
  args.operands = operands, args.operand_count = 2, args.out = out, args.scalars = &factor, args.scalar_count = 1;
  expect_free("pointwise", [&](quern_context* c, quern_error* e) {
    const std::int32_t status =
        args.expression == nullptr
            ? quern_expression_create(c, "silu(tensor0)*tensor1+scalar0*number(index1)", &args.expression, e)
            : QUERN_OK;
    return status == QUERN_OK ? quern_pointwise(c, &args, e) : status;
  });
  std::int64_t shape[] = {4096, 192}, strides[] = {1, 4096};
  DLTensor from = *static_cast<const DLTensor*>(x);
  from.ndim = 2, from.shape = shape, from.strides = strides;
  auto copy = args_of<quern_copy_args>();
  const DLTensor* const inputs[] = {&from, nullptr};
  const Tensor filled(5, kBf16, {77});
  const DLTensor* const outputs[] = {turned, filled};
  copy.inputs = inputs, copy.outputs = outputs, copy.input_count = copy.output_count = 2, copy.fill = 1.5;
  expect_free("copy", [&](quern_context* c, quern_error* e) { return quern_copy(c, &copy, e); });
}

TEST_F(HotOps, Rmsnorm) {
  const Tensor x(1, kBf16, {64, 4096}), residual(2, kBf16, {64, 4096}), weight(3, kBf16, {4096}),
      out(4, kBf16, {64, 4096});
  auto args = args_of<quern_rmsnorm_args>();
  args.x = x, args.residual = residual, args.weight = weight, args.out = out, args.residual_out = residual;
  args.eps = 1e-6f;
  expect_free("rmsnorm", [&](quern_context* c, quern_error* e) { return quern_rmsnorm(c, &args, e); });
}

// A call that is launched as it was kept is refused where the call itself is: in a forked child, and with what is
// another device's.
class RepeatedCall : public HotOps {
 protected:
  void SetUp() override {
    HotOps::SetUp();
    args.x = x, args.out = out, args.weight = weight, args.eps = 1e-6f;
    for (int i = 0; i < 4; ++i) ASSERT_EQ(quern_rmsnorm(context(), &args, nullptr), QUERN_OK);
  }
  static std::uint64_t loaded(const quern_context* context) {
    auto stats = sized<quern_stats>();
    EXPECT_EQ(quern_get_stats(context, &stats, nullptr), QUERN_OK);
    return stats.kernels_loaded;
  }

  const Tensor x{1, kBf16, {16, 4096}}, out{3, kBf16, {16, 4096}}, weight{2, kBf16, {4096}};
  quern_rmsnorm_args args = args_of<quern_rmsnorm_args>();
};

TEST_F(RepeatedCall, IsRefusedInAForkedChild) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(quern_rmsnorm(context(), &args, nullptr));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), QUERN_FORKED);
  EXPECT_EQ(quern_rmsnorm(context(), &args, nullptr), QUERN_OK);
}

TEST_F(RepeatedCall, ReadiesAnUnloadedKernelAnew) {
  ASSERT_EQ(loaded(context()), 1u);
  for (int round = 0; round < 3; ++round) {
    std::uint64_t unloaded = 0;
    ASSERT_EQ(quern_unload(context(), "rmsnorm", &unloaded, nullptr), QUERN_OK);
    EXPECT_EQ(unloaded, 1u);
    ASSERT_EQ(loaded(context()), 0u);
    for (int i = 0; i < 4; ++i) ASSERT_EQ(quern_rmsnorm(context(), &args, nullptr), QUERN_OK);
    EXPECT_EQ(loaded(context()), 1u);
  }
}

TEST_F(RepeatedCall, OfAnotherContextIsAnotherCall) {
  const Context other = context_of(1);
  ASSERT_NE(other, nullptr);
  auto error = sized<quern_error>();
  EXPECT_EQ(quern_rmsnorm(other.get(), &args, &error), QUERN_INVALID);
  EXPECT_NE(std::string(error.text).find("the context is on CUDA:1"), std::string::npos) << error.text;
  DLTensor own_x = *static_cast<const DLTensor*>(x), own_out = *static_cast<const DLTensor*>(out),
           own_weight = *static_cast<const DLTensor*>(weight);
  own_x.device.device_id = own_out.device.device_id = own_weight.device.device_id = 1;
  auto own = args;
  own.x = &own_x, own.out = &own_out, own.weight = &own_weight, own.stream = jit::cuda::fake::stream_of(1);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(quern_rmsnorm(other.get(), &own, &error), QUERN_OK) << error.text;
    EXPECT_EQ(quern_rmsnorm(context(), &args, &error), QUERN_OK) << error.text;
    EXPECT_EQ(quern_rmsnorm(context(), &own, &error), QUERN_INVALID);
  }
  args.stream = own.stream;
  EXPECT_EQ(quern_rmsnorm(context(), &args, &error), QUERN_INVALID);
  EXPECT_NE(std::string(error.text).find("stream belongs to device 1"), std::string::npos) << error.text;
}

// A hot call does not ask whose its stream is: it is the launch that fails, and then it is told which device has it.
TEST_F(HotOps, AStreamOfAnotherDeviceIsNamed) {
  const Tensor x(1, kBf16, {16, 4096}), out(3, kBf16, {16, 4096}), weight(2, kBf16, {4096});
  auto args = args_of<quern_rmsnorm_args>();
  args.x = x, args.out = out, args.weight = weight, args.eps = 1e-6f;
  args.stream = jit::cuda::fake::stream_of(1);
  expect_refused("stream belongs to device 1; the context is on device 0",
                 [&](quern_context* c, quern_error* e) { return quern_rmsnorm(c, &args, e); });
}

// Ops of several launches, two of which sort.
TEST_F(HotOps, RowsAndBoxes) {
  const Tensor x(1, kBf16, {8192, 512}), ids(2, kI32, {8192}), table(3, kF32, {32000, 512});
  auto scatter = args_of<quern_scatter_args>();
  scatter.x = x, scatter.ids = ids, scatter.out = table, scatter.flags = QUERN_SCATTER_ADD;
  expect_free("scatter", [&](quern_context* c, quern_error* e) { return quern_scatter(c, &scatter, e); });
  const Tensor keys(1, kF32, {2, 100000}), places(2, kI32, {2, 100000});
  auto sort = args_of<quern_sort_args>();
  sort.keys = sort.keys_out = keys, sort.values_out = places;
  expect_free("sort", [&](quern_context* c, quern_error* e) { return quern_sort(c, &sort, e); });
  const Tensor counts(3, kI32, {2, 256});
  auto histogram = args_of<quern_histogram_args>();
  histogram.x = places, histogram.counts = counts;
  expect_free("histogram", [&](quern_context* c, quern_error* e) { return quern_histogram(c, &histogram, e); });
  const Tensor boxes(1, kF32, {3, 1000, 4}), scores(2, kF32, {3, 1000}), kept(3, kI32, {3, 100});
  auto nms = args_of<quern_nms_args>();
  nms.boxes = boxes, nms.scores = scores, nms.ids = kept, nms.iou_threshold = 0.5f;
  expect_free("nms", [&](quern_context* c, quern_error* e) { return quern_nms(c, &nms, e); });
}

TEST_F(HotOps, Conv1d) {
  const Tensor x(1, kBf16, {64, 4096}), weight(2, kBf16, {4096, 4}), state(3, kBf16, {64, 3, 4096}),
      out(4, kBf16, {64, 4096});
  auto args = args_of<quern_conv1d_args>();
  args.x = x, args.weight = weight, args.state = state, args.out = out;
  expect_free("conv1d", [&](quern_context* c, quern_error* e) { return quern_conv1d(c, &args, e); });
}

TEST_F(HotOps, Conv2d) {
  const Tensor x(1, kBf16, {2, 64, 28, 28}), weight(2, kBf16, {64, 64, 3, 3}), bias(3, kBf16, {64}),
      out(4, kBf16, {2, 64, 28, 28});
  auto args = args_of<quern_conv2d_args>();
  args.x = x, args.weight = weight, args.bias = bias, args.out = out, args.activation = QUERN_ACTIVATION_RELU;
  args.pad_top = args.pad_bottom = args.pad_left = args.pad_right = 1;
  expect_free("conv2d", [&](quern_context* c, quern_error* e) { return quern_conv2d(c, &args, e); });
}

TEST_F(HotOps, Fft) {
  const Tensor signals(1, kF32, {2, 16000}), window(2, kF32, {400}), power(3, kF32, {2, 101, 201});
  auto args = args_of<quern_fft_args>();
  args.x = signals, args.window = window, args.out = power, args.kind = QUERN_FFT_REAL, args.result = QUERN_FFT_POWER;
  args.hop = 160, args.pad_begin = args.pad_end = 200, args.padding = QUERN_FFT_REFLECT;
  expect_free("fft", [&](quern_context* c, quern_error* e) { return quern_fft(c, &args, e); });
}

}  // namespace
}  // namespace quern::test
