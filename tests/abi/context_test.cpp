// Context options, device, statistics, forks.
// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/abi/support.h"

namespace quern::test {
namespace {

struct BadOption {
  const char* what;
  std::function<void(quern_context_options&)> set;
  std::initializer_list<std::string_view> words;
};

TEST(ContextOptions, WrongOnesAreRefusedByName) {
  static const char* const relative[] = {"/there", "here/bundle.qb"};
  static const char* const hole[] = {nullptr};
  using O = quern_context_options&;
  const BadOption cases[] = {
      {"flags", [](O o) { o.flags = 1U << 20; }, {"quern_context_options.flags", "0x100000", "0x7f"}},
      {"exclusive flags", [](O o) { o.flags = QUERN_CONTEXT_NO_CACHE | QUERN_CONTEXT_READ_ONLY_CACHE; }, {"exclude"}},
      {"device_type", [](O o) { o.device_type = 7; }, {"device_type is 7", "kDLCUDA"}},
      {"device_id", [](O o) { o.device_id = -1; }, {"device_id is -1"}},
      {"device_id of no device", [](O o) { o.device_id = 3; }, {"device_id is 3"}},
      {"miss_policy", [](O o) { o.miss_policy = 9; }, {"miss_policy is 9", "QUERN_MISS_BACKGROUND"}},
      {"compile_threads", [](O o) { o.compile_threads = -2; }, {"compile_threads is -2"}},
      {"host_threads", [](O o) { o.host_threads = 100'000; }, {"host_threads is 100000"}},
      {"target", [](O o) { o.target = "sm90"; }, {"sm90", "sm_90a"}},
      {"cache_path", [](O o) { o.cache_path = "cache"; }, {"cache_path is \"cache\"", "absolute"}},
      {"bundles", [](O o) { o.bundles = relative, o.bundle_count = 2; }, {"bundles[1]", "here/bundle.qb", "absolute"}},
      {"bundles NULL", [](O o) { o.bundle_count = 2; }, {"bundles is NULL", "2"}},
      {"bundle count", [](O o) { o.bundles = relative, o.bundle_count = 1ULL << 40; }, {"bundles", "1099511627776"}},
      {"search_dirs", [](O o) { o.search_dirs = hole, o.search_dir_count = 1; }, {"search_dirs[0] is NULL"}},
      {"helper_path", [](O o) { o.helper_path = "./helper"; }, {"helper_path", "./helper", "absolute"}},
      {"host_compiler", [](O o) { o.host_compiler = "c++"; }, {"host_compiler", "absolute"}},
      {"cache_limit", [](O o) { o.cache_limit = 1000; }, {"cache_limit is 1000", "1048576"}},
      {"host_seed", [](O o) { o.host_seed = 5; }, {"host_seed is 5", "QUERN_CONTEXT_HOST_SEED"}},
      {"log_level", [](O o) { o.log_level = 5; }, {"log_level is 5", "QUERN_LOG_DEBUG"}},
      {"host with a GPU's target", [](O o) { o.device_type = kDLCPU, o.target = "sm_90a"; }, {"sm_90a", "host64"}},
  };
  for (const BadOption& bad : cases) {
    SCOPED_TRACE(bad.what);
    auto options = sized<quern_context_options>();
    bad.set(options);
    quern_context* context = nullptr;
    expect_refused(QUERN_INVALID, bad.words,
                   [&](quern_error* error) { return quern_context_create(&options, &context, error); });
    EXPECT_EQ(context, nullptr);
  }
  auto options = sized<quern_context_options>();
  expect_refused(QUERN_INVALID, {"context is NULL"},
                 [&](quern_error* error) { return quern_context_create(&options, nullptr, error); });
}

TEST(Context, WithoutADeviceSaysSo) {
  const Folder folder;
  const Context context = make_context(folder, 0);
  auto info = sized<quern_device_info>();
  expect_refused(QUERN_INVALID, {"context has no device", "kDLCPU"},
                 [&](quern_error* error) { return quern_device(context.get(), &info, error); });
  EXPECT_EQ(info.name[0], '\0');
  auto args = sized<quern_attention_args>();
  expect_refused(QUERN_INVALID, {"context has no device"},
                 [&](quern_error* error) { return quern_attention(context.get(), &args, error); });
}

TEST(Context, TheHostDescribesItself) {
  for (const auto& [target, warp] : {std::pair{"host", 32U}, {"host64", 64U}}) {
    const Folder folder;
    const Context context =
        make_context(folder, kDLCPU, [&](quern_context_options& options) { options.target = target; });
    auto info = sized<quern_device_info>();
    ASSERT_EQ(quern_device(context.get(), &info, nullptr), QUERN_OK);
    EXPECT_STREQ(info.target, target);
    EXPECT_EQ(info.warp_size, warp);
    EXPECT_EQ(info.device_type, kDLCPU);
    EXPECT_GT(info.sm_count, 0U);
    EXPECT_GT(info.shared_per_block, 0U);
    EXPECT_NE(info.name[0], '\0');
  }
}

TEST(Context, StatisticsBeginAtZero) {
  const Folder folder;
  const Context context = make_context(folder, 0);
  auto stats = sized<quern_stats>();
  stats.compiled = 99;
  ASSERT_EQ(quern_get_stats(context.get(), &stats, nullptr), QUERN_OK);
  EXPECT_EQ(stats.compiled, 0U);
  EXPECT_EQ(stats.kernels_loaded, 0U);
}

TEST(Context, DefaultsNeedNoOptions) {
  const Folder folder;
  ASSERT_EQ(setenv("XDG_CACHE_HOME", folder.path().c_str(), 1), 0);
  quern_context* context = nullptr;
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_context_create(nullptr, &context, &error), QUERN_OK) << error.text;
  auto stats = sized<quern_cache_stats>();
  EXPECT_EQ(quern_cache_get_stats(context, &stats, nullptr), QUERN_OK);
  EXPECT_EQ(std::string_view(stats.path).substr(0, folder.path().size()), folder.path()) << stats.reason;
  quern_context_destroy(context);
  unsetenv("XDG_CACHE_HOME");
}

TEST(Context, AChildOfAForkIsRefusedAndMayMakeItsOwn) {
  const Folder folder;
  Context context = make_context(folder, 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto error = sized<quern_error>();
    auto stats = sized<quern_stats>();
    if (quern_get_stats(context.get(), &stats, &error) != QUERN_FORKED) _exit(1);
    if (std::string_view(error.text).find("fork") == std::string_view::npos) _exit(2);
    quern_context_destroy(context.release());  // abandons it
    auto options = sized<quern_context_options>();
    options.flags = QUERN_CONTEXT_NO_CACHE;
    quern_context* own = nullptr;
    if (quern_context_create(&options, &own, nullptr) != QUERN_OK) _exit(3);
    if (quern_get_stats(own, &stats, nullptr) != QUERN_OK) _exit(4);
    quern_context_destroy(own);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "step " << WEXITSTATUS(status);
  auto stats = sized<quern_stats>();
  EXPECT_EQ(quern_get_stats(context.get(), &stats, nullptr), QUERN_OK) << "the parent's own goes on";
}

TEST(Context, ACacheThatCannotBeUsedIsToldAndSurvived) {
  const Folder folder;
  std::ofstream(folder.path("cache")) << "a file where the folder should be";
  std::string told;
  const Context context = make_context(folder, 0, [&](quern_context_options& options) {
    options.log = [](void* user, std::int32_t level, const char* text) {
      EXPECT_LE(level, QUERN_LOG_WARNING);
      static_cast<std::string*>(user)->append(text);
    };
    options.log_user = &told;
  });
  auto stats = sized<quern_cache_stats>();
  ASSERT_EQ(quern_cache_get_stats(context.get(), &stats, nullptr), QUERN_OK);
  EXPECT_NE(stats.state, QUERN_CACHE_READY);
  EXPECT_NE(stats.reason[0], '\0');
  EXPECT_NE(told.find(folder.path("cache")), std::string::npos) << "not named: " << told;
}

}  // namespace
}  // namespace quern::test
