// Loading what a manifest needs, unloading, waiting and cancelling; what contexts say about failures; keyed caches.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/abi/support.h"

namespace quern::test {
namespace {

struct Loaded {
  std::int32_t status = -1;
  std::string text;
  std::vector<quern_warm_result> rows;
  List list;
};

Loaded load(quern_context* context, const std::string& manifest,
            const std::function<void(quern_warm_options&)>& change = {}) {
  auto options = sized<quern_warm_options>();
  options.manifest = manifest.data();
  options.manifest_length = manifest.size();
  if (change) change(options);
  Loaded loaded;
  auto error = sized<quern_error>();
  quern_list* list = nullptr;
  loaded.status = quern_load(context, &options, &list, &error);
  loaded.text = error.text;
  loaded.list.reset(list);
  for (std::uint64_t i = 0; i < quern_list_count(list); ++i) {
    auto row = sized<quern_warm_result>();
    EXPECT_EQ(quern_list_warm_result(list, i, &row), QUERN_OK);
    loaded.rows.push_back(row);
  }
  std::sort(loaded.rows.begin(), loaded.rows.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
  return loaded;
}

std::uint64_t kernels_loaded(const Context& context) {
  auto stats = sized<quern_stats>();
  EXPECT_EQ(quern_get_stats(context.get(), &stats, nullptr), QUERN_OK);
  return stats.kernels_loaded;
}

const std::string kManifest = scale_line("host", "2.0f") + "\n" + scale_line("sm_90a", "2.0f") + "\n" +
                              scale_line("*", "3.0f") + "\nkernel host entry=a=b\n";

TEST(Load, CompilesLoadsAndTells) {
  const Folder folder;
  {
    const Context context = make_context(folder, kDLCPU);
    std::vector<std::uint64_t> told;
    const Loaded first = load(context.get(), kManifest, [&](quern_warm_options& options) {
      options.progress_user = &told;
      options.progress = [](void* user, std::uint64_t done, std::uint64_t total, const quern_warm_result*) {
        EXPECT_EQ(total, 3U) << "a line for another target is passed over";
        static_cast<std::vector<std::uint64_t>*>(user)->push_back(done);
        return 0;
      };
    });
    EXPECT_EQ(first.status, QUERN_PARTIAL) << first.text;
    EXPECT_EQ(told, (std::vector<std::uint64_t>{1, 2, 3}));
    ASSERT_EQ(first.rows.size(), 3U);
    EXPECT_EQ(first.rows[0].outcome, QUERN_WARM_COMPILED) << first.rows[0].text;
    EXPECT_EQ(first.rows[1].outcome, QUERN_WARM_COMPILED) << first.rows[1].text;
    EXPECT_EQ(first.rows[2].status, QUERN_INVALID);
    EXPECT_EQ(first.rows[2].line, 4U);
    EXPECT_EQ(kernels_loaded(context), 2U);
    EXPECT_EQ(load(context.get(), kManifest).rows[0].outcome, QUERN_WARM_HIT);
  }
  // From the cache, where nothing may be compiled; then calls find it there.
  const Context again =
      make_context(folder, kDLCPU, [](quern_context_options& o) { o.miss_policy = QUERN_MISS_CACHED_ONLY; });
  const Loaded second = load(again.get(), scale_line("*") + "\n" + scale_line("*", "9.0f"));
  EXPECT_EQ(second.status, QUERN_PARTIAL);
  ASSERT_EQ(second.rows.size(), 2U);
  EXPECT_EQ(second.rows[0].outcome, QUERN_WARM_HIT);
  EXPECT_EQ(second.rows[1].status, QUERN_MISS);
  EXPECT_EQ(kernels_loaded(again), 1U);
}

// A model's kernels are those that warming it names; what the cache has of them is loaded.
TEST(Load, TakesAModel) {
  const Folder folder;
  auto model = sized<quern_model>();
  model.flags = QUERN_MODEL_GATED_MLP;
  model.hidden_size = 64, model.intermediate_size = 128, model.layers = 1, model.vocab_size = 128;
  model.heads = 2, model.kv_heads = 1, model.head_dim = 32, model.max_positions = 64, model.page_size = 16;
  std::string gather;
  std::set<std::string> named;
  {
    const Context context = make_context(folder, kDLCPU);
    auto options = sized<quern_warm_options>();
    options.flags = QUERN_WARM_LIST_ONLY, options.model = &model;
    quern_list* list = nullptr;
    auto error = sized<quern_error>();
    ASSERT_EQ(quern_warm(context.get(), &options, &list, &error), QUERN_OK) << error.text;
    const List owner(list);
    for (std::uint64_t i = 0; i < quern_list_count(list); ++i) {
      auto row = sized<quern_warm_result>();
      ASSERT_EQ(quern_list_warm_result(list, i, &row), QUERN_OK);
      named.insert(std::string(row.op) + " " + row.spec);
      if (std::string(row.op) == "gather") gather = std::string("gather host ") + row.spec;
    }
    ASSERT_GT(named.size(), 10U);
    ASSERT_FALSE(gather.empty());
    EXPECT_EQ(load(context.get(), gather).status, QUERN_OK);
  }
  const Context context =
      make_context(folder, kDLCPU, [](quern_context_options& o) { o.miss_policy = QUERN_MISS_CACHED_ONLY; });
  const Loaded loaded = load(context.get(), "", [&](quern_warm_options& options) {
    options.manifest = nullptr, options.manifest_length = 0, options.model = &model;
  });
  EXPECT_EQ(loaded.status, QUERN_PARTIAL);
  std::set<std::string> made;
  for (const quern_warm_result& row : loaded.rows) {
    made.insert(std::string(row.op) + " " + row.spec);
    const bool cached = std::string(row.op) == "gather";
    EXPECT_EQ(row.status, cached ? QUERN_OK : QUERN_MISS) << row.op << ": " << row.text;
    EXPECT_EQ(row.line, 0U);
  }
  EXPECT_EQ(made, named);
  EXPECT_EQ(kernels_loaded(context), 1U);
}

TEST(Load, RefusesTargetsAndContextsWithoutADevice) {
  const Folder folder;
  const Context context = make_context(folder, kDLCPU), none = make_context(folder, 0);
  auto options = sized<quern_warm_options>();
  options.manifest = kManifest.data(), options.manifest_length = kManifest.size();
  expect_refused(QUERN_INVALID, {"no device"},
                 [&](quern_error* e) { return quern_load(none.get(), &options, nullptr, e); });
  static const char* const targets[] = {"host"};
  options.targets = targets, options.target_count = 1;
  expect_refused(QUERN_INVALID, {"target_count is 1"},
                 [&](quern_error* e) { return quern_load(context.get(), &options, nullptr, e); });
  options.target_count = 0, options.flags = QUERN_WARM_LIST_ONLY;
  expect_refused(QUERN_INVALID, {"quern_warm_options.flags", "0x1"},
                 [&](quern_error* e) { return quern_load(context.get(), &options, nullptr, e); });
}

TEST(Load, InTheBackgroundItWaitsAndCancels) {
  const Folder folder;
  const Context context = make_context(folder, kDLCPU, [](quern_context_options& o) {
    o.miss_policy = QUERN_MISS_BACKGROUND;
    o.compile_threads = 1;
  });
  EXPECT_EQ(quern_wait(context.get(), 0, nullptr), QUERN_OK);
  std::string manifest;
  for (const char* factor : {"2.0f", "3.0f", "4.0f", "5.0f", "6.0f"}) manifest += scale_line("*", factor) + "\n";
  const Loaded pending = load(context.get(), manifest);
  ASSERT_EQ(pending.rows.size(), 5U);
  for (const quern_warm_result& row : pending.rows) EXPECT_EQ(row.status, QUERN_PENDING) << row.text;
  expect_refused(QUERN_PENDING, {"still being compiled after 1 ms"},
                 [&](quern_error* e) { return quern_wait(context.get(), 1, e); });
  std::uint64_t dropped = 99;
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_cancel(context.get(), &dropped, &error), QUERN_OK) << error.text;
  EXPECT_GE(dropped, 3U) << "one thread cannot have begun more than two";
  EXPECT_LE(dropped, 5U);
  ASSERT_EQ(quern_wait(context.get(), 600'000, &error), QUERN_OK) << error.text;
  EXPECT_EQ(kernels_loaded(context), 5 - dropped);
  load(context.get(), manifest);
  ASSERT_EQ(quern_wait(context.get(), UINT64_MAX, &error), QUERN_OK) << error.text;
  EXPECT_EQ(load(context.get(), manifest).status, QUERN_OK);
  EXPECT_EQ(kernels_loaded(context), 5U);
}

TEST(Unload, TakesKernelsAwayAndHandlesWithThem) {
  const Folder folder;
  const Context context = make_context(folder, kDLCPU, [](quern_context_options& o) { o.max_kernels = 2; });
  const ScaleDesc twice("2.0f"), thrice("3.0f"), more("4.0f");
  quern_kernel *two = nullptr, *three = nullptr;
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_kernel_prepare(context.get(), &twice.desc, &two, &error), QUERN_OK) << error.text;
  ASSERT_EQ(quern_kernel_prepare(context.get(), &thrice.desc, &three, &error), QUERN_OK) << error.text;
  expect_refused(QUERN_NO_MEMORY, {"max_kernels", "unload"},
                 [&](quern_error* e) { return quern_kernel_prepare(context.get(), &more.desc, nullptr, e); });
  auto info = sized<quern_kernel_info>();
  ASSERT_EQ(quern_kernel_get_info(two, &info, nullptr), QUERN_OK);
  std::uint64_t count = 99;
  ASSERT_EQ(quern_unload(context.get(), "attention", &count, &error), QUERN_OK) << error.text;
  EXPECT_EQ(count, 0U);
  ASSERT_EQ(quern_unload(context.get(), std::string(info.key).substr(0, 12).c_str(), &count, &error), QUERN_OK);
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(kernels_loaded(context), 1U);
  auto launch = sized<quern_launch>();
  expect_refused(QUERN_INVALID, {"scale", "unloaded", "prepare it again"},
                 [&](quern_error* e) { return quern_kernel_launch(context.get(), two, &launch, e); });
  quern_kernel* again = nullptr;
  ASSERT_EQ(quern_kernel_prepare(context.get(), &twice.desc, &again, &error), QUERN_OK) << error.text;
  EXPECT_NE(again, two);
  float a[] = {3}, out[] = {0};
  ScaleParams params{a, out, 1, 0.5F};
  void* args[] = {&params};
  launch.block_x = kScaleThreads, launch.args = args, launch.arg_count = 1;
  ASSERT_EQ(quern_kernel_launch(context.get(), again, &launch, &error), QUERN_OK) << error.text;
  EXPECT_EQ(out[0], 6.5F);
  ASSERT_EQ(quern_unload(context.get(), "kernel", &count, &error), QUERN_OK);
  EXPECT_EQ(count, 2U);
  ASSERT_EQ(quern_unload(context.get(), nullptr, nullptr, &error), QUERN_OK);
}

TEST(Failures, AreListedWhole) {
  const Folder folder;
  const Context context = make_context(folder, kDLCPU);
  // Many errors: more than a quern_error holds.
  std::string source = "#include \"quern/kernel.cuh\"\n";
  for (int i = 0; i < 400; ++i)
    source += "static int v" + std::to_string(i) + " = not_there_" + std::to_string(i) + ";\n";
  ScaleDesc scale;
  scale.source.text = source.c_str();
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_kernel_prepare(context.get(), &scale.desc, nullptr, &error), QUERN_COMPILE);
  EXPECT_NE(std::string_view(error.text).find("[...]"), std::string_view::npos);
  quern_list* list = nullptr;
  ASSERT_EQ(quern_failures(context.get(), &list, &error), QUERN_OK) << error.text;
  const List owner(list);
  ASSERT_EQ(quern_list_count(list), 1U);
  auto finding = sized<quern_finding>();
  ASSERT_EQ(quern_list_finding(list, 0, &finding), QUERN_OK);
  EXPECT_EQ(finding.status, QUERN_COMPILE);
  EXPECT_EQ(std::string_view(finding.what).size(), 32U);
  EXPECT_NE(std::string_view(finding.hint).find("FACTOR"), std::string_view::npos) << finding.hint;
  for (const char* name : {"not_there_0", "not_there_200", "not_there_399"})
    EXPECT_NE(std::string_view(finding.text).find(name), std::string_view::npos) << name;
}

// A log that is longer than what is kept of one: its end is there, where a compiler says what it came to.
TEST(Failures, KeepTheEndOfALongLog) {
  const Folder folder;
  const Context context = make_context(folder, kDLCPU);
  std::string source = "#include \"quern/kernel.cuh\"\n";
  for (int i = 0; i < 1000; ++i)
    source += "static int v" + std::to_string(i) + " = not_there_" + std::to_string(i) + ";\n";
  ScaleDesc scale;
  scale.source.text = source.c_str();
  ASSERT_EQ(quern_kernel_prepare(context.get(), &scale.desc, nullptr, nullptr), QUERN_COMPILE);
  quern_list* list = nullptr;
  ASSERT_EQ(quern_failures(context.get(), &list, nullptr), QUERN_OK);
  const List owner(list);
  auto finding = sized<quern_finding>();
  ASSERT_EQ(quern_list_finding(list, 0, &finding), QUERN_OK);
  const std::string_view text = finding.text;
  EXPECT_GT(text.size(), 64U << 10);
  EXPECT_LT(text.size(), 65U << 10);
  for (const char* part : {"not_there_0", "bytes of the log are left out here", "not_there_999"})
    EXPECT_NE(text.find(part), std::string_view::npos) << part;
  EXPECT_EQ(text.find("not_there_250"), std::string_view::npos) << "the middle";
}

TEST(Log, TellsTheLevelsThatAreAskedFor) {
  for (const std::int32_t level : {0, 1, 3}) {
    const Folder folder;
    std::vector<std::int32_t> levels;
    const Context context = make_context(folder, kDLCPU, [&](quern_context_options& o) {
      o.log_level = level;
      o.log_user = &levels;
      o.log = [](void* user, std::int32_t at, const char*) {
        static_cast<std::vector<std::int32_t>*>(user)->push_back(at);
      };
    });
    const ScaleDesc good, bad("no_such_thing");
    quern_kernel_prepare(context.get(), &good.desc, nullptr, nullptr);  // QUERN_LOG_INFO
    quern_kernel_prepare(context.get(), &bad.desc, nullptr, nullptr);   // QUERN_LOG_ERROR
    const auto told = [&](std::int32_t which) { return std::count(levels.begin(), levels.end(), which) != 0; };
    EXPECT_TRUE(told(QUERN_LOG_ERROR)) << level;
    EXPECT_EQ(told(QUERN_LOG_INFO), level != 1) << level;
  }
}

TEST(CacheKey, IsNeededToTakeWhatWasStoredWithIt) {
  const Folder folder;
  const std::string key(64, 'a'), other(64, 'b');
  const auto compiled = [&](const char* cache_key) {
    const Context context = make_context(folder, kDLCPU, [&](quern_context_options& o) { o.cache_key = cache_key; });
    const ScaleDesc scale;
    EXPECT_EQ(quern_kernel_prepare(context.get(), &scale.desc, nullptr, nullptr), QUERN_OK);
    auto stats = sized<quern_stats>();
    EXPECT_EQ(quern_get_stats(context.get(), &stats, nullptr), QUERN_OK);
    return stats.compiled;
  };
  EXPECT_EQ(compiled(key.c_str()), 1U);
  EXPECT_EQ(compiled(key.c_str()), 0U);
  EXPECT_EQ(compiled(other.c_str()), 1U) << "and is replaced";
  EXPECT_EQ(compiled(nullptr), 1U);
  EXPECT_EQ(compiled(key.c_str()), 1U);
  auto options = sized<quern_context_options>();
  options.cache_key = "hunter2";
  auto error = sized<quern_error>();
  quern_context* context = nullptr;
  EXPECT_EQ(quern_context_create(&options, &context, &error), QUERN_INVALID);
  EXPECT_NE(std::string_view(error.text).find("cache_key"), std::string_view::npos) << error.text;
  EXPECT_EQ(std::string_view(error.text).find("hunter2"), std::string_view::npos) << "a secret, in a log";
}

}  // namespace
}  // namespace quern::test
