// Warming: bad lines beside good ones, every target, progress, and what a second time costs.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "tests/abi/support.h"

namespace quern::test {
namespace {

struct Outcome {
  std::int32_t status = -1;
  std::string text;
  std::vector<quern_warm_result> rows;
  List list;
};

Outcome warm(quern_context* context, const std::string& manifest,
             const std::function<void(quern_warm_options&)>& change = {}) {
  auto options = sized<quern_warm_options>();
  options.manifest = manifest.data();
  options.manifest_length = manifest.size();
  if (change) change(options);
  Outcome outcome;
  auto error = sized<quern_error>();
  quern_list* list = nullptr;
  outcome.status = quern_warm(context, &options, &list, &error);
  outcome.text = error.text;
  outcome.list.reset(list);
  for (std::uint64_t i = 0; i < quern_list_count(list); ++i) {
    auto row = sized<quern_warm_result>();
    EXPECT_EQ(quern_list_warm_result(list, i, &row), QUERN_OK);
    outcome.rows.push_back(row);
  }
  return outcome;
}

TEST(Warm, BadLinesAreNumberedAndGoodOnesAreWarmedAllTheSame) {
  const Folder folder;
  const Context context = make_context(folder, 0);
  const std::string manifest = "# kernels of ours\n\n" + scale_line("host") + "\n" +             // 3: good
                               "attentoin host HEAD_DIM=64\n" +                                  // 4
                               "kernel\n" +                                                      // 5
                               "kernel host7 entry=x\n" +                                        // 6
                               "kernel host entry=scale source.a.cuh\n" +                        // 7
                               "kernel host entry=a=b\n" +                                       // 8
                               "kernel host entry=%2\n" +                                        // 9
                               "kernel host entry=a entry=b\n" +                                 // 10
                               "kernel host entry=a\n" +                                         // 11
                               "kernel host entry=a colour=red source.a.cuh=x\n" +               // 12
                               "kernel host entry=a shared=many source.a.cuh=x\n" +              // 13
                               "kernel * entry=a source.a.cuh=x\n" +                             // 14
                               "kernel host entry=broken source.b.cuh=int%20main(\n" +           // 15
                               "  " + scale_line("host", "5.0f") + "\r\n" + scale_line("host");  // 16 good, 17 as 3
  const Outcome outcome = warm(context.get(), manifest);
  EXPECT_EQ(outcome.status, QUERN_PARTIAL);
  EXPECT_NE(outcome.text.find("12 of 14"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("line 4"), std::string::npos) << outcome.text;

  const std::vector<std::pair<std::uint32_t, std::string_view>> bad = {{4, "attentoin"},    {5, "target is missing"},
                                                                       {6, "host7"},        {7, "NAME=VALUE"},
                                                                       {8, "%3D"},          {9, "%2"},
                                                                       {10, "given twice"}, {11, "source.FILE"},
                                                                       {12, "colour"},      {13, "many"},
                                                                       {14, "target '*'"},  {15, "broken"}};
  ASSERT_EQ(outcome.rows.size(), 14U);
  std::size_t next = 0;
  for (const quern_warm_result& row : outcome.rows) {
    if (row.line == 3 || row.line == 16) {
      EXPECT_EQ(row.outcome, QUERN_WARM_COMPILED) << row.text;
      EXPECT_EQ(row.status, QUERN_OK);
      EXPECT_STREQ(row.op, "kernel");
      EXPECT_STREQ(row.target, "host");
      EXPECT_EQ(std::string_view(row.key).size(), 32U);
      EXPECT_NE(std::string_view(row.spec).find("entry=scale"), std::string_view::npos);
      continue;
    }
    ASSERT_LT(next, bad.size());
    EXPECT_EQ(row.line, bad[next].first);
    EXPECT_EQ(row.outcome, QUERN_WARM_FAILED);
    EXPECT_EQ(row.status, row.line == 15 ? QUERN_COMPILE : QUERN_INVALID);
    const std::string_view text = row.text;
    EXPECT_NE(text.find("line " + std::to_string(row.line)), std::string_view::npos) << text;
    EXPECT_NE(text.find(bad[next].second), std::string_view::npos) << text;
    ++next;
  }
  EXPECT_EQ(next, bad.size());

  const Outcome again = warm(context.get(), scale_line("host") + "\n" + scale_line("host", "5.0f"));
  EXPECT_EQ(again.status, QUERN_OK) << again.text;
  for (const quern_warm_result& row : again.rows) EXPECT_EQ(row.outcome, QUERN_WARM_HIT);
}

TEST(Warm, ProgressCancels) {
  const Folder folder;
  const Context context = make_context(folder, 0, [](quern_context_options& options) { options.compile_threads = 1; });
  static const char* const targets[] = {"host", "host64"};
  std::string lines;
  for (int i = 1; i <= 4; ++i) lines += scale_line("*", std::to_string(i) + ".0f") + "\n";
  const Outcome outcome = warm(context.get(), lines, [&](quern_warm_options& options) {
    options.targets = targets, options.target_count = 2;
    options.progress = [](void*, std::uint64_t done, std::uint64_t, const quern_warm_result*) {
      return static_cast<std::int32_t>(done == 2);
    };
  });
  EXPECT_EQ(outcome.status, QUERN_PARTIAL);
  EXPECT_NE(outcome.text.find("cancelled by progress"), std::string::npos) << outcome.text;
  EXPECT_GE(outcome.rows.size(), 2U);
  EXPECT_LE(outcome.rows.size(), 4U);
  for (const quern_warm_result& row : outcome.rows) EXPECT_EQ(row.outcome, QUERN_WARM_COMPILED) << row.text;
}

TEST(Warm, AStarStandsForEveryTargetOfTheCall) {
  const Folder folder;
  const Context context = make_context(folder, 0);
  static const char* const targets[] = {"host", "host64", "host"};
  const auto both = [](quern_warm_options& options) { options.targets = targets, options.target_count = 3; };
  struct Progress {
    std::vector<std::uint64_t> done;
    std::uint64_t total = 0;
  } progress;
  const Outcome outcome = warm(context.get(), scale_line("*"), [&](quern_warm_options& options) {
    both(options);
    options.progress_user = &progress;
    options.progress = [](void* user, std::uint64_t done, std::uint64_t total, const quern_warm_result* result) {
      auto* const told = static_cast<Progress*>(user);
      told->done.push_back(done);
      told->total = total;
      EXPECT_EQ(result->outcome, QUERN_WARM_COMPILED) << result->text;
      return 0;
    };
  });
  EXPECT_EQ(outcome.status, QUERN_OK) << outcome.text;
  ASSERT_EQ(outcome.rows.size(), 2U);
  EXPECT_STREQ(outcome.rows[0].target, "host");
  EXPECT_STREQ(outcome.rows[1].target, "host64");
  EXPECT_STRNE(outcome.rows[0].key, outcome.rows[1].key);
  EXPECT_EQ(progress.done, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(progress.total, 2U);
}

TEST(Warm, ListOnlyCompilesNothing) {
  const Folder folder;
  const Context context = make_context(folder, 0);
  const auto list_only = [](quern_warm_options& options) { options.flags = QUERN_WARM_LIST_ONLY; };
  Outcome outcome = warm(context.get(), scale_line("host"), list_only);
  EXPECT_EQ(outcome.status, QUERN_OK) << outcome.text;
  ASSERT_EQ(outcome.rows.size(), 1U);
  EXPECT_EQ(outcome.rows[0].outcome, QUERN_WARM_ABSENT);
  EXPECT_EQ(std::string_view(outcome.rows[0].key).size(), 32U);
  auto stats = sized<quern_stats>();
  ASSERT_EQ(quern_get_stats(context.get(), &stats, nullptr), QUERN_OK);
  EXPECT_EQ(stats.compiled, 0U);

  warm(context.get(), scale_line("host"));
  outcome = warm(context.get(), scale_line("host"), list_only);
  ASSERT_EQ(outcome.rows.size(), 1U);
  EXPECT_EQ(outcome.rows[0].outcome, QUERN_WARM_HIT);
}

TEST(Warm, AModelsNeedsAreAManifestToo) {
  const Folder folder;
  const Context context = make_context(folder, 0);
  static const char* const targets[] = {"sm_90a", "gfx90a", "host"};
  auto model = sized<quern_model>();  // Llama-3-8B's shape
  model.hidden_size = 4096;
  model.layers = 32;
  model.heads = 32;
  model.kv_heads = 8;
  model.head_dim = 128;
  model.vocab_size = 128'256;
  model.max_positions = 8192;
  const auto list_only = [](quern_warm_options& options) { options.flags = QUERN_WARM_LIST_ONLY; };
  const Outcome needs = warm(context.get(), "", [&](quern_warm_options& options) {
    list_only(options);
    options.targets = targets;
    options.target_count = 3;
    options.model = &model;
  });
  ASSERT_EQ(needs.status, QUERN_OK) << needs.text;
  ASSERT_GE(needs.rows.size(), 3U) << "at least one attention kernel a target";
  std::string manifest;
  for (const quern_warm_result& row : needs.rows) {
    EXPECT_EQ(row.line, 0U);
    EXPECT_EQ(row.outcome, QUERN_WARM_ABSENT);
    manifest += std::string(row.op) + " " + row.target + " " + row.spec + "\n";
  }
  const Outcome lines = warm(context.get(), manifest, list_only);
  ASSERT_EQ(lines.status, QUERN_OK) << lines.text;
  ASSERT_EQ(lines.rows.size(), needs.rows.size());
  for (std::size_t i = 0; i < lines.rows.size(); ++i) {
    EXPECT_STREQ(lines.rows[i].key, needs.rows[i].key) << lines.rows[i].spec;
    EXPECT_EQ(lines.rows[i].line, i + 1);
  }
}

TEST(Warm, WrongOptionsAreRefusedByName) {
  const Folder folder;
  const Context context = make_context(folder, 0);
  static const char* const unknown[] = {"host", "sm0"};
  static const char* const hole[] = {nullptr};
  auto headless = sized<quern_model>();
  auto flagged = sized<quern_model>();
  flagged.flags = 1U << 30;
  auto small = sized<quern_model>();
  small.size = 1;
  auto endless = sized<quern_model>();
  endless.heads = endless.kv_heads = endless.head_dim = 64;
  endless.logit_cap = -1;
  auto whole = endless;
  whole.logit_cap = 0;
  auto wide = whole;  // sizes of its tiles would come to zero
  wide.v_head_dim = 1U << 31;
  struct Case {
    std::function<void(quern_warm_options&)> set;
    std::initializer_list<std::string_view> words;
  };
  using O = quern_warm_options&;
  static const char* const host[] = {"host"};
  const Case cases[] = {
      {[](O o) { o.size = 0; }, {"quern_warm_options.size is 0"}},
      {[](O o) { o.flags = 4; }, {"quern_warm_options.flags", "0x4"}},
      {[](O o) { o.manifest = nullptr; }, {"nothing to warm"}},
      {[](O o) { o.manifest = nullptr, o.manifest_length = 5; }, {"manifest is NULL", "5"}},
      {[](O o) { o.targets = unknown, o.target_count = 2; }, {"targets[1]", "sm0"}},
      {[](O o) { o.targets = hole, o.target_count = 1; }, {"targets[0] is NULL"}},
      {[](O o) { o.target_count = 1; }, {"targets is NULL", "1"}},
      {[&](O o) { o.model = &headless, o.targets = host, o.target_count = 1; }, {"quern_model.heads is 0"}},
      {[&](O o) { o.model = &flagged, o.targets = host, o.target_count = 1; }, {"quern_model.flags", "0x40000000"}},
      {[&](O o) { o.model = &small; }, {"quern_model.size is 1"}},
      {[&](O o) { o.model = &endless; }, {"quern_model.logit_cap is -1"}},
      {[&](O o) { o.model = &wide, o.targets = host, o.target_count = 1; },
       {"quern_model.v_head_dim is 2147483648", "at most 16777216"}},
      {[&](O o) { o.model = &whole; }, {"targets", "none"}},
  };
  for (const Case& wrong : cases) {
    auto options = sized<quern_warm_options>();
    options.manifest = "";
    wrong.set(options);
    quern_list* list = nullptr;
    expect_refused(QUERN_INVALID, wrong.words,
                   [&](quern_error* error) { return quern_warm(context.get(), &options, &list, error); });
    EXPECT_EQ(list, nullptr) << "an output was touched on an error";
  }
}

// What nothing here does for a model is a row of its own, and makes the call QUERN_PARTIAL unless that is allowed.
TEST(Warm, NeedsThatNothingServesAreRows) {
  const Folder folder;
  const Context context = make_context(folder, 0);
  auto model = sized<quern_model>();
  model.heads = model.kv_heads = 8;
  model.head_dim = 100;
  model.hidden_size = 800;
  model.intermediate_size = 1600;
  model.vocab_size = 1000;
  const char* const targets[] = {"sm_90a", "host"};
  for (const bool allowed : {false, true}) {
    const Outcome outcome = warm(context.get(), "", [&](quern_warm_options& options) {
      options.flags = QUERN_WARM_LIST_ONLY | (allowed ? QUERN_WARM_ALLOW_UNSERVED : 0);
      options.targets = targets;
      options.target_count = 2;
      options.model = &model;
    });
    EXPECT_EQ(outcome.status, allowed ? QUERN_OK : QUERN_PARTIAL);
    int told = 0;
    for (const quern_warm_result& row : outcome.rows) {
      if (row.outcome != QUERN_WARM_UNSERVED) continue;
      ++told;
      EXPECT_EQ(row.status, QUERN_UNSUPPORTED);
      EXPECT_STREQ(row.op, "attention");
      EXPECT_STREQ(row.key, "");
      EXPECT_NE(std::string_view(row.text).find("100"), std::string_view::npos) << row.text;
    }
    EXPECT_EQ(told, 2) << "once a target";
  }
}

TEST(Manifest, AShortBufferIsLeftAlone) {
  const Folder folder;
  const Context context = make_context(folder, 0);
  EXPECT_EQ(manifest_of(context.get()), "");
  const std::string lines = scale_line("host", "1.0f") + "\n" + scale_line("host", "9.0f") + "\n";
  ASSERT_EQ(warm(context.get(), lines).status, QUERN_OK);
  EXPECT_EQ(manifest_of(context.get()), lines) << "sorted, one line each";
  char buffer[8] = "before";
  std::uint64_t length = sizeof(buffer);
  EXPECT_EQ(quern_manifest(context.get(), buffer, &length, nullptr), QUERN_OK);
  EXPECT_STREQ(buffer, "before");
  EXPECT_EQ(length, lines.size());
  expect_refused(QUERN_INVALID, {"length is NULL"},
                 [&](quern_error* error) { return quern_manifest(context.get(), buffer, nullptr, error); });
}

}  // namespace
}  // namespace quern::test
