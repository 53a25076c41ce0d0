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
#include "tests/support/kernel_lines.h"

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
