// The checked form of calls: index tensors that lead out of what they point into are told of by name, on every device,
// and the call's kernels write nothing.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "tests/ops/checked_cases.h"
#include "tests/ops/cuda.h"
#include "tests/ops/manifest.h"

namespace quern::test {
namespace {

quern_context* checked() {
  static const Context made =
      make_context([](quern_context_options& options) { options.flags |= QUERN_CONTEXT_CHECKED; });
  return made.get();
}

struct Told {
  std::string op, argument, text;
  std::uint64_t call;
  std::int64_t row, column, value, least, most;
};

std::vector<Told> faults(quern_context* of, std::uint64_t* total = nullptr) {
  quern_list* list = nullptr;
  auto error = sized<quern_error>();
  EXPECT_EQ(quern_faults(of, &list, total, &error), QUERN_OK) << error.text;
  const List owned(list);
  std::vector<Told> told;
  for (std::uint64_t i = 0; i < quern_list_count(list); ++i) {
    auto fault = sized<quern_fault>();
    EXPECT_EQ(quern_list_fault(list, i, &fault), QUERN_OK);
    told.push_back({fault.op, fault.argument, fault.text, fault.call, fault.row, fault.column, fault.value, fault.least,
                    fault.most});
  }
  return told;
}

class Checked : public testing::TestWithParam<Maker> {};

TEST_P(Checked, TellsWhatIsWrongAndRunsNothing) {
  quern_context* const in = checked();
  faults(in);
  Built built = GetParam().make();
  auto error = sized<quern_error>();
  ASSERT_EQ(built.trial->run(in, &error), QUERN_OK) << error.text;
  EXPECT_FALSE(built.trial->has_written_nothing());
  EXPECT_TRUE(faults(in).empty());
  for (std::size_t i = 0; i < built.mistakes.size(); ++i) {
    Built bad = GetParam().make();
    const Spoiled& mistake = bad.mistakes[i];
    SCOPED_TRACE(mistake.text);
    if (mistake.column == kNone) {
      mistake.array->set_integer(mistake.value, mistake.row);
    } else {
      mistake.array->set_integer(mistake.value, mistake.row, mistake.column);
    }
    ASSERT_EQ(bad.trial->run(in, &error), QUERN_OK) << error.text;
    EXPECT_TRUE(bad.trial->has_written_nothing());
    std::uint64_t total = 0;
    const std::vector<Told> told = faults(in, &total);
    ASSERT_EQ(told.size(), 1u);
    EXPECT_EQ(total, 1u);
    EXPECT_EQ(told[0].op, bad.trial->op());
    EXPECT_EQ(told[0].argument, mistake.argument);
    EXPECT_EQ(told[0].row, mistake.told_row);
    EXPECT_EQ(told[0].column, mistake.told_column);
    EXPECT_EQ(told[0].text.find(mistake.text), 0u) << told[0].text;
    EXPECT_TRUE(told[0].value < told[0].least || told[0].value > told[0].most ||
                told[0].text.find("as is") != std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Checked, testing::ValuesIn(checked_makers()),
                         [](const auto& maker) { return std::string(maker.param.name); });

TEST(CheckedCalls, TheNextCallTellsAFaultOnce) {
  const Context own = make_context([](quern_context_options& options) { options.flags |= QUERN_CONTEXT_CHECKED; });
  Built bad = checked_maker("gather").make();
  auto error = sized<quern_error>();
  bad.mistakes[0].array->set_integer(77, 1);
  ASSERT_EQ(bad.trial->run(own.get(), &error), QUERN_OK) << error.text;
  Built good = checked_maker("gather").make();
  EXPECT_EQ(good.trial->run(own.get(), &error), QUERN_FAULT);
  EXPECT_NE(std::string(error.text).find("call 1 of gather: ids[1] is 77"), std::string::npos) << error.text;
  EXPECT_TRUE(good.trial->has_written_nothing());
  EXPECT_EQ(good.trial->run(own.get(), &error), QUERN_OK) << error.text;
  EXPECT_FALSE(good.trial->has_written_nothing());
  EXPECT_EQ(faults(own.get()).size(), 1u);
  EXPECT_TRUE(faults(own.get()).empty());
}

// A fault is an event, too, once each, with the op and the sentence.
TEST(CheckedCalls, FaultsAreEvents) {
  struct Heard {
    std::mutex mutex;
    std::vector<std::string> faults;
  } heard;
  {
    const Context own = make_context([&](quern_context_options& options) {
      options.flags |= QUERN_CONTEXT_CHECKED;
      options.event_user = &heard;
      options.event = [](void* user, const quern_event* event) {
        if (event->kind != QUERN_EVENT_FAULT) return;
        auto& told = *static_cast<Heard*>(user);
        const std::lock_guard lock(told.mutex);
        EXPECT_EQ(event->status, QUERN_FAULT);
        told.faults.push_back(std::string(event->op) + ": " + event->text);
      };
    });
    Built bad = checked_maker("gather").make();
    auto error = sized<quern_error>();
    bad.mistakes[0].array->set_integer(77, 1);
    ASSERT_EQ(bad.trial->run(own.get(), &error), QUERN_OK) << error.text;
    synchronize();
    EXPECT_EQ(faults(own.get()).size(), 1u);
  }
  const std::lock_guard lock(heard.mutex);
  ASSERT_EQ(heard.faults.size(), 1u);
  EXPECT_NE(heard.faults[0].find("gather"), std::string::npos) << heard.faults[0];
  EXPECT_NE(heard.faults[0].find("ids[1] is 77"), std::string::npos) << heard.faults[0];
}

// The padding is the id of a row of out, and comes more than once although no id may.
TEST(CheckedCalls, PaddingMayComeManyTimes) {
  faults(checked());
  Trial trial("scatter");
  auto args = sized<quern_scatter_args>();
  args.x = trial.numbers(Element::f16, {6, 16}).tensor(), args.ids = trial.integers({6}, {2, 4, 2, 0, 2, 2}).tensor();
  args.out = trial.written(Element::f16, {5, 16}).tensor(), args.padding = 2;
  args.flags = QUERN_SCATTER_UNIQUE | QUERN_SCATTER_HAS_PADDING;
  trial.calls(QUERN_CALLS(scatter), args);
  auto error = sized<quern_error>();
  ASSERT_EQ(trial.run(checked(), &error), QUERN_OK) << error.text;
  EXPECT_FALSE(trial.has_written_nothing());
  EXPECT_TRUE(faults(checked()).empty());
}

TEST(CheckedCalls, HaveKernelsOfTheirOwnAndTheSameResults) {
  const Maker& maker = checked_maker("moe_combine");
  Built plain = maker.make(), same = maker.make();
  auto error = sized<quern_error>();
  ASSERT_EQ(plain.trial->run(context(), &error), QUERN_OK) << error.text;
  ASSERT_EQ(same.trial->run(checked(), &error), QUERN_OK) << error.text;
  quern_list* list = nullptr;
  EXPECT_EQ(quern_faults(context(), &list, nullptr, &error), QUERN_INVALID);
  EXPECT_NE(std::string(error.text).find("QUERN_CONTEXT_CHECKED"), std::string::npos);
}

// More than are kept: the others are counted.
TEST(CheckedCalls, MoreFaultsThanAreKeptAreCounted) {
  const Context own = make_context([](quern_context_options& options) { options.flags |= QUERN_CONTEXT_CHECKED; });
  Built bad = checked_maker("gather").make();
  auto error = sized<quern_error>();
  bad.mistakes[0].array->set_integer(77, 1);
  ASSERT_EQ(bad.trial->run(own.get(), &error), QUERN_OK) << error.text;
  constexpr std::uint64_t kKept = 1024, kMore = 30;
  std::uint64_t ran = 1;
  while (ran < kKept + kMore) {
    const std::int32_t status = bad.trial->enqueue(own.get(), nullptr, &error);
    ASSERT_TRUE(status == QUERN_OK || status == QUERN_FAULT) << error.text;
    if (status == QUERN_OK) ++ran;  // else it has told the one before, and has not run
  }
  synchronize();
  std::uint64_t total = 0;
  const std::vector<Told> told = faults(own.get(), &total);
  EXPECT_EQ(total, ran);
  // A GPU that tells more than the host reads meanwhile leaves some out, and counts them.
  if (on_cuda()) {
    ASSERT_TRUE(!told.empty() && told.size() <= kKept) << told.size();
  } else {
    ASSERT_EQ(told.size(), kKept);
  }
  EXPECT_EQ(told.front().text.find("ids[1] is 77"), 0u) << told.front().text;
  EXPECT_EQ(faults(own.get(), &total).size(), 0u);
  EXPECT_EQ(total, 0u);
}

// What prepare needs in such a context, warm makes.
TEST(CheckedCalls, WarmingMakesTheKernelThatWalks) {
  const std::string line = "gather * table=f16 out=f16 width=8\ngather * table=bf16 out=bf16 width=8\n";
  const auto walks = [&](quern_context* in) {
    int count = 0;
    for (const Warmed& made : warm(in, {}, line)) {
      EXPECT_NE(made.outcome, QUERN_WARM_FAILED) << made.text;
      count += made.op == "index_check";
    }
    return count;
  };
  EXPECT_EQ(walks(checked()), 1);
  EXPECT_EQ(walks(context()), 0);
}

// A captured call is checked in each replay, by what the tensors hold then.
TEST(CheckedCalls, AreCheckedInGraphs) {
  if (!on_cuda()) GTEST_SKIP() << "there are no graphs on the host";
  faults(checked());
  Built built = checked_maker("paged_attention").make();
  auto error = sized<quern_error>();
  ASSERT_EQ(built.trial->run(checked(), &error), QUERN_OK) << error.text;
  const Stream stream;
  const Graph graph(stream,
                    [&] { EXPECT_EQ(built.trial->enqueue(checked(), stream.get(), &error), QUERN_OK) << error.text; });
  Array& pages = *built.mistakes[5].array;
  for (int round = 0; round < 4; ++round) {
    pages.set_integer(round % 2 == 0 ? 4 : 99, 0, 2);
    for (Array* output : built.trial->outputs()) output->poison();
    built.trial->upload();
    synchronize();
    graph.launch(stream);
    stream.synchronize();
    built.trial->download();
    EXPECT_EQ(built.trial->has_written_nothing(), round % 2 == 1);
    EXPECT_EQ(faults(checked()).size(), round % 2 == 1 ? 1u : 0u);
  }
}

}  // namespace
}  // namespace quern::test
