// A host's own kernel on the host target, from text to numbers.
// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/abi/support.h"

namespace quern::test {
namespace {

class HostKernel : public testing::TestWithParam<const char*> {
 protected:
  quern_kernel* prepare(const quern_kernel_desc& desc) {
    quern_kernel* kernel = nullptr;
    auto error = sized<quern_error>();
    EXPECT_EQ(quern_kernel_prepare(context.get(), &desc, &kernel, &error), QUERN_OK) << error.text;
    return kernel;
  }

  const Folder folder;
  const Context context =
      make_context(folder, kDLCPU, [](quern_context_options& options) { options.target = GetParam(); });
};
INSTANTIATE_TEST_SUITE_P(Warps, HostKernel, testing::Values("host", "host64"));

// Launches over n elements and holds every one of them, and those around them, against the formula.
void run_scale(quern_context* context, const quern_kernel* kernel, int n, float factor) {
  std::vector<float> a(static_cast<std::size_t>(n));
  std::iota(a.begin(), a.end(), 1.0F);
  std::vector<float> out(static_cast<std::size_t>(n) + 64, NAN);
  ScaleParams params{a.data(), out.data(), n, 0.5F};
  void* args[] = {&params};
  auto launch = sized<quern_launch>();
  launch.grid_x = (static_cast<std::uint32_t>(n) + kScaleThreads - 1) / kScaleThreads;
  launch.block_x = kScaleThreads;
  launch.args = args;
  launch.arg_count = 1;
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_kernel_launch(context, kernel, &launch, &error), QUERN_OK) << error.text;
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(out[i], a[i] * factor + 0.5F) << "element " << i;
  for (std::size_t i = a.size(); i < out.size(); ++i) ASSERT_TRUE(std::isnan(out[i])) << "written past the end: " << i;
}

TEST_P(HostKernel, ComputesWhatItsConstantSays) {
  const ScaleDesc twice("2.0f");
  const ScaleDesc thrice("3.0f");
  quern_kernel* const by_two = prepare(twice.desc);
  quern_kernel* const by_three = prepare(thrice.desc);
  ASSERT_NE(by_two, nullptr);
  EXPECT_NE(by_two, by_three);
  EXPECT_EQ(prepare(ScaleDesc("2.0f").desc), by_two) << "the same desc gives the same handle";
  for (const int n : {1, 64, 1000}) {
    run_scale(context.get(), by_two, n, 2);
    run_scale(context.get(), by_three, n, 3);
  }
  auto stats = sized<quern_stats>();
  ASSERT_EQ(quern_get_stats(context.get(), &stats, nullptr), QUERN_OK);
  EXPECT_EQ(stats.compiled, 2U);
  EXPECT_EQ(stats.kernels_loaded, 2U);
  EXPECT_EQ(stats.stored, 2U);
}

TEST_P(HostKernel, ComesFromTheCacheInTheNextContext) {
  const ScaleDesc scale;
  auto info = sized<quern_kernel_info>();
  ASSERT_EQ(quern_kernel_get_info(prepare(scale.desc), &info, nullptr), QUERN_OK);
  EXPECT_EQ(std::string_view(info.key).size(), 32U);
  EXPECT_GE(info.max_threads, static_cast<std::int32_t>(kScaleThreads));

  const Context cached_only = make_context(folder, kDLCPU, [](quern_context_options& options) {
    options.target = GetParam();
    options.miss_policy = QUERN_MISS_CACHED_ONLY;
  });
  quern_kernel* kernel = nullptr;
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_kernel_prepare(cached_only.get(), &scale.desc, &kernel, &error), QUERN_OK) << error.text;
  run_scale(cached_only.get(), kernel, 100, 2);
  auto again = sized<quern_kernel_info>();
  ASSERT_EQ(quern_kernel_get_info(kernel, &again, nullptr), QUERN_OK);
  EXPECT_STREQ(again.key, info.key);

  const ScaleDesc other("7.0f");
  quern_kernel* const untouched = kernel;
  expect_refused(QUERN_MISS, {}, [&](quern_error* failure) {
    return quern_kernel_prepare(cached_only.get(), &other.desc, &kernel, failure);
  });
  EXPECT_EQ(kernel, untouched) << "an output was touched on an error";
}

TEST_P(HostKernel, AManifestOfItWarmsAnotherCache) {
  const ScaleDesc scale("2.5f");
  prepare(scale.desc);
  const std::string manifest = manifest_of(context.get());
  EXPECT_EQ(manifest, scale_line(GetParam(), "2.5f") + "\n");

  const Folder elsewhere;
  const Context other = make_context(elsewhere, 0);
  auto options = sized<quern_warm_options>();
  options.manifest = manifest.data();
  options.manifest_length = manifest.size();
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_warm(other.get(), &options, nullptr, &error), QUERN_OK) << error.text;
  EXPECT_EQ(manifest_of(other.get()), manifest);

  const Context user = make_context(elsewhere, kDLCPU, [](quern_context_options& changed) {
    changed.target = GetParam();
    changed.miss_policy = QUERN_MISS_CACHED_ONLY;
  });
  quern_kernel* kernel = nullptr;
  ASSERT_EQ(quern_kernel_prepare(user.get(), &scale.desc, &kernel, &error), QUERN_OK) << error.text;
  run_scale(user.get(), kernel, 70, 2.5F);
}

TEST_P(HostKernel, InTheBackgroundItIsPendingFirst) {
  const ScaleDesc scale("4.0f");
  quern_kernel_desc desc = scale.desc;
  desc.flags = QUERN_CALL_BACKGROUND;
  quern_kernel* kernel = nullptr;
  auto error = sized<quern_error>();
  EXPECT_EQ(quern_kernel_prepare(context.get(), &desc, &kernel, &error), QUERN_PENDING) << error.text;
  std::int32_t status = QUERN_PENDING;
  for (int i = 0; i < 3000 && status == QUERN_PENDING; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    status = quern_kernel_prepare(context.get(), &desc, &kernel, &error);
  }
  ASSERT_EQ(status, QUERN_OK) << error.text;
  run_scale(context.get(), kernel, 10, 4);
}

TEST_P(HostKernel, TheCompilersLogComesBack) {
  ScaleDesc scale("no_such_thing");
  quern_kernel* kernel = nullptr;
  expect_refused(QUERN_COMPILE, {"no_such_thing", "scale.cuh"},
                 [&](quern_error* error) { return quern_kernel_prepare(context.get(), &scale.desc, &kernel, error); });
  EXPECT_EQ(kernel, nullptr);
  auto stats = sized<quern_stats>();
  ASSERT_EQ(quern_get_stats(context.get(), &stats, nullptr), QUERN_OK);
  EXPECT_EQ(stats.compiled, 0U);
  EXPECT_EQ(stats.compile_errors, 2U);
}

TEST_P(HostKernel, AWrongLaunchIsRefused) {
  const ScaleDesc scale;
  quern_kernel* const kernel = prepare(scale.desc);
  ScaleParams params{};
  void* args[] = {&params};
  void* holes[] = {nullptr};
  struct Case {
    std::function<void(quern_launch&)> set;
    std::initializer_list<std::string_view> words;
  };
  const Case cases[] = {
      {[](quern_launch& launch) { launch.flags = 1; }, {"quern_launch.flags", "0x1"}},
      {[](quern_launch& launch) { launch.size = 3; }, {"quern_launch.size is 3"}},
      {[](quern_launch& launch) { launch.block_x = 1U << 31; }, {"threads; kernel \"scale\" allows"}},
      {[](quern_launch& launch) { launch.block_x = launch.block_y = launch.block_z = 1U << 31; },
       {"threads; kernel \"scale\" allows"}},
      {[](quern_launch& launch) { launch.shared_bytes = 1; }, {"shared_bytes is 1", "max_shared_bytes 0"}},
      {[](quern_launch& launch) { launch.cluster_x = 2; }, {"grid 1", "cluster 2"}},
      {[](quern_launch& launch) { launch.args = nullptr; }, {"args is NULL"}},
      {[&](quern_launch& launch) { launch.args = holes; }, {"args[0] is NULL"}},
  };
  for (const Case& wrong : cases) {
    auto launch = sized<quern_launch>();
    launch.block_x = kScaleThreads;
    launch.args = args;
    launch.arg_count = 1;
    wrong.set(launch);
    expect_refused(QUERN_INVALID, wrong.words,
                   [&](quern_error* error) { return quern_kernel_launch(context.get(), kernel, &launch, error); });
  }
  auto launch = sized<quern_launch>();
  const Context other = make_context(folder, kDLCPU);
  expect_refused(QUERN_INVALID, {"another context"},
                 [&](quern_error* error) { return quern_kernel_launch(other.get(), kernel, &launch, error); });
}

TEST(Kernel, AWrongDescIsRefusedByName) {
  const Folder folder;
  const Context context = make_context(folder, 0, [](quern_context_options& options) { options.target = "host"; });
  static const char* const reaching[] = {"-I/usr/include"};
  static const char* const hole[] = {nullptr};
  constexpr std::uint32_t kSource = sizeof(quern_source), kConstant = sizeof(quern_constant);
  static const quern_source ours[] = {{kSource, 0, "common/kernel.cuh", "", 0}};
  static const quern_source twice[] = {{kSource, 0, "a.cuh", "", 0}, {kSource, 0, "a.cuh", "", 0}};
  static const quern_source unnamed[] = {{kSource, 0, nullptr, "", 0}};
  static const quern_source unsized[] = {{0, 0, "a.cuh", "", 0}};
  static const quern_source uneven[] = {{kSource, 0, "a.cuh", "", 0}, {kSource - 8, 0, "b.cuh", "", 0}};
  static const quern_source reserved[] = {{kSource, 7, "a.cuh", "", 0}};
  static const quern_source nul = {kSource, 0, "nul.cuh", "int\0x;", 6};
  static const quern_source missing = {kSource, 0, "missing.cuh", "#include \"nowhere.cuh\"\n", 0};
  static const quern_constant spaced[] = {{kConstant, 0, "A", "1"}, {kConstant, 0, "B C", "1"}};
  static const quern_constant lines[] = {{kConstant, 0, "A", "1\n#include </etc/passwd>"}};
  struct Case {
    std::function<void(quern_kernel_desc&)> set;
    std::initializer_list<std::string_view> words;
  };
  using D = quern_kernel_desc&;
  const Case cases[] = {
      {[](D d) { d.entry = nullptr; }, {"entry is NULL"}},
      {[](D d) { d.entry = "two words"; }, {"entry \"two words\"", "identifier"}},
      {[](D d) { d.source = nullptr; }, {"source is NULL"}},
      {[](D d) { d.source = &nul; }, {"nul.cuh", "NUL at byte 3"}},
      {[](D d) { d.source = &missing; }, {"nowhere.cuh", "missing.cuh"}},
      {[](D d) { d.headers = nullptr; }, {"headers is NULL", "1"}},
      {[](D d) { d.headers = ours; }, {"common/kernel.cuh", "quern's own"}},
      {[](D d) { d.headers = unnamed; }, {"headers[0].name is NULL"}},
      {[](D d) { d.headers = twice, d.header_count = 2; }, {"a.cuh", "twice"}},
      {[](D d) { d.headers = unsized; }, {"headers[0].size is 0", "32"}},
      {[](D d) { d.headers = uneven, d.header_count = 2; }, {"headers[1].size is 24", "32", "one size"}},
      {[](D d) { d.headers = reserved; }, {"headers[0].reserved is 7"}},
      {[](D d) { d.constants = spaced, d.constant_count = 2; }, {"B C", "identifier"}},
      {[](D d) { d.constants = lines; }, {"constant \"A\"", "control"}},
      {[](D d) { d.options = reaching, d.option_count = 1; }, {"-I/usr/include"}},
      {[](D d) { d.options = hole, d.option_count = 1; }, {"options[0] is NULL"}},
      {[](D d) { d.target = "sm7"; }, {"sm7"}},
      {[](D d) { d.flags = 8U << 20; }, {"quern_kernel_desc.flags", "0x800000"}},
      {[](D d) { d.flags = QUERN_CALL_BACKGROUND; }, {"QUERN_CALL_BACKGROUND", "host"}},
      {[](D d) { d.reserved = 4; }, {"reserved is 4"}},
      {[](D d) { d.constant_count = 1ULL << 50; }, {"constants", "65536"}},
  };
  for (const Case& wrong : cases) {
    ScaleDesc scale;
    wrong.set(scale.desc);
    expect_refused(QUERN_INVALID, wrong.words, [&](quern_error* error) {
      return quern_kernel_prepare(context.get(), &scale.desc, nullptr, error);
    });
  }
}

// What a caller with a later header passes: each struct has something behind it that this library does not know.
TEST(Kernel, StructsInArraysStandAsFarApartAsTheirSizeSays) {
  const Folder folder;
  const Context context = make_context(folder, kDLCPU);
  struct Later {
    quern_constant known;
    std::uint64_t unknown;
  };
  constexpr std::uint32_t kSize = sizeof(Later);
  Later later[] = {{{kSize, 0, "UNUSED", "1"}, 0}, {{kSize, 0, "FACTOR", "3.0f"}, 0}};
  ScaleDesc scale;
  scale.desc.constants = &later[0].known;
  scale.desc.constant_count = 2;
  quern_kernel* kernel = nullptr;
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_kernel_prepare(context.get(), &scale.desc, &kernel, &error), QUERN_OK) << error.text;
  run_scale(context.get(), kernel, 100, 3.0F);
  later[1].unknown = 1;
  expect_refused(QUERN_INVALID, {"constants[1].size is 32", "byte 24 is not zero"},
                 [&](quern_error* e) { return quern_kernel_prepare(context.get(), &scale.desc, nullptr, e); });
}

// A host that makes a context a request, with sources of its own each time.
TEST(Kernel, TextsGoWithTheirContexts) {
  const Folder folder;
  const auto in_use = [] { return static_cast<std::int64_t>(mallinfo2().uordblks + mallinfo2().hblkhd); };
  std::int64_t before = 0;
  for (int i = 0; i < 40; ++i) {
    if (i == 4) before = in_use();
    const Context context = make_context(folder, 0, [](quern_context_options& options) {
      options.target = "sm_90a";
      options.miss_policy = QUERN_MISS_CACHED_ONLY;
    });
    const std::string source = "// " + std::to_string(i) + std::string(1 << 20, 'x') + "\nint x;\n";
    ScaleDesc scale;
    scale.source.text = source.c_str();
    EXPECT_EQ(quern_kernel_prepare(context.get(), &scale.desc, nullptr, nullptr), QUERN_MISS);
    const std::string line =
        "kernel sm_90a entry=k source.k.cu=int%20y" + std::to_string(i) + std::string(1 << 20, 'x');
    auto options = sized<quern_warm_options>();
    options.flags = QUERN_WARM_LIST_ONLY;
    options.manifest = line.data(), options.manifest_length = line.size();
    EXPECT_EQ(quern_warm(context.get(), &options, nullptr, nullptr), QUERN_OK);
  }
  EXPECT_LT(in_use() - before, 8 << 20);
}

TEST(Kernel, AnotherTargetIsStoredAndNotLoaded) {
  const Folder folder;
  const Context context = make_context(folder, kDLCPU);
  ScaleDesc scale;
  scale.desc.target = "host64";
  scale.desc.flags = QUERN_CALL_CACHED_ONLY;
  expect_refused(QUERN_MISS, {"not in the cache"},
                 [&](quern_error* error) { return quern_kernel_prepare(context.get(), &scale.desc, nullptr, error); });
  scale.desc.flags = 0;
  auto* kernel = reinterpret_cast<quern_kernel*>(&scale);
  auto error = sized<quern_error>();
  ASSERT_EQ(quern_kernel_prepare(context.get(), &scale.desc, &kernel, &error), QUERN_OK) << error.text;
  EXPECT_EQ(kernel, nullptr);
  auto stats = sized<quern_stats>();
  ASSERT_EQ(quern_get_stats(context.get(), &stats, nullptr), QUERN_OK);
  EXPECT_EQ(stats.kernels_loaded, 0U);
  EXPECT_EQ(stats.stored, 1U);
}

}  // namespace
}  // namespace quern::test
