// Every kernel template for every GPU target, compiled without a GPU; and what the kernels take of a multiprocessor.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "tests/ops/compiled.h"

namespace quern::test {
namespace {

// The first few have each template meet what makes it differ most; the rest are what else is a constant.
constexpr const char* kShapes[] = {
    "dtype=bf16 dim_k=128 group=4 page_size=16",
    "dtype=f16 dim_k=40 dim_v=24 group=3 page_size=0 cap=1 alibi=1 sinks=1 alignment=4",
    "dtype=bf16 dim_k=256 group=7 page_size=ragged",
    "dtype=bf16 dim_k=128 group=8 page_size=64 sinks=1",
    "dtype=f16 dim_k=64 group=1 page_size=32 alibi=1",
    "dtype=bf16 dim_k=192 dim_v=128 group=1 page_size=128",
    "dtype=bf16 dim_k=8 dim_v=256 group=128 page_size=256 cap=1",
};
constexpr std::size_t kFew = 3;

// The same of quantisations: each front and kind of scale with what differs most, held and long rows.
constexpr const char* kQuantisations[] = {
    "quantize * x=bf16 out=e4m3 front=none scale=group columns=1024",
    "quantize * x=bf16 out=e4m3 front=rmsnorm scale=group residual=1 weight=bf16 columns=7168",
    "quantize * x=bf16 out=e4m3 front=silu_mul scale=token columns=9216",
    "quantize * x=f16 out=e5m2 front=layernorm scale=token residual=1 weight=f32 bias=f32 access=4 tail=1 columns=0",
    "quantize * x=bf16 out=e4m3 front=none scale=find columns=1024",
    "quantize * x=bf16 out=e4m3 front=none scale=block",
    "dequantize * x=e4m3 out=bf16",
    "quantize * x=bf16 out=e4m3 front=none scale=token columns=7168",
    "quantize * x=bf16 out=e4m3 front=rmsnorm scale=token residual=1 weight=bf16 columns=7168",
    "quantize * x=bf16 out=e4m3 front=rmsnorm scale=token residual=1 weight=bf16 columns=32768",
    "quantize * x=bf16 out=none front=rmsnorm scale=none residual=1 weight=bf16 columns=4096",
    "quantize * x=bf16 out=e4m3 front=rmsnorm scale=find weight=bf16 columns=8192",
    "quantize * x=f32 out=e4m3 front=rmsnorm scale=given weight=f32 columns=16384",
    "quantize * x=f16 out=e5m2 front=rmsnorm scale=token weight=f32 access=4 tail=1 columns=128",
    "quantize * x=f32 out=e4m3 front=layernorm scale=group residual=1 weight=f32 bias=f32 columns=4096 tail=1",
    "quantize * x=bf16 out=e4m3 front=silu_mul scale=group columns=1024",
    "quantize * x=f16 out=e5m2 front=silu_mul scale=group access=2 tail=1 columns=256",
    "quantize * x=f32 out=e4m3 front=gelu_mul scale=group columns=512",
    "quantize * x=bf16 out=e4m3 front=gelu_tanh_mul scale=given access=8 columns=512",
    "quantize * x=f32 out=e4m3 front=none scale=block access=4 tail=1",
    "dequantize * x=e5m2 out=f32 access=4 tail=1",
};
constexpr std::size_t kFewQuantisations = 7;

// Of matrix products: each variant, and what else differs most; then the same again with other constants.
constexpr const char* kProducts[] = {
    "fp8_gemm * variant=tiny scales=vectors",
    "fp8_gemm * variant=small scales=blocks",
    "fp8_gemm * variant=medium scales=blocks gate=1",
    "fp8_gemm * variant=large scales=vectors",
    "grouped_fp8_gemm * variant=medium rows=contiguous scales=blocks",
    "gemm * variant=plain dtype=f32 out=f32",
    "gemm * variant=tiny dtype=f32 out=f32",
    "gemm * variant=large dtype=bf16 order_a=km order_b=kn",
    "fp8_gemm * variant=tiny scales=blocks a=e5m2 out=f16",
    "fp8_gemm * variant=tiny scales=vectors alignment=4 epilogue=acc+tensor0+col2 operand0=bf16 operand2=f32",
    "fp8_gemm * variant=small scales=vectors b=e5m2 gate=1",
    "fp8_gemm * variant=large scales=blocks gate=1 out=e4m3 out_scale=1",
    "fp8_gemm * variant=tiny scales=vectors gate=1 out=e5m2 out_scale=1 epilogue=gelu(gate)*up",
    "fp8_gemm * variant=medium scales=vectors out=e4m3 out_scale=1",
    "fp8_gemm * variant=large scales=vectors alignment=4 epilogue=silu(acc+col0)*row1 operand0=e4m3 operand1=e5m2",
    "grouped_fp8_gemm * variant=tiny rows=masked scales=blocks gate=1",
    "grouped_fp8_gemm * variant=small rows=contiguous scales=vectors",
    "grouped_fp8_gemm * variant=medium rows=masked scales=vectors gate=1",
    "gemm * variant=plain dtype=f32 order_a=km order_b=kn out=bf16 alignment=4",
    "gemm * variant=plain dtype=f32 out=f32 gate=1",
    "gemm * variant=small dtype=f16 order_b=kn out=f16",
    "gemm * variant=medium dtype=bf16 out=f32",
    "gemm * variant=medium dtype=f32 order_a=km out=f32",
    "gemm * variant=large dtype=f32 out=f32",
};
constexpr std::size_t kFewProducts = 8;

// The ops that have few constants: all that matters of each.
constexpr const char* kOthers[] = {
    "merge_state * dtype=f16",
    "merge_state * dtype=bf16",
    "merge_state * dtype=f32",
    "merge_states * dtype=bf16",
    "rope * dtype=bf16 dim=128",
    "rope * dtype=f16 dim=80 rotary_dim=20 interleaved=1 table=f32",
    "kv_append * dtype=bf16 dim_k=128 rotary_dim=128 q=bf16 norm=bf16",
    "kv_append * dtype=f16 cache=e4m3 scale=token dim_k=64 rotary_dim=64 q=e4m3 q_scale=token",
    "kv_append * dtype=bf16 cache=int8 scale=token dim_k=192 dim_v=128",
    "kv_copy_pages * chunk_bytes=16",
    "attention * variant=decode dtype=bf16 cache=e4m3 dim_k=128 group=4 page_size=16",
    "attention * variant=decode dtype=f16 cache=int8 scales=token dim_k=128 group=4 page_size=16",
    "attention * variant=decode dtype=bf16 out=e4m3 dim_k=128 group=4 page_size=16",
    "attention * variant=medium dtype=f16 cache=e5m2 scales=token dim_k=72 dim_v=40 page_size=0 mask=1",
    "attention * variant=large dtype=bf16 q=e4m3 cache=e4m3 dim_k=128 group=4 page_size=64",
    "attention * variant=large dtype=bf16 dim_k=128 group=4 page_size=16 mask=1",
    "attention * variant=wide dtype=bf16 dim_k=512 group=8 page_size=16",
    "mla_decode * variant=rows16 dtype=bf16",
    "mla_decode * variant=rows32 dtype=f16 cache=rows656 indices=positions cap=1",
    "mla_decode * variant=combine dtype=bf16",
    "mla_append * dtype=bf16 norm=bf16 queries=1 rotary_dim=64 interleaved=1",
    "mla_append * dtype=f16 norm=f32 cache=rows656 rotary_dim=64 table=f32 alignment=4",
    "mla_append * dtype=bf16 cache=e4m3_token d_latent=128 d_rope=0",
    "index_scores * variant=portable tokens=2",
    "index_scores * variant=portable dtype=e5m2 dim=256 head_rows=32 ragged=1 alignment=4",
    "moe_combine * dtype=bf16",
    "moe_combine * dtype=f32 alignment=4",
    "moe_combine * dtype=f16 out=f32",
    "sample * dtype=f32",
    "sample * dtype=bf16 edits=1",
    "sample * dtype=f16 edits=1 filters=1",
    "moe_route * stage=finish",
    "moe_route * stage=route dtype=f32 experts=64",
    "moe_route * stage=route dtype=bf16 experts=128",
    "moe_route * stage=route dtype=f32 experts=256",
    "moe_route * stage=route dtype=bf16 experts=256",
    "moe_route * stage=route dtype=f16 experts=512",
    "moe_route * stage=route dtype=f32 experts=1024",
};

// Every variant of the shapes, and the others.
std::string manifest_of_shapes(std::size_t count, std::size_t quantisations) {
  std::string text;
  for (std::size_t i = 0; i < quantisations; ++i) text += std::string(kQuantisations[i]) + "\n";
  for (std::size_t i = 0; i < count; ++i) {
    for (const char* variant : {"decode", "medium", "large"})
      text += std::string("attention * variant=") + variant + " " + kShapes[i] + "\n";
  }
  for (const char* other : kOthers) text += std::string(other) + "\n";
  for (const std::string& line : ForEveryTarget::lines()) text += line + "\n";
  return text;
}

void print_resources(quern_context* context, const std::string& target, const std::vector<Warmed>& warmed) {
  std::printf("%-9s %4s %6s %6s %8s  %s\n", "target", "regs", "local", "static", "ms", "kernel");
  each_entry(context, target, warmed, [&](const quern_entry& entry) {
    const std::string constants = constants_of(entry);
    std::printf("%-9s %4d %6d %6d %8.0f  %s%s\n", entry.target, entry.registers, entry.local_bytes, entry.shared_bytes,
                entry.compile_ms, entry.entry_name, constants.c_str());
    if (std::string(entry.entry_name) == "quern_attention_decode" && target.starts_with("sm_")) {
      EXPECT_GE(entry.registers, 1);
      EXPECT_LE(entry.local_bytes, 64) << "decode spills: " << constants;
    }
    if (std::string(entry.entry_name) == "quern_attention_wide" && target.starts_with("sm_")) {
      EXPECT_EQ(entry.local_bytes, 0) << "wide heads spill: " << constants;
    }
    // What moves bytes at the memory's speed has no registers to spill: whole vectors of 16 bits in rows of common
    // length.
    if (std::string(entry.op) == "quantize" && target == "sm_90a" && constants.find("IN=bf16 ") != std::string::npos &&
        constants.find("TEAM=1024 ") == std::string::npos) {
      EXPECT_LE(entry.local_bytes, 32) << "quantize spills: " << constants;
    }
    for (const char* op : {"rmsnorm", "norm", "norm_backward", "reduce", "scatter", "sort", "histogram", "conv1d",
                           "conv2d", "fft", "nms", "quantized_gemm"}) {
      if (std::string(entry.op) != op || target != "sm_90a") continue;
      // rmsnorm may keep two registers in memory.
      EXPECT_LE(entry.local_bytes, entry.op == std::string("rmsnorm") ? 8 : 0) << op << " spills: " << constants;
    }
  });
}

// All of the lists for the target of the machines in use; what sets the others apart is the room they have, which the
// first few show. QUERN_TEST_LONG=1 compiles all for every target, some five minutes of one processor more.
bool takes_all(const std::string& target) { return target == "sm_90a" || std::getenv("QUERN_TEST_LONG") != nullptr; }

class Targets : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Nvrtc, Targets, testing::Values("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"),
                         [](const testing::TestParamInfo<const char*>& target) { return std::string(target.param); });
INSTANTIATE_TEST_SUITE_P(Hiprtc, Targets, testing::Values("gfx90a"),
                         [](const testing::TestParamInfo<const char*>& target) { return std::string(target.param); });

TEST_P(Targets, TakeEveryTemplate) {
  if (device_kind() != Kind::host) GTEST_SKIP() << "compiled once, where the device is the host";
  const std::string target = GetParam();
  const Context context = compiling_context();
  std::string why;
  if (!has_compiler(context.get(), target, &why)) GTEST_SKIP() << why;
  const bool all = takes_all(target);
  const std::size_t count = all ? std::size(kShapes) : kFew,
                    quantisations = all ? std::size(kQuantisations) : kFewQuantisations;
  const std::vector<Warmed> warmed = warm(context.get(), {target}, manifest_of_shapes(count, quantisations));
  EXPECT_EQ(warmed.size(), 3 * count + std::size(kOthers) + ForEveryTarget::lines().size() + quantisations);
  expect_compiled(warmed);
  print_resources(context.get(), target, warmed);
}

TEST_P(Targets, TakeEveryProduct) {
  if (device_kind() != Kind::host) GTEST_SKIP() << "compiled once, where the device is the host";
  const std::string target = GetParam();
  const Context context = compiling_context();
  std::string why;
  if (!has_compiler(context.get(), target, &why)) GTEST_SKIP() << why;
  const bool all = takes_all(target);
  const std::size_t count = all ? std::size(kProducts) : kFewProducts;
  std::string manifest;
  for (std::size_t i = 0; i < count; ++i) manifest += std::string(kProducts[i]) + "\n";
  const std::vector<Warmed> warmed = warm(context.get(), {target}, manifest);
  EXPECT_EQ(warmed.size(), count);
  expect_compiled(warmed);
}

TEST(TargetsWithWarpgroups, TakeLatentAttentionWithoutSpills) {
  if (device_kind() != Kind::host) GTEST_SKIP() << "compiled once, where the device is the host";
  const Context context = compiling_context();
  std::string why;
  if (!has_compiler(context.get(), "sm_90a", &why)) GTEST_SKIP() << why;
  const std::vector<Warmed> warmed =
      warm(context.get(), {"sm_90a"},
           "mla_decode * variant=rows64 dtype=bf16\n"
           "mla_decode * variant=rows64 dtype=f16 cap=1 page_rows=16\n"
           "mla_decode * variant=gather64 dtype=bf16 cache=plain indices=slots\n"
           "mla_decode * variant=gather64 dtype=bf16 cache=e4m3_tensor\n"
           "mla_decode * variant=gather64 dtype=f16 cap=1 cache=e4m3_token\n"
           "mla_decode * variant=gather64 dtype=bf16 cache=rows656 indices=positions\n"
           "mla_decode * variant=few16 dtype=bf16 cache=e4m3_tensor\n"
           "mla_decode * variant=few16 dtype=bf16 cache=plain\n"
           "mla_decode * variant=gather64 dtype=bf16 cache=rows656 indices=positions paired=1\n"
           "mla_decode * variant=few16 dtype=f16 cap=1 cache=e4m3_token indices=slots\n"
           "index_scores * variant=warpgroups tokens=8 ragged=1\n"
           "index_scores * variant=warpgroups tokens=1 page_rows=16\n");
  EXPECT_EQ(warmed.size(), 12u);
  expect_compiled(warmed);
  each_entry(context.get(), "sm_90a", warmed, [](const quern_entry& entry) {
    // Where keys are gathered, one of the warps that do it schedules besides: what that needs may be spilled. So may
    // the addresses that queries of 8 bits go to, once a task, where three warpgroups multiply.
    const std::string constants = constants_of(entry);
    const bool gathered = constants.find("GATHERED=1") != std::string::npos;
    const bool three =
        constants.find("ROWS=16") != std::string::npos && constants.find("CACHE_KIND=0") == std::string::npos;
    EXPECT_LE(entry.local_bytes, gathered ? 96 : three ? 32 : 0) << constants;
  });
}

TEST(TargetsWithWarpgroups, TakeAttention) {
  if (device_kind() != Kind::host) GTEST_SKIP() << "compiled once, where the device is the host";
  const Context context = compiling_context();
  std::string why;
  if (!has_compiler(context.get(), "sm_90a", &why)) GTEST_SKIP() << why;
  const std::vector<Warmed> warmed =
      warm(context.get(), {"sm_90a"},
           "attention * variant=warpgroups dtype=bf16 dim_k=128 group=4 page_size=16\n"
           "attention * variant=warpgroups dtype=f16 dim_k=192 dim_v=128 page_size=ragged\n"
           "attention * variant=warpgroups dtype=bf16 q=e4m3 cache=e4m3 dim_k=128 group=4 page_size=64\n"
           "attention * variant=warpgroups dtype=bf16 dim_k=64 group=8 page_size=16 mask=1\n"
           "attention * variant=warpgroups dtype=bf16 cache=e4m3 dim_k=128 group=4 page_size=16\n"
           "attention * variant=warpgroups dtype=f16 cache=int8 scales=token dim_k=128 group=4 page_size=64\n"
           "attention * variant=warpgroups dtype=f16 cache=e5m2 dim_k=64 group=8 page_size=ragged mask=1 cap=1\n"
           "attention * variant=warpgroups dtype=bf16 cache=e4m3 scales=token dim_k=256 page_size=16\n"
           "attention * variant=streams dtype=bf16 dim_k=128 group=4 page_size=16\n"
           "attention * variant=streams dtype=bf16 cache=e4m3 dim_k=128 group=4 page_size=16\n"
           "attention * variant=streams dtype=bf16 cache=e4m3 dim_k=128 group=4 page_size=16 out=e4m3\n"
           "attention * variant=streams dtype=f16 cache=int8 scales=token dim_k=128 group=8 page_size=64\n"
           "attention * variant=streams dtype=bf16 q=e4m3 cache=e5m2 dim_k=64 group=8 page_size=0 mask=1 cap=1\n"
           "attention * variant=streams dtype=f16 q=e5m2 dim_k=96 dim_v=64 page_size=0\n"
           "attention * variant=streams dtype=bf16 dim_k=256 page_size=ragged alibi=1 sinks=1\n"
           "attention * variant=wide dtype=f16 dim_k=1024 page_size=ragged mask=1 cap=1 alibi=1 sinks=1\n"
           "attention * variant=wide_few dtype=bf16 dim_k=512 dim_v=264 group=4 page_size=0\n"
           "attention * variant=wide_pairs dtype=bf16 dim_k=512 group=4 page_size=64\n"
           "attention * variant=wide_pairs dtype=f16 dim_k=1024 page_size=ragged mask=1 cap=1 alibi=1 sinks=1\n");
  EXPECT_EQ(warmed.size(), 19u);
  expect_compiled(warmed);
  print_resources(context.get(), "sm_90a", warmed);
  each_entry(context.get(), "sm_90a", warmed, [](const quern_entry& entry) {
    const bool streams = std::string(entry.entry_name) == "quern_attention_streams";
    const bool portable = std::string(entry.entry_name) == "quern_attention_wide";
    const bool large = constants_of(entry).find("HEAD_DIM_K=256 ") != std::string::npos;
    // By pairs what is kept from one item to the next may be spilled.
    const bool pairs = std::string(entry.entry_name) == "quern_attention_wide_sm90";
    EXPECT_LE(entry.local_bytes, large ? 160 : pairs ? 96 : streams || portable ? 0 : 48) << constants_of(entry);
    // Such as (C7512): "wgmma.mma_async instructions are serialized due to insufficient register resources".
    EXPECT_STREQ(entry.log, "") << constants_of(entry);
  });
}

// Where there are tensor maps, and room for the stages; all registers are taken, and none may be spilled.
class TargetsWithTensorMaps : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Nvrtc, TargetsWithTensorMaps, testing::Values("sm_90", "sm_90a", "sm_100a"),
                         [](const testing::TestParamInfo<const char*>& target) { return std::string(target.param); });

TEST_P(TargetsWithTensorMaps, TakeMappedProductsWithoutSpills) {
  if (device_kind() != Kind::host) GTEST_SKIP() << "compiled once, where the device is the host";
  const std::string target = GetParam();
  const Context context = compiling_context();
  std::string why;
  if (!has_compiler(context.get(), target, &why)) GTEST_SKIP() << why;
  const std::vector<Warmed> warmed = warm(context.get(), {target},
                                          "gemm * variant=tma_mma_256x192 dtype=bf16\n"
                                          "gemm * variant=tma_mma_128x256 dtype=bf16\n"
                                          "gemm * variant=tma_mma_256x192 dtype=f16 out=f32\n"
                                          "gemm * variant=tma_mma_128x256 dtype=f16 gate=1\n");
  EXPECT_EQ(warmed.size(), 4u);
  expect_compiled(warmed);
  print_resources(context.get(), target, warmed);
  each_entry(context.get(), target, warmed,
             [&](const quern_entry& entry) { EXPECT_EQ(entry.local_bytes, 0) << constants_of(entry); });
}

}  // namespace
}  // namespace quern::test
