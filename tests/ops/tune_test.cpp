// Tuning: what is measured is kept, taken by the calls it is for and by no others, and right whatever it says.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/ops/gemm_fixture.h"
#include "tests/ops/gemm_kinds.h"
#include "tests/ops/gemm_problem.h"
#include "tests/ops/manifest.h"
#include "tests/support/temporary_folder.h"

namespace quern::test {
namespace {

struct Found {
  int outcome, status;
  std::uint32_t line, candidates;
  std::string op, product, choice, model_choice, text;
  std::int64_t rows;
  double microseconds, model_microseconds;
};

std::vector<Found> tune(quern_context* context, const std::string& manifest, std::vector<std::int64_t> rows,
                        std::uint32_t flags = 0, const quern_model* model = nullptr) {
  auto options = sized<quern_tune_options>();
  options.flags = flags;
  options.manifest = manifest.empty() ? nullptr : manifest.data();
  options.manifest_length = manifest.size();
  options.model = model;
  options.rows = rows.data();
  options.row_count = rows.size();
  options.milliseconds = 0.01;  // it is not speed that is tested here
  quern_list* list = nullptr;
  auto error = sized<quern_error>();
  const int status = quern_tune(context, &options, &list, &error);
  EXPECT_TRUE(status == QUERN_OK || status == QUERN_PARTIAL) << error.text;
  const List results(list);
  std::vector<Found> found;
  for (std::uint64_t i = 0; i < quern_list_count(list); ++i) {
    auto r = sized<quern_tune_result>();
    EXPECT_EQ(quern_list_tune_result(list, i, &r), QUERN_OK);
    found.push_back({r.outcome, r.status, r.line, r.candidates, r.op, r.product, r.choice, r.model_choice, r.text,
                     r.rows, r.microseconds, r.model_microseconds});
  }
  return found;
}

// A cache of its own: what one test has tuned is nobody else's.
class Tune : public testing::Test {
 protected:
  Context open() const {
    return make_context([&](quern_context_options& options) { options.cache_path = folder_.c_str(); });
  }
  std::string path(const char* name) const { return (folder_.path() / name).string(); }

 private:
  TemporaryFolder folder_;
};

constexpr const char* kLine = "gemm * dtype=bf16 n=136 k=96\n";

TEST_F(Tune, KeepsWhatItMeasured) {
  {
    const Context context = open();
    const std::vector<Found> absent = tune(context.get(), kLine, {5}, QUERN_TUNE_LIST_ONLY);
    ASSERT_EQ(absent.size(), 1u);
    EXPECT_EQ(absent[0].outcome, QUERN_TUNE_ABSENT);
    EXPECT_EQ(absent[0].choice, "");
    EXPECT_NE(absent[0].model_choice, "");
    const std::vector<Found> measured = tune(context.get(), kLine, {5});
    ASSERT_EQ(measured.size(), 1u);
    EXPECT_EQ(measured[0].outcome, QUERN_TUNE_MEASURED) << measured[0].text;
    EXPECT_EQ(measured[0].op, "gemm");
    EXPECT_EQ(measured[0].rows, 5);
    EXPECT_GE(measured[0].candidates, 2u);
    EXPECT_GT(measured[0].microseconds, 0.0);
    EXPECT_LE(measured[0].microseconds, measured[0].model_microseconds);
    EXPECT_TRUE(measured[0].product.starts_with("n=136 k=96 dtype=bf16 ")) << measured[0].product;
    std::printf("%s: %s, %u candidates, %.1f us; by the model %s, %.1f us\n", measured[0].product.c_str(),
                measured[0].choice.c_str(), measured[0].candidates, measured[0].microseconds,
                measured[0].model_choice.c_str(), measured[0].model_microseconds);
    // Fifteen rows are done as five are.
    EXPECT_EQ(tune(context.get(), kLine, {15})[0].outcome, QUERN_TUNE_KNOWN);
  }
  const Context next = open();
  const std::vector<Found> known = tune(next.get(), kLine, {16}, QUERN_TUNE_LIST_ONLY);
  EXPECT_EQ(known[0].outcome, QUERN_TUNE_KNOWN);
  EXPECT_NE(known[0].choice, "");
  EXPECT_EQ(tune(next.get(), kLine, {17}, QUERN_TUNE_LIST_ONLY)[0].outcome, QUERN_TUNE_ABSENT);
  EXPECT_EQ(tune(next.get(), "gemm * dtype=bf16 n=136 k=104\n", {16}, QUERN_TUNE_LIST_ONLY)[0].outcome,
            QUERN_TUNE_ABSENT);
  EXPECT_EQ(tune(next.get(), "gemm * dtype=f16 n=136 k=96\n", {16}, QUERN_TUNE_LIST_ONLY)[0].outcome,
            QUERN_TUNE_ABSENT);
  EXPECT_EQ(tune(next.get(), kLine, {16}, QUERN_TUNE_AGAIN)[0].outcome, QUERN_TUNE_MEASURED);
}

// The record of the only product that was tuned, as the cache lists it.
struct Record {
  std::string key, text, image;
};
Record record_in(quern_context* context) {
  quern_list* list = nullptr;
  auto error = sized<quern_error>();
  EXPECT_EQ(quern_cache_list(context, "gemm", &list, &error), QUERN_OK) << error.text;
  const List entries(list);
  std::string key;
  for (std::uint64_t i = 0; i < quern_list_count(list); ++i) {
    auto entry = sized<quern_entry>();
    EXPECT_EQ(quern_list_entry(list, i, &entry), QUERN_OK);
    if (entry.kind == 2) key = entry.key;
  }
  if (key.empty()) return {};
  quern_list* one = nullptr;
  EXPECT_EQ(quern_cache_inspect(context, key.c_str(), &one, &error), QUERN_OK) << error.text;
  const List inspected(one);
  auto entry = sized<quern_entry>();
  EXPECT_EQ(quern_list_entry(one, 0, &entry), QUERN_OK);
  return {key, entry.text, {static_cast<const char*>(entry.image), entry.image_size}};
}

TEST_F(Tune, TheRecordNamesDeviceProductAndKernels) {
  const Context context = open();
  ASSERT_EQ(tune(context.get(), kLine, {16, 64})[1].outcome, QUERN_TUNE_MEASURED);
  const Record record = record_in(context.get());
  auto device = sized<quern_device_info>();
  ASSERT_EQ(quern_device(context.get(), &device, nullptr), QUERN_OK);
  for (const std::string& line : {std::string("op gemm\n"), std::string("device ") + device.name + "\n",
                                  std::string("const n 136\n"), std::string("const k 96\n"),
                                  std::string("const dtype bf16\n"), "sms " + std::to_string(device.sm_count) + "\n"}) {
    EXPECT_NE(record.text.find(line), std::string::npos) << line << record.text;
  }
  EXPECT_EQ(record.text.find("variant"), std::string::npos) << record.text;
  EXPECT_EQ(record.image.rfind("batch=1 rows=16 variant=", 0), 0u) << record.image;
  EXPECT_NE(record.image.find("\nbatch=1 rows=64 variant="), std::string::npos) << record.image;
}

// Whatever is chosen, results are right, and what prepare has made is enough.
TEST_F(Tune, CallsThatTakeItAreRight) {
  const struct {
    const char* line;
    GemmCase call;
  } cases[] = {
      {"fp8_gemm * scales=blocks out=f32 n=264 k=272\n", of_shape(fp8_blocks(), 1, 264, 272)},
      {"gemm * dtype=f16 out=f16 n=264 k=80 batch=3\n",
       [] {
         GemmCase c = of_shape(gemm_of(Element::f16), 1, 264, 80);
         c.batch = 3;
         return c;
       }()},
      {"gemm * dtype=bf16 order_a=km order_b=kn n=264 k=80\n",
       [] {
         GemmCase c = of_shape(gemm_of(Element::bf16), 1, 264, 80);
         c.transposed_a = c.transposed_b = true;
         return c;
       }()},
      {"gemm * dtype=f16 order_b=kn alignment=4 n=74 k=82\n",
       [] {
         GemmCase c = of_shape(gemm_of(Element::f16), 1, 74, 82);
         c.out = Element::bf16;
         c.transposed_b = true;
         c.alignment = 4;
         return c;
       }()},
      {"gemm * dtype=bf16 gate=1 n=528 k=144\n",
       [] {
         GemmCase c = of_shape(gemm_of(Element::bf16), 1, 528, 144);
         c.gate = true;
         return c;
       }()},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.line);
    const std::vector<std::int64_t> rows = {16, 128};
    std::set<std::string> variants;
    {
      const Context context = open();
      for (const Found& found : tune(context.get(), one.line, rows)) {
        EXPECT_EQ(found.outcome, QUERN_TUNE_MEASURED) << found.text;
        variants.insert("variant=" + found.choice.substr(0, found.choice.find(' ')) + ' ');
        std::printf("%s rows=%lld: %s, by the model %s\n", found.product.c_str(), static_cast<long long>(found.rows),
                    found.choice.c_str(), found.model_choice.c_str());
      }
    }
    const Context context = open();
    auto error = sized<quern_error>();
    GemmCase most = one.call;
    most.m = 128;
    GemmTensors tensors(most);
    ASSERT_EQ(tensors.prepare(context.get(), &error), QUERN_OK) << error.text;
    const std::vector<std::string> prepared = manifest_of(context.get());
    for (const std::string& variant : variants) {
      EXPECT_TRUE(std::any_of(prepared.begin(), prepared.end(), [&](const std::string& line) {
        return line.find(variant) != std::string::npos;
      })) << variant;
    }
    for (const std::int64_t m : rows) {
      GemmCase c = one.call;
      c.m = static_cast<int>(m);
      c.flags = QUERN_CALL_CACHED_ONLY;
      GemmProblem problem(c, Random("tuned"));
      ASSERT_NO_FATAL_FAILURE(problem.make_workspace(context.get()));
      ASSERT_NO_FATAL_FAILURE(problem.call(context.get()));
      synchronize();
      problem.check();
    }
  }
}

// The record is of operands that lie one after the other: what Hopper's kernels cannot describe goes by the model.
TEST_F(Tune, AMatrixThatStandsForManyIsLeftToTheModel) {
  const Context context = open();
  ASSERT_EQ(tune(context.get(), "gemm * dtype=f16 out=f16 n=264 k=80 batch=3\n", {16})[0].outcome, QUERN_TUNE_MEASURED);
  GemmCase c = of_shape(gemm_of(Element::f16), 16, 264, 80);
  c.batch = 3;
  for (const bool shared : {true, false}) {
    c.shared_b = shared;
    GemmProblem problem(c, Random("shared"));
    ASSERT_NO_FATAL_FAILURE(problem.make_workspace(context.get()));
    ASSERT_NO_FATAL_FAILURE(problem.call(context.get()));
    synchronize();
    problem.check();
  }
}

TEST_F(Tune, BundlesCarryIt) {
  const std::string bundle = path("tuned.quern");
  auto error = sized<quern_error>();
  {
    const Context context = open();
    ASSERT_EQ(tune(context.get(), kLine, {16})[0].outcome, QUERN_TUNE_MEASURED);
    std::uint64_t count = 0;
    ASSERT_EQ(quern_cache_export(context.get(), bundle.c_str(), nullptr, &count, &error), QUERN_OK) << error.text;
    EXPECT_GE(count, 2u);
  }
  const char* const bundles[] = {bundle.c_str()};
  const std::string elsewhere = path("elsewhere");
  const Context other = make_context([&](quern_context_options& options) {
    options.cache_path = elsewhere.c_str();
    options.bundles = bundles;
    options.bundle_count = 1;
  });
  EXPECT_EQ(tune(other.get(), kLine, {16}, QUERN_TUNE_LIST_ONLY)[0].outcome, QUERN_TUNE_KNOWN);
}

TEST_F(Tune, BadLinesAreNamedAndTheOthersTuned) {
  const Context context = open();
  const std::vector<Found> found = tune(context.get(),
                                        "gemm * dtype=bf16 n=0 k=96\n"
                                        "gemm * dtype=bf16 n=8\n"
                                        "gemm * dtype=bf16 variant=tiny n=8 k=96\n"
                                        "gemm * dtype=bf16 n=8 k=97\n"
                                        "gemm * dtype=bf16 gate=1 n=9 k=96\n"
                                        "gemm sm_80 dtype=bf16 n=8 k=96\n"
                                        "attention * n=8\n"
                                        "# a comment\n"
                                        "fp8_gemm * scales=vectors n=8 k=96 batch=2\n" +
                                            std::string(kLine),
                                        {16}, QUERN_TUNE_LIST_ONLY);
  const std::vector<std::pair<std::uint32_t, std::string>> wrong = {
      {1, "constant n is"}, {2, "k"}, {3, "variant"}, {4, "a"}, {5, "b"}, {6, "sm_80"}, {7, "attention"}, {9, "batch"}};
  ASSERT_EQ(found.size(), wrong.size() + 1);
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    EXPECT_EQ(found[i].outcome, QUERN_TUNE_FAILED);
    EXPECT_EQ(found[i].status, QUERN_INVALID);
    EXPECT_EQ(found[i].line, wrong[i].first);
    EXPECT_NE(found[i].text.find(wrong[i].second), std::string::npos) << found[i].text;
    std::printf("%s\n", found[i].text.c_str());
  }
  EXPECT_EQ(found.back().outcome, QUERN_TUNE_ABSENT) << found.back().text;
}

TEST_F(Tune, RefusesWhatItCannotDo) {
  const Context context = open();
  auto error = sized<quern_error>();
  const auto refused = [&](const std::function<void(quern_tune_options&)>& change, const char* named) {
    auto options = sized<quern_tune_options>();
    options.manifest = kLine;
    options.manifest_length = std::strlen(kLine);
    change(options);
    EXPECT_EQ(quern_tune(context.get(), &options, nullptr, &error), QUERN_INVALID);
    EXPECT_NE(std::string(error.text).find(named), std::string::npos) << error.text;
  };
  const std::int64_t none = 0;
  refused([](auto& o) { o.flags = 4; }, "flags");
  refused([](auto& o) { o.manifest = nullptr; }, "manifest");
  refused([](auto& o) { o.manifest = nullptr, o.manifest_length = 0; }, "neither");
  refused([](auto& o) { o.row_count = 1; }, "rows");
  refused([&](auto& o) { o.rows = &none, o.row_count = 1; }, "rows[0] is 0");
  refused([](auto& o) { o.milliseconds = -1; }, "milliseconds");
  quern_model model = sized<quern_model>();
  refused([&](auto& o) { o.model = &model; }, "heads");
  const Context without =
      make_context([](quern_context_options& options) { options.device_type = 0, options.target = "sm_90a"; });
  auto options = sized<quern_tune_options>();
  EXPECT_EQ(quern_tune(without.get(), &options, nullptr, &error), QUERN_INVALID);
  EXPECT_NE(std::string(error.text).find("device"), std::string::npos) << error.text;
}

// The kernels of a model's products are those that its warming names.
TEST_F(Tune, AModelsProductsTakeKernelsThatWarmingNames) {
  auto model = sized<quern_model>();
  model.flags = QUERN_MODEL_GATED_MLP;
  model.tensor_parallel = 2;
  model.hidden_size = 64;
  model.intermediate_size = 96;
  model.layers = 2;
  model.heads = 4;
  model.kv_heads = 2;
  model.head_dim = 16;
  model.vocab_size = 200;
  const Context context = open();
  const std::vector<Found> listed = tune(context.get(), "", {16}, QUERN_TUNE_LIST_ONLY, &model);
  std::vector<std::string> extents;
  for (const Found& found : listed) {
    EXPECT_EQ(found.outcome, QUERN_TUNE_ABSENT) << found.text;
    extents.push_back(found.product.substr(0, found.product.find(" dtype=")));
  }
  // Logits; queries, keys and values; back from attention; back from the MLP; into it.
  EXPECT_EQ(extents, (std::vector<std::string>{"n=100 k=64", "n=64 k=64", "n=64 k=32", "n=64 k=48", "n=96 k=64"}));
  const std::set<std::string> warmed = listed_by_warm(context.get(), model);
  ASSERT_EQ(tune(context.get(), "", {16}, 0, &model).back().outcome, QUERN_TUNE_MEASURED);
  for (const std::string& line : manifest_of(context.get())) {
    EXPECT_EQ(warmed.count(line), 1u) << "tried by tuning, but not named by warming: " << line;
  }
}

}  // namespace
}  // namespace quern::test
