// What a progress callback of quern_verify and quern_tune is told, and that its answer ends the call there.
// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <string>
#include <vector>

#include "tests/abi/support.h"

namespace quern::test {
namespace {

// A callback that answers with `last` when so many are done.
struct Progress {
  std::uint64_t until = ~std::uint64_t{0};
  std::int32_t answer = 1;
  std::vector<std::uint64_t> done;
  std::uint64_t total = 0;
  std::vector<std::string> ops;

  template <class Result>
  static std::int32_t tell(void* user, std::uint64_t done, std::uint64_t total, const Result* result) {
    auto& self = *static_cast<Progress*>(user);
    self.done.push_back(done);
    self.total = total;
    self.ops.emplace_back(result->op);
    return done == self.until ? self.answer : 0;
  }
};

struct Called {
  std::int32_t status = -1;
  std::string text;
  std::uint64_t rows = 0;
};

Called call(const std::function<std::int32_t(quern_list**, quern_error*)>& function) {
  auto error = sized<quern_error>();
  quern_list* list = nullptr;
  Called called;
  called.status = function(&list, &error);
  const List owner(list);
  called.text = error.text;
  called.rows = quern_list_count(list);
  return called;
}

TEST(VerifyProgress, TellsEachKernelAndCancels) {
  const Folder folder;
  const Context context = make_context(folder, kDLCPU);
  const std::string manifest = "argmax host dtype=f32\nmerge_state host dtype=bf16\nmoe_combine host dtype=f32\n";
  auto warm = sized<quern_warm_options>();
  warm.manifest = manifest.data(), warm.manifest_length = manifest.size();
  ASSERT_EQ(quern_warm(context.get(), &warm, nullptr, nullptr), QUERN_OK);
  const auto verify = [&](Progress& progress) {
    auto options = sized<quern_verify_options>();
    options.seed = 7;
    options.progress = Progress::tell<quern_verify_result>;
    options.progress_user = &progress;
    return call(
        [&](quern_list** list, quern_error* error) { return quern_verify(context.get(), &options, list, error); });
  };
  Progress all;
  const Called whole = verify(all);
  EXPECT_EQ(whole.status, QUERN_OK) << whole.text;
  EXPECT_EQ(whole.rows, 3U);
  EXPECT_EQ(all.done, (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(all.total, 3U);
  EXPECT_EQ(all.ops, (std::vector<std::string>{"argmax", "merge_state", "moe_combine"}));
  for (const std::int32_t answer : {1, -1}) {
    Progress some;
    some.until = 2, some.answer = answer;
    const Called cancelled = verify(some);
    EXPECT_EQ(cancelled.status, QUERN_PARTIAL);
    EXPECT_EQ(cancelled.text, "cancelled by progress, after 2 of 3");
    EXPECT_EQ(cancelled.rows, 2U);
    EXPECT_EQ(some.done, (std::vector<std::uint64_t>{1, 2})) << "nothing is told after that";
  }
  Progress late;
  late.until = 3;
  EXPECT_EQ(verify(late).status, QUERN_OK) << "there was nothing left to cancel";
}

TEST(TuneProgress, TellsEachProductAndCancels) {
  const Folder folder;
  const Context context = make_context(folder, kDLCPU);
  const std::string manifest = "gemm * dtype=bf16 n=40 k=32\ngemm host dtype=bf16 n=24 k=32\n";
  const std::int64_t rows[] = {8, 16};
  const auto tune = [&](Progress& progress) {
    auto options = sized<quern_tune_options>();
    options.flags = QUERN_TUNE_LIST_ONLY;
    options.manifest = manifest.data(), options.manifest_length = manifest.size();
    options.rows = rows, options.row_count = 2;
    options.progress = Progress::tell<quern_tune_result>;
    options.progress_user = &progress;
    return call(
        [&](quern_list** list, quern_error* error) { return quern_tune(context.get(), &options, list, error); });
  };
  Progress all;
  const Called whole = tune(all);
  EXPECT_EQ(whole.status, QUERN_OK) << whole.text;
  EXPECT_EQ(whole.rows, 4U);
  EXPECT_EQ(all.done, (std::vector<std::uint64_t>{1, 2, 3, 4}));
  EXPECT_EQ(all.total, 4U);
  for (const std::int32_t answer : {1, -1}) {
    Progress some;
    some.until = 3, some.answer = answer;
    const Called cancelled = tune(some);
    EXPECT_EQ(cancelled.status, QUERN_PARTIAL);
    EXPECT_EQ(cancelled.text, "cancelled by progress, after 3 of 4");
    EXPECT_EQ(cancelled.rows, 3U);
    EXPECT_EQ(some.done, (std::vector<std::uint64_t>{1, 2, 3}));
  }
}

}  // namespace
}  // namespace quern::test
