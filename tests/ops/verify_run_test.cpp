// quern_verify: a kernel whose image does not do what its key's text says is found; all others agree.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "cache/store.h"
#include "jit/compiler.h"
#include "jit/engine.h"
#include "jit/error.h"
#include "jit/key.h"
#include "jit/service.h"
#include "sources/manifest.h"
#include "sources/op.h"
#include "sources/verify/trial.h"
#include "sources/verify/verifier.h"
#include "tests/ops/device.h"

namespace quern::test {
namespace {

ops::Constants constants_of(const ops::Op& op, const jit::Spec& spec) {
  return op.constants != nullptr ? op.constants(spec) : op.unit(spec).constants;
}

class VerifyRun : public testing::Test {
 protected:
  void SetUp() override {
    if (device_kind() != Kind::host) GTEST_SKIP() << "what is planted is compiled for the host";
    std::string pattern = (std::filesystem::temp_directory_path() / "quern-verify-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  // Puts the kernel of a manifest's line into the cache, its source changed behind the key's back.
  void plant(const std::string& line, const std::string& from, const std::string& to,
             const std::string& pin = {}) const {
    jit::Service::Options where;
    where.store.folder = folder_.string();
    where.compilers.helper_path = QUERN_TEST_HELPER;
    jit::Service service(where);
    bool changed = false;
    jit::EngineOptions options;
    options.service = &service;
    options.describe = ops::describe;
    options.compiler_pin = pin;
    options.compile = [&](jit::CompileJob job) {
      if (const std::size_t at = job.source.find(from); !from.empty() && at != std::string::npos) {
        job.source.replace(at, from.size(), to);
        changed = true;
      }
      return service.compilers().compile(job);
    };
    jit::Engine engine(options);
    engine.warm(ops::to_spec(*ops::parse_line(line), jit::Target::parse("host")), false);
    EXPECT_EQ(changed, !from.empty()) << "the source has no such text: " << from;
  }

  // The same of all kernels that the calls need which launch it: many an op launches several.
  void plant_with_others(const char* text) const {
    plant(text, "", "");
    const ops::ManifestLine line = *ops::parse_line(text);
    const jit::Spec spec = ops::to_spec(line, jit::Target::parse("host"));
    const ops::Constants all = constants_of(*line.op, spec);
    const ops::verify::Given given(all);
    jit::Service::Options where;
    where.store.folder = folder_.string(), where.compilers.helper_path = QUERN_TEST_HELPER;
    jit::Service service(where);
    const std::unique_ptr<jit::Driver> driver = jit::open_host({});
    ops::verify::Bed bed(*driver, service, true, {}, [](std::string_view) {}, {});
    const jit::Unit unit = ops::describe(spec);
    const cache::Key key = jit::key_of(jit::canonical_text(unit, jit::used_files(unit)));
    const ops::verify::OpTrials& trials = *ops::verify::trials_of(line.op->name);
    ops::verify::Random random(7);
    int launched = 0;
    for (int i = 0; i < trials.count && launched < 1; ++i) {
      ops::verify::Trial trial(random);
      trials.make(given, i, trial);
      try {
        bed.run(trial, jit::Miss::compile);
        launched += bed.launched(key);
      } catch (const Error&) {  // a call that the op refuses, of several that may be one for the kernel
      }
    }
    EXPECT_EQ(launched, 1) << text << ": no trial launches it";
  }

  struct Row {
    std::int32_t outcome;
    std::uint32_t trials;
    std::string op, spec, text;
    double error, truth_error;
  };
  using Change = std::function<void(quern_context_options&)>;
  std::vector<Row> rows(std::int32_t expected, const Change& change = {}, std::string* said = nullptr) const {
    const Context context = make_context([&](quern_context_options& options) {
      options.cache_path = folder_.c_str();
      options.flags |= QUERN_CONTEXT_READ_ONLY_CACHE;
      if (change) change(options);
    });
    auto options = sized<quern_verify_options>();
    options.seed = 1234567;
    quern_list* list = nullptr;
    auto error = sized<quern_error>();
    EXPECT_EQ(quern_verify(context.get(), &options, &list, &error), expected) << error.text;
    const List owned(list);
    if (said != nullptr) *said = error.text;
    std::vector<Row> rows;
    for (std::uint64_t i = 0; i < quern_list_count(list); ++i) {
      auto row = sized<quern_verify_result>();
      EXPECT_EQ(quern_list_verify_result(list, i, &row), QUERN_OK);
      rows.push_back({row.outcome, row.trials, row.op, row.spec, row.text, row.error, row.truth_error});
    }
    return rows;
  }
  // By op.
  std::map<std::string, Row> verify(std::int32_t expected) const {
    std::map<std::string, Row> by_op;
    for (const Row& row : rows(expected)) by_op[row.op] = row;
    return by_op;
  }
  // What the host's compiler is called in a pin.
  std::string compiler() const {
    plant("merge_state host dtype=f32", "", "");
    cache::StoreOptions where;
    where.folder = folder_.string();
    cache::Store store(where);
    cache::AdminError error;
    const std::vector<cache::Listed> all = store.list(&error);
    if (all.empty()) return {};
    return all[0].entry.compiler_kind + ' ' + all[0].entry.compiler_build;
  }

  std::filesystem::path folder_;
};

TEST_F(VerifyRun, FindsAKernelThatIsWrong) {
  plant("merge_state host dtype=bf16", "weight_b * inverse", "weight_b * inverse * 1.05f");
  plant("moe_combine host dtype=f32", "", "");
  plant("argmax host dtype=f32", "", "");
  const std::map<std::string, Row> rows = verify(QUERN_DAMAGED);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows.at("merge_state").outcome, QUERN_VERIFY_DIFFERS);
  EXPECT_GT(rows.at("merge_state").error, 1);
  EXPECT_GT(rows.at("merge_state").truth_error, 1);
  EXPECT_NE(rows.at("merge_state").text.find("element"), std::string::npos);
  for (const char* op : {"moe_combine", "argmax"}) {
    EXPECT_EQ(rows.at(op).outcome, QUERN_VERIFY_AGREES) << op << ": " << rows.at(op).text;
    EXPECT_GT(rows.at(op).trials, 0u) << op;
    EXPECT_LE(rows.at(op).truth_error, 1) << op;
    EXPECT_GE(rows.at(op).truth_error, 0) << op;
  }
}

// Of each op lines whose kernels its trials launch on the host: what differs most of each, and every type of numbers.
constexpr const char* kLines[] = {
    "merge_state host dtype=f16",
    "rmsnorm host dtype=bf16 weight=bf16 team=64",
    "softmax host dtype=f32 each=16",
    "gather host table=bf16 out=f32 width=4",
    "gather host table=bytes out=bytes width=16",
    "rope host dtype=f16 dim=80 rotary_dim=20 interleaved=1 table=f32",
    "attention host variant=streams dtype=bf16 dim_k=64 group=4 page_size=16",
    "quantize host x=bf16 out=e4m3 front=rmsnorm scale=group residual=1 weight=bf16 columns=512",
    "pointwise host expression=silu(tensor0)*tensor1 width=8 operand0=bf16 operand1=bf16 out=bf16",
    "fp8_gemm host variant=small_m_128x32 scales=blocks gate=1",  // which no trial's extents choose
    // From here on with QUERN_TEST_LONG=1: each takes two seconds to compile, for both sides.
    "attention host variant=medium dtype=f16 dim_k=64 group=1 page_size=0",
    "attention host variant=medium dtype=f16 cache=e5m2 scales=token dim_k=72 dim_v=40 page_size=0 mask=1",
    "attention host variant=medium dtype=f16 dim_k=40 dim_v=24 group=3 page_size=0 cap=1 alibi=1 sinks=1 alignment=4",
    "fp8_gemm host variant=small_m_64x64 scales=vectors",
    "fp8_gemm host variant=overlapped_128x256 scales=blocks",
    "fp8_gemm host variant=persistent_128x192 scales=blocks",
    "fp8_gemm host variant=split_k_128x128 scales=blocks",
    "gemm host variant=fitted_256x128 dtype=bf16 out=f32",
    "gemm host variant=persistent_128x176 dtype=bf16 out=bf16",
    "grouped_fp8_gemm host variant=persistent_128x192 rows=contiguous scales=blocks",
    "fp8_gemm host variant=small_m_64x64 scales=blocks",
    "fp8_gemm host variant=tiny scales=vectors gate=1 out=e5m2 out_scale=1 epilogue=gelu(gate)*up",
    "grouped_fp8_gemm host variant=swap_ab_16 rows=masked scales=blocks gate=1",
    "grouped_fp8_gemm host variant=swap_ab_16 rows=contiguous scales=vectors",
    // Rows by index.
    "grouped_fp8_gemm host variant=tiny rows=contiguous scales=blocks gate=1 epilogue=silu(gate)*up",
    "grouped_fp8_gemm host variant=small rows=contiguous scales=vectors",
    "grouped_fp8_gemm host variant=medium rows=contiguous scales=blocks gate=1 epilogue=silu(gate)*up",
    "grouped_fp8_gemm host variant=large rows=contiguous scales=blocks",
    "gemm host variant=plain dtype=f32 out=f32",
    "gemm host variant=swap_ab_16 dtype=f16 order_b=kn out=f16",
    "gemm host variant=small_m_64x64 dtype=bf16 out=bf16 epilogue=silu(acc+col0)*row1 operand0=bf16 operand1=f32",
    "quantize host x=bf16 out=e4m3 front=none scale=group columns=1024",
    "quantize host x=bf16 out=e4m3 front=none scale=block",
    "quantize host x=bf16 out=e4m3 front=silu_mul scale=token columns=2048",
    "quantize host x=f16 out=e5m2 front=layernorm scale=token residual=1 weight=f32 bias=f32 access=4 tail=1 "
    "columns=512",
    "quantize host x=bf16 out=none front=rmsnorm scale=none residual=1 weight=bf16 columns=512",
    "quantize host x=bf16 out=e4m3 front=none scale=find columns=1024",
    "dequantize host x=e4m3 out=bf16",
    "dequantize host x=e5m2 out=f32 access=4 tail=1",
    "moe_route host stage=route dtype=f32 experts=64",
    "moe_route host stage=finish",
    "moe_combine host dtype=f16 out=f32",
    "merge_states host dtype=bf16",
    "kv_append host dtype=bf16 dim_k=128 rotary_dim=128 q=bf16 norm=bf16",
    "kv_append host dtype=f16 cache=e4m3 scale=token dim_k=64 rotary_dim=64 q=e4m3 q_scale=token",
    "kv_append host dtype=bf16 cache=int8 scale=token dim_k=192 dim_v=128",
    "kv_copy_pages host chunk_bytes=16",
    "mla_decode host variant=few16 dtype=bf16",
    "mla_decode host variant=gather64 dtype=f16 cache=rows656 indices=positions cap=1 paired=0",
    "mla_decode host variant=combine dtype=bf16 rows=16",
    "sample host dtype=f32 clusters=1",
    "sample host dtype=f16 edits=1 filters=1",
    "sample host dtype=f32 filters=1 clusters=1",
    "mla_append host dtype=bf16 norm=bf16 queries=1 rotary_dim=64 interleaved=1",
    "mla_append host dtype=f16 norm=f32 cache=rows656 rotary_dim=64 table=f32 alignment=4",
    "mla_append host dtype=bf16 cache=e4m3_token d_latent=128 d_rope=0",
    "index_scores host variant=portable dtype=e5m2 dim=256 head_rows=32 ragged=1 alignment=4",
    "argmax host dtype=bf16",
    "top_k host dtype=f32",
    "renormalise host dtype=f32",
    "renormalise host dtype=bf16 logits=1",
    "verify_draft host",
    "verify_draft host step=edit dtype=bf16",
    "verify_draft host step=report dtype=f16",
    "verify_draft host step=report dtype=f32",
    "pointwise host expression=tensor0*tensor1 rank=2 width=1 span=tiles operand0=f16 along0=across operand1=f32 "
    "out=f32",
    "pointwise host expression=tensor0*tensor1 rank=2 width=8 operand0=f16 along0=shifted operand1=bf16 out=f16",
    "pointwise host expression=integer0/integer1+place rank=2 width=2 operand0=int64 operand1=int64 along1=same "
    "out=f16 "
    "tail=1",
    "pointwise host results=2 expression=sin(tensor0)+atan2(tensor1,scalar0) expression1=int8(tensor0)&index1 rank=3 "
    "width=1 operand0=f32 operand1=e4m3 along1=same out=e5m2 out1=int64 out1_along=any",
    "copy host from=int16 to=int16 width=8",
    "copy host form=transpose from=bf16 to=f32 rank=2 width=4 from_width=8",
    "copy host form=tiles from=bf16 to=f32 rank=3 width=1",
    "norm host dtype=bf16 out=bf16 kind=layer weight=bf16 bias=bf16 residual=1 team=256",
    "norm host dtype=f16 out=f32 kind=rms scale=f32 shift=f32 team=16 access=2 tail=1",
    "norm host dtype=bf16 out=bf16 kind=group stage=apply weight=f32 bias=f32 channels_last=1 team=512",
    "norm host dtype=bf16 out=bf16 kind=group stage=moments team=512",
    "norm_backward host stage=rows dtype=bf16 kind=layer weight=bf16 add=1 team=256",
    "norm_backward host stage=rows dtype=bf16 kind=layer weight=bf16 sums=1 alone=1 out=bf16 team=256",
    "norm_backward host stage=sums out=bf16",
    "reduce host way=rows dtype=int8 kind=dot y=1 exact=1 out=int32 team=256 at_once=2",
    "reduce host way=rows dtype=f32 kind=sum team=1 at_once=2",
    "reduce host way=columns dtype=f16 kind=l2 kind1=argmin out1=int32 team=32 at_once=4",
    "reduce host way=few dtype=bf16 kind=mean out=bf16 team=2",
    "reduce host way=few dtype=f32 kind=argmax out=int64 team=4",
    "reduce host way=join dtype=f32 kind=argmax out=int64 kind1=logsumexp",
    "scatter host stage=move x=bf16 out=f32 width=4 add=1 sorted=1",
    "scatter host stage=finish out=f32 width=4",
    "histogram host stage=count dtype=int32 vectors=1 shared=1",
    "histogram host stage=count dtype=int32 vectors=1 shared=1 ranges=1",
    "sort host stage=row keys=f32 value_bytes=4 most=512",
    "sort host stage=scan",
    "sort host stage=scatter keys=uint32 value_bytes=4",
    "quantized_gemm host variant=rows16 b=int4 scale_b=f16 group=128 groups_b=1",
    "quantized_gemm host variant=rows32 a=f16 b=uint4 scale_b=f16 group=64 groups_b=1 zeros=1 gate=1",
    "quantized_gemm host variant=warpgroups b=uint4 scale_b=bf16 group=64 groups_b=1 zeros=1 gate=1",
    "quantized_gemm host variant=warpgroups a=f16 b=e2m1 scale_b=e4m3 group=16 groups_b=1",
    "quantized_gemm host variant=rows128 a=int8 b=int8 scale_a=f32 scale_b=f32 out=f32",
    "quantized_gemm host variant=integers columns=128 a=int8 b=int8 scale_a=f32 scale_b=bf16 epilogue=acc+col2 "
    "operand2=f16",
    "quantized_gemm host variant=integers columns=256 a=int8 b=int8 scale_b=f32 gate=1",
    "quantized_gemm host variant=few8 columns=64 b=int8 scale_b=f32",
    "quantized_gemm host variant=few16 columns=32 b=uint4 scale_b=f16 group=32 groups_b=1 zeros=1",
    "quantized_gemm host variant=few32 columns=128 b=e2m1 scale_b=e4m3 group=16 groups_b=1 gate=1",
    "quantized_gemm host variant=rows16 a=e2m1 b=e2m1 scale_a=e4m3 scale_b=e4m3 group=16 groups_a=1 groups_b=1",
    "conv1d host dtype=bf16 weight=bf16 state=bf16 taps=4 width=8",
    "conv2d host kernel=direct dtype=bf16",
    "conv2d host kernel=windows dtype=f32",
    "conv2d host kernel=implicit dtype=bf16 tile=128x128 places_first=0 bias=1 activation=silu",
    "conv2d host kernel=implicit dtype=f16 tile=64x128 places_first=1 bias=0 activation=none",
    "conv2d host kernel=persistent dtype=bf16 tile=128x64 places_first=1 bias=1 activation=silu",
    "conv2d host kernel=persistent dtype=bf16 tile=128x128 places_first=0 bias=0 activation=none",
    "conv2d host kernel=persistent dtype=f16 tile=128x176 places_first=0 bias=1 activation=none",
    "conv2d host kernel=persistent dtype=f16 tile=128x256 places_first=1 bias=1 activation=relu",
    "fft host n=400 kind=real result=power dtype=f32 out=f32 window=1 framed=1",
    "fft host n=1000 kind=forward dtype=f32 out=f32",
    "fft host n=96 kind=to_real dtype=f16 out=f32 x_pairs=0 out_pairs=0",
    "fft host n=115 kind=inverse dtype=f32 out=bf16",
    "quantize host x=bf16 out=int8 scale=token columns=1024",
    "dequantize host x=int8 out=bf16",
    "nms host stage=overlaps",
    "nms host stage=keep",
};
constexpr std::size_t kFewLines = 10;

TEST_F(VerifyRun, RightKernelsAgree) {
  const bool all = std::getenv("QUERN_TEST_LONG") != nullptr;
  const char* const only = std::getenv("QUERN_TEST_LINES");
  for (std::size_t i = 0; i < (all ? std::size(kLines) : kFewLines); ++i) {
    if (only != nullptr && std::string(kLines[i]).find(only) == std::string::npos) continue;
    if (all)
      plant_with_others(kLines[i]);
    else
      plant(kLines[i], "", "");
  }
  const std::vector<Row> found = rows(QUERN_OK);
  for (const Row& row : found) {
    if (all)
      std::printf("%d %u %g %g %s %s: %s\n", row.outcome, row.trials, row.error, row.truth_error, row.op.c_str(),
                  row.spec.c_str(), row.text.c_str());
    EXPECT_EQ(row.outcome, QUERN_VERIFY_AGREES) << row.op << ' ' << row.spec << ": " << row.text;
    EXPECT_LE(row.error, 1) << row.op << ' ' << row.spec << ": " << row.text;
    EXPECT_LE(row.truth_error, 1) << row.op << ' ' << row.spec << ": " << row.text;
  }
}

// On a GPU: whatever kernels the trials' calls choose there, for the constants of these lines. QUERN_TEST_SLICE=2/8
// takes every eighth line from the second on.
TEST(VerifyRunOnDevice, WhatTrialsLaunchAgrees) {
  if (!on_cuda()) GTEST_SKIP() << "the host's are planted one by one";
  const char* const slice = std::getenv("QUERN_TEST_SLICE");
  std::size_t first = 1, step = 1;
  if (slice != nullptr) std::sscanf(slice, "%zu/%zu", &first, &step);
  std::string folder = (std::filesystem::temp_directory_path() / "quern-verify-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  {
    jit::Service::Options where;
    where.store.folder = folder, where.compilers.helper_path = QUERN_TEST_HELPER;
    jit::Service service(where);
    const std::unique_ptr<jit::Driver> driver = jit::open_cuda(0, {}, {});
    ops::verify::Bed bed(*driver, service, true, {}, [](std::string_view) {}, {});
    ops::verify::Random random(7);
    for (std::size_t i = first - 1; i < std::size(kLines); i += step) {
      const ops::ManifestLine line = *ops::parse_line(kLines[i]);
      const ops::Constants all = constants_of(*line.op, ops::to_spec(line, jit::Target::parse("host")));
      const ops::verify::OpTrials& trials = *ops::verify::trials_of(line.op->name);
      for (int which = 0; which < std::min(trials.count, 2); ++which) {
        ops::verify::Trial trial(random);
        try {
          trials.make(ops::verify::Given(all), which * trials.count / 2, trial);
          bed.run(trial, jit::Miss::compile);
        } catch (const Error& error) {
          std::printf("%s, call %d: %s\n", kLines[i], which, error.text().c_str());
        }
      }
    }
  }
  const Context context = make_context([&](quern_context_options& options) { options.cache_path = folder.c_str(); });
  auto options = sized<quern_verify_options>();
  options.seed = 1234567;
  // Each as soon as it is known.
  options.progress = [](void*, std::uint64_t, std::uint64_t, const quern_verify_result* row) {
    std::printf("%d %u %.3g %.3g %s %s: %s\n", row->outcome, row->trials, row->error, row->truth_error, row->op,
                row->spec, row->text);
    std::fflush(stdout);
    EXPECT_NE(row->outcome, QUERN_VERIFY_DIFFERS);
    EXPECT_NE(row->outcome, QUERN_VERIFY_FAILED);
    return 0;
  };
  auto error = sized<quern_error>();
  EXPECT_EQ(quern_verify(context.get(), &options, nullptr, &error), QUERN_OK) << error.text;
  std::filesystem::remove_all(folder);
}

// A kernel that joins what others leave has nothing of theirs among its constants: calls that are tried for the others
// tell of it.
TEST_F(VerifyRun, KernelsThatOthersCallsLaunch) {
  for (const char* line : {"reduce host way=columns dtype=f16 kind=sum team=32 at_once=4",
                           "reduce host way=rows dtype=f16 kind=sum vectors=0 team=256 at_once=4",
                           "reduce host way=join dtype=f32 kind=sum"})
    plant(line, "", "");
  int others = 0;
  for (const Row& row : rows(QUERN_OK)) {
    EXPECT_EQ(row.outcome, QUERN_VERIFY_AGREES) << row.spec << ": " << row.text;
    EXPECT_GT(row.trials, 0u) << row.spec;
    others += row.text.starts_with("launched by the calls of others");
  }
  EXPECT_EQ(others, 1);
}

// A kernel whose text cannot be read back is never tried.
TEST(Trials, EveryKernelIsReadBack) {
  for (const char* text : kLines) {
    const ops::ManifestLine line = *ops::parse_line(text);
    const jit::Spec spec = ops::to_spec(line, jit::Target::parse("host"));
    const ops::Op& op = *line.op;
    const jit::TargetInfo target = jit::limits_of(jit::Target::parse("host"));
    EXPECT_EQ(op.parse(constants_of(op, spec), target), spec) << text;
  }
  // Numbers in texts are what they say.
  const auto constant = [](const char* text, const char* name) -> std::string {
    const ops::ManifestLine line = *ops::parse_line(text);
    for (const auto& [of, value] : constants_of(*line.op, ops::to_spec(line, jit::Target::parse("host"))))
      if (of == name) return value;
    return "none";
  };
  for (const char* bytes : {"16", "4"}) {
    const std::string text = std::string("mla_decode host variant=rows16 dtype=bf16 alignment=") + bytes;
    EXPECT_EQ(constant(text.c_str(), "alignment"), bytes);
  }
}

// What both sides give may be wrong all the same.
TEST(Trials, AreHeldAgainstTheTruth) {
  ops::verify::Random random(1);
  ops::verify::Trial trial(random);
  ops::verify::Field& out = trial.result(ops::Dtype::f32, {3});
  out.truth = {1, 2, ops::verify::kUnknown};
  const float same[] = {1.0f, 2.5f, 7.0f};
  const auto* const bytes = reinterpret_cast<const unsigned char*>(same);
  const std::vector<std::vector<unsigned char>> results = {{bytes, bytes + sizeof(same)}};
  const ops::verify::Trial::Verdict verdict = trial.compare(results, results);
  EXPECT_EQ(verdict.error, 0);
  EXPECT_GT(verdict.truth_error, 1e4);
  out.truth[1] = 2.5;
  EXPECT_EQ(trial.compare(results, results).truth_error, 0);
}

TEST(Trials, AreThereForEveryOp) {
  for (const ops::Op& op : ops::all()) {
    const std::string name = op.name;
    EXPECT_TRUE(ops::verify::trials_of(name) != nullptr || name == "kernel" || name == "index_check") << name;
  }
}

// The calls of one kernel's trials launch others of the op, too: each answers for itself.
TEST_F(VerifyRun, BlamesTheKernelThatWasLaunched) {
  const std::string common = " dtype=f16 dim_k=64 group=4 page_size=16";
  plant("attention host variant=streams" + common, "", "");
  plant("attention host variant=medium" + common, "const f32 factor = kPlainScale ? piece.scale : 1.0f;",
        "const f32 factor = kPlainScale ? piece.scale * 1.5f : 1.0f;");
  const std::vector<Row> found = rows(QUERN_DAMAGED);
  ASSERT_EQ(found.size(), 2u);
  for (const Row& row : found) {
    const bool wrong = row.spec.find("medium") != std::string::npos;
    EXPECT_EQ(row.outcome, wrong ? QUERN_VERIFY_DIFFERS : QUERN_VERIFY_AGREES) << row.spec << ": " << row.text;
    EXPECT_GT(row.trials, 0u) << row.spec;
  }
}

// Nothing can be said of any row then, and that is no row's fault.
TEST_F(VerifyRun, EndsWithoutTheHostsCompiler) {
  plant("argmax host dtype=f32", "", "");
  plant("merge_state host dtype=bf16", "", "");
  std::string said;
  const std::vector<Row> found =
      rows(QUERN_NOT_FOUND, [](quern_context_options& options) { options.host_compiler = "/nowhere/c++"; }, &said);
  EXPECT_TRUE(found.empty());
  EXPECT_NE(said.find("/nowhere/c++"), std::string::npos) << said;
}

// A context tries what it would load.
TEST_F(VerifyRun, KeepsToTheCompilerPin) {
  const std::string pin = compiler();
  ASSERT_NE(pin, "");
  plant("merge_state host dtype=bf16", "weight_b * inverse", "weight_b * inverse * 1.05f", pin);
  plant("argmax host dtype=f32", "", "", pin);
  for (const Row& row : rows(QUERN_OK)) {
    const bool pinned = row.spec != "dtype=f32" || row.op != "merge_state";
    EXPECT_EQ(row.outcome, pinned ? QUERN_VERIFY_NOT_RUN : QUERN_VERIFY_AGREES) << row.op << ": " << row.text;
    EXPECT_EQ(row.text.find("made under the compiler_pin \"" + pin + "\"") == 0, pinned) << row.text;
  }
  for (const Row& row :
       rows(QUERN_DAMAGED, [&](quern_context_options& options) { options.compiler_pin = pin.c_str(); }))
    EXPECT_EQ(row.outcome, row.spec == "dtype=bf16" ? QUERN_VERIFY_DIFFERS : QUERN_VERIFY_AGREES) << row.text;
  for (const Row& row : rows(QUERN_OK, [](quern_context_options& options) { options.compiler_pin = "cxx 1"; })) {
    EXPECT_EQ(row.outcome, QUERN_VERIFY_NOT_RUN) << row.text;
    EXPECT_NE(row.text.find("this context's"), std::string::npos) << row.text;
  }
}

TEST_F(VerifyRun, RefusesWhatItCannotDo) {
  const Context bare = make_context([&](quern_context_options& options) { options.device_type = 0; });
  auto error = sized<quern_error>();
  EXPECT_EQ(quern_verify(bare.get(), nullptr, nullptr, &error), QUERN_INVALID);
  EXPECT_NE(std::string(error.text).find("device"), std::string::npos);
  const Context checked = make_context([&](quern_context_options& options) { options.flags |= QUERN_CONTEXT_CHECKED; });
  EXPECT_EQ(quern_verify(checked.get(), nullptr, nullptr, &error), QUERN_INVALID);
  auto options = sized<quern_verify_options>();
  options.flags = 1;
  EXPECT_EQ(quern_verify(context(), &options, nullptr, &error), QUERN_INVALID);
}

}  // namespace
}  // namespace quern::test
