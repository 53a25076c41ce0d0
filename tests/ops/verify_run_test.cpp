// quern_verify: a kernel whose image does not do what its key's text says is found; all others agree.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cache/store.h"
#include "jit/compiler.h"
#include "jit/engine.h"
#include "jit/service.h"
#include "sources/manifest.h"
#include "sources/op.h"
#include "tests/ops/device.h"

namespace quern::test {
namespace {

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
  plant("kv_copy_pages host", "", "");
  const std::map<std::string, Row> rows = verify(QUERN_DAMAGED);
  ASSERT_EQ(rows.size(), 4u);
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
  EXPECT_EQ(rows.at("kv_copy_pages").outcome, QUERN_VERIFY_NOT_RUN);
  EXPECT_NE(rows.at("kv_copy_pages").text.find("no trial"), std::string::npos);
}

// Every op that has trials: what they choose is run, and agrees.
TEST_F(VerifyRun, RightKernelsAgree) {
  const char* const lines[] = {
      "merge_state host dtype=f16",
      "rmsnorm host dtype=bf16 weight=bf16 team=64",
      "softmax host dtype=f32 each=16",
      "gather host table=bf16 out=f32 width=4",
      "rope host dtype=bf16 dim=64",
      "attention host variant=decode dtype=bf16 dim_k=64 group=4 page_size=16",
      "attention host variant=medium dtype=f16 dim_k=64 group=1 page_size=0",
  };
  for (const char* line : lines) plant(line, "", "");
  const std::map<std::string, Row> rows = verify(QUERN_OK);
  for (const auto& [op, row] : rows) {
    EXPECT_EQ(row.outcome, QUERN_VERIFY_AGREES) << op << ": " << row.text;
    EXPECT_LE(row.error, 1) << op;
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
