// The checked form of calls: index tensors that lead out of what they point into are told of by name, on every device,
// and the call's kernels write nothing; kernels print.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/ops/array.h"
#include "tests/ops/random.h"
#include "tests/ops/rows.h"

namespace quern::test {
namespace {

constexpr std::int64_t kNone = -1;

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

// A small call of an op that is right, with the index tensors that a test spoils.
class Trial {
 public:
  explicit Trial(std::string op) : op_(std::move(op)) {}

  Array& add(Array array) { return *arrays_.emplace_back(std::make_unique<Array>(std::move(array))); }
  Array& numbers(Element element, Array::Extents shape) {
    Array& made = add(Array(element, shape));
    std::vector<std::int64_t> extents = std::move(shape);
    extents.resize(4, 1);
    const auto rank = static_cast<int>(made.box().tensor.ndim);
    for (std::int64_t i = 0; i < extents[0] * extents[1] * extents[2] * extents[3]; ++i) {
      const std::int64_t d = i % extents[3], c = i / extents[3] % extents[2],
                         b = i / extents[3] / extents[2] % extents[1], a = i / extents[3] / extents[2] / extents[1];
      const double value = random_.normal();
      rank == 4 ? made.set(value, a, b, c, d) : rank == 3 ? made.set(value, a, b, c) : rank == 2 ? made.set(value, a, b)
                                                                                             : made.set(value, a);
    }
    return made;
  }
  Array& integers(Array::Extents shape, const std::vector<std::int64_t>& values) {
    Array& made = add(Array(IntegerBits{32}, shape));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      shape.size() == 2 ? made.set_integer(values[i], at / shape[1], at % shape[1]) : made.set_integer(values[i], at);
    }
    return made;
  }
  Array& written(Element element, Array::Extents shape) { return *outputs_.emplace_back(&add(Array(element, shape))); }
  Array& written(IntegerBits bits, Array::Extents shape) { return *outputs_.emplace_back(&add(Array(bits, shape))); }

  template <class Args>
  void calls(const ThreeCalls<Args>& op, Args args) {
    run_ = [this, op, args](quern_context* in, quern_error* error) mutable {
      std::uint64_t bytes = 0;
      std::int32_t status = op.workspace(in, &args, &bytes, error);
      if (workspace_ == nullptr) workspace_ = std::make_unique<Buffer>(bytes, 0);
      args.workspace = bytes != 0 ? workspace_->data() : nullptr, args.workspace_size = bytes;
      if (status == QUERN_OK) status = op.prepare(in, &args, error);
      args.flags |= QUERN_CALL_CACHED_ONLY;
      return status != QUERN_OK ? status : op.run(in, &args, error);
    };
  }

  // Runs it with what the arrays hold, outputs poisoned before.
  std::int32_t run(quern_context* in, quern_error* error) {
    for (const auto& array : arrays_) array->upload();
    const std::int32_t status = run_(in, error);
    synchronize();
    for (const auto& array : arrays_) array->download();
    return status;
  }
  bool has_written_nothing() const {
    for (const Array* output : outputs_) {
      for (const unsigned char byte : output->memory())
        if (byte != 0xff) return false;
    }
    return true;
  }
  const std::string& op() const { return op_; }

 private:
  std::string op_;
  Random random_{"checked"};
  std::vector<std::unique_ptr<Array>> arrays_;
  std::vector<Array*> outputs_;
  std::unique_ptr<Buffer> workspace_;
  std::function<std::int32_t(quern_context*, quern_error*)> run_;
};

// How an index tensor is spoiled, and what must be told.
struct Spoiled {
  Array* array;
  std::int64_t row, column;  // column kNone: the array has one dimension
  std::int64_t value;
  const char* argument;
  std::int64_t told_row, told_column;
  const char* text;
};
struct Built {
  std::unique_ptr<Trial> trial;
  std::vector<Spoiled> mistakes;
};

#define QUERN_CALLS(op) ThreeCalls<quern_##op##_args>{quern_##op, quern_##op##_workspace, quern_##op##_prepare}

Built gather() {
  auto t = std::make_unique<Trial>("gather");
  auto args = sized<quern_gather_args>();
  Array& ids = t->integers({3}, {4, 0, 2});
  args.table = t->numbers(Element::f16, {5, 16}).tensor(), args.ids = ids.tensor();
  args.out = t->written(Element::f16, {3, 16}).tensor();
  t->calls(QUERN_CALLS(gather), args);
  return {std::move(t), {{&ids, 1, kNone, 5, "ids", 1, -1, "ids[1] is 5; allowed: 0 to 4, table's rows"},
                         {&ids, 2, kNone, -1, "ids", 2, -1, "ids[2] is -1; allowed: 0 to 4"}}};
}

Built moe_combine() {
  auto t = std::make_unique<Trial>("moe_combine");
  auto args = sized<quern_moe_combine_args>();
  Array& positions = t->integers({2, 2}, {0, 3, -1, 2});
  args.x = t->numbers(Element::f32, {4, 8}).tensor(), args.positions = positions.tensor();
  args.out = t->written(Element::f32, {2, 8}).tensor();
  t->calls(QUERN_CALLS(moe_combine), args);
  return {std::move(t), {{&positions, 1, 1, 4, "positions", 1, 1, "positions[1][1] (token 1) is 4; allowed: -1 to 3"}}};
}

Built attention(bool indptr) {
  auto t = std::make_unique<Trial>("attention");
  auto args = sized<quern_attention_args>();
  constexpr std::int64_t kHeads = 2, kDim = 64, kPage = 4;
  Array& lengths = t->integers({3}, {9, 1, 6});
  Array& cu_q = t->integers({4}, {0, 2, 3, 4});
  Array& pages = indptr ? t->integers({6}, {3, 1, 4, 0, 5, 2}) : t->integers({3, 3}, {3, 1, 4, 0, 7, 7, 5, 2, 7});
  args.q = t->numbers(Element::f16, {4, kHeads, kDim}).tensor();
  args.k = t->numbers(Element::f16, {6, kPage, kHeads, kDim}).tensor();
  args.v = t->numbers(Element::f16, {6, kPage, kHeads, kDim}).tensor();
  args.out = t->written(Element::f16, {4, kHeads, kDim}).tensor();
  args.lse = t->written(Element::f32, {4, kHeads}).tensor();
  args.lengths = lengths.tensor(), args.cu_q = cu_q.tensor();
  args.max_kv_len = 12, args.max_q_len = 2, args.flags = QUERN_ATTENTION_CAUSAL;
  std::vector<Spoiled> mistakes = {
      {&lengths, 2, kNone, 13, "lengths", 2, -1, "lengths[2] (sequence 2) is 13; allowed: 0 to 12, max_kv_len"},
      {&lengths, 0, kNone, -4, "lengths", 0, -1, "lengths[0] (sequence 0) is -4"},
      {&cu_q, 1, kNone, 9, "cu_q", 1, -1, "cu_q[1] (the end of sequence 0) is 9; allowed: 0 to 4"},
      {&cu_q, 2, kNone, 0, "cu_q", 2, -1, "cu_q[2] (the end of sequence 1) is 0; allowed: 2 to 4"},
      {&cu_q, 1, kNone, 0, "cu_q", 1, -1, "cu_q (the queries of sequence 1) is 3; allowed: 0 to 2, max_q_len"}};
  if (indptr) {
    Array& offsets = t->integers({4}, {0, 3, 4, 6});
    args.page_indptr = offsets.tensor(), args.page_indices = pages.tensor();
    mistakes.push_back({&offsets, 3, kNone, 7, "page_indptr", 3, -1, "page_indptr[3] (the end of sequence 2) is 7"});
    mistakes.push_back({&offsets, 1, kNone, 1, "lengths", 0, -1, "lengths[0] (sequence 0) is 9; allowed: 0 to 4"});
    mistakes.push_back({&pages, 5, kNone, 6, "page_indices", 5, -1,
                        "page_indices[5] (sequence 2, keys 4 to 5) is 6; allowed: 0 to 5, the pages of k and v"});
  } else {
    args.page_table = pages.tensor();
    mistakes.push_back({&pages, 0, 2, 1000000, "page_table", 0, 2,
                        "page_table[0][2] (sequence 0, keys 8 to 8) is 1000000; allowed: 0 to 5"});
    mistakes.push_back({&pages, 2, 1, -1, "page_table", 2, 1, "page_table[2][1] (sequence 2, keys 4 to 5) is -1"});
  }
  t->calls(QUERN_CALLS(attention), args);
  return {std::move(t), std::move(mistakes)};
}
Built paged_attention() { return attention(false); }
Built indexed_attention() { return attention(true); }

Built append(bool by_positions) {
  auto t = std::make_unique<Trial>("kv_append");
  auto args = sized<quern_kv_append_args>();
  constexpr std::int64_t kDim = 8, kPage = 4;
  Array& cu_q = t->integers({3}, {0, 2, 3});
  Array& table = t->integers({2, 2}, {3, 1, 0, 2});
  args.k = t->numbers(Element::f32, {3, 1, kDim}).tensor(), args.v = t->numbers(Element::f32, {3, 1, kDim}).tensor();
  args.k_cache = t->written(Element::f32, {4, kPage, 1, kDim}).tensor();
  args.v_cache = t->written(Element::f32, {4, kPage, 1, kDim}).tensor();
  args.cu_q = cu_q.tensor(), args.page_table = table.tensor();
  std::vector<Spoiled> mistakes = {
      {&table, 1, 1, 4, "page_table", 1, 1, "page_table[1][1] (sequence 1) is 4; allowed: 0 to 3, k_cache's pages"},
      {&cu_q, 2, kNone, 4, "cu_q", 2, -1, "cu_q[2] (the end of sequence 1) is 4"}};
  if (by_positions) {
    Array& positions = t->integers({3}, {6, -1, 5});
    args.positions = positions.tensor();
    mistakes.push_back({&positions, 0, kNone, 8, "positions", 0, -1,
                        "positions[0] (token 0), of sequence 0, is 8; allowed: 0 to 7, the places of the"});
  } else {
    Array& lengths = t->integers({2}, {5, 6});
    args.lengths = lengths.tensor();
    mistakes.push_back({&lengths, 0, kNone, 1, "lengths", 0, -1, "lengths[0] (sequence 0) is 1; allowed: 2 to 8"});
    mistakes.push_back({&lengths, 1, kNone, 9, "lengths", 1, -1, "lengths[1] (sequence 1) is 9; allowed: 1 to 8"});
  }
  t->calls(QUERN_CALLS(kv_append), args);
  return {std::move(t), std::move(mistakes)};
}
Built append_by_lengths() { return append(false); }
Built append_by_positions() { return append(true); }

Built conv1d() {
  auto t = std::make_unique<Trial>("conv1d");
  auto args = sized<quern_conv1d_args>();
  Array& offsets = t->integers({4}, {0, 2, 2, 5});
  Array& ids = t->integers({3}, {4, -1, 1});
  args.x = t->numbers(Element::f32, {5, 8}).tensor(), args.weight = t->numbers(Element::f32, {8, 4}).tensor();
  args.state = t->numbers(Element::f32, {5, 3, 8}).tensor(), args.state_ids = ids.tensor();
  args.offsets = offsets.tensor(), args.out = t->written(Element::f32, {5, 8}).tensor();
  t->calls(QUERN_CALLS(conv1d), args);
  return {std::move(t),
          {{&ids, 2, kNone, 4, "state_ids", 2, -1, "state_ids[2] is 4, as is state_ids[0]; no slot may come twice"},
           {&ids, 1, kNone, 5, "state_ids", 1, -1, "state_ids[1] (sequence 1) is 5; allowed: -1 to 4"},
           {&offsets, 0, kNone, -1, "offsets", 0, -1, "offsets[0] (sequence 0) is -1; allowed: 0 to 5"}}};
}

Built verify_draft() {
  auto t = std::make_unique<Trial>("verify_draft");
  auto args = sized<quern_verify_draft_args>();
  Array& drafts = t->integers({2, 3}, {1, 4, 2, 0, 3, 99});
  Array& parents = t->integers({2, 3}, {-1, -1, 1, -1, 0, 99});
  Array& lengths = t->integers({2}, {3, 2});
  args.target = t->numbers(Element::f32, {2, 4, 5}).tensor(), args.flags = QUERN_VERIFY_GREEDY;
  args.draft_ids = drafts.tensor(), args.parents = parents.tensor(), args.lengths = lengths.tensor();
  args.accepted = t->written(IntegerBits{32}, {2}).tensor(), args.ids = t->written(IntegerBits{32}, {2, 4}).tensor();
  t->calls(QUERN_CALLS(verify_draft), args);
  return {std::move(t),
          {{&drafts, 1, 1, 5, "draft_ids", 1, 1, "draft_ids[1][1] is 5; allowed: 0 to 4"},
           {&parents, 0, 2, 2, "parents", 0, 2, "parents[0][2] is 2; allowed: -1 to 1, a node before this one"},
           {&lengths, 1, kNone, 4, "lengths", 1, -1, "lengths[1] (sequence 1) is 4; allowed: 0 to 3"}}};
}

struct Maker {
  const char* name;
  Built (*make)();
};
std::ostream& operator<<(std::ostream& out, const Maker& maker) { return out << maker.name; }

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
    EXPECT_TRUE(told[0].value < told[0].least || told[0].value > told[0].most || bad.trial->op() == "conv1d");
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Checked,
                         testing::Values(Maker{"gather", gather}, Maker{"moe_combine", moe_combine},
                                         Maker{"paged_attention", paged_attention},
                                         Maker{"indexed_attention", indexed_attention},
                                         Maker{"append_by_lengths", append_by_lengths},
                                         Maker{"append_by_positions", append_by_positions}, Maker{"conv1d", conv1d},
                                         Maker{"verify_draft", verify_draft}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CheckedCalls, TheNextCallTellsAFaultOnce) {
  const Context own = make_context([](quern_context_options& options) { options.flags |= QUERN_CONTEXT_CHECKED; });
  Built bad = gather();
  auto error = sized<quern_error>();
  bad.mistakes[0].array->set_integer(77, 1);
  ASSERT_EQ(bad.trial->run(own.get(), &error), QUERN_OK) << error.text;
  Built good = gather();
  EXPECT_EQ(good.trial->run(own.get(), &error), QUERN_FAULT);
  EXPECT_NE(std::string(error.text).find("call 1 of gather: ids[1] is 77"), std::string::npos) << error.text;
  EXPECT_TRUE(good.trial->has_written_nothing());
  EXPECT_EQ(good.trial->run(own.get(), &error), QUERN_OK) << error.text;
  EXPECT_FALSE(good.trial->has_written_nothing());
  EXPECT_EQ(faults(own.get()).size(), 1u);
  EXPECT_TRUE(faults(own.get()).empty());
}

TEST(CheckedCalls, HaveKernelsOfTheirOwnAndTheSameResults) {
  Built plain = moe_combine(), same = moe_combine();
  auto error = sized<quern_error>();
  ASSERT_EQ(plain.trial->run(context(), &error), QUERN_OK) << error.text;
  ASSERT_EQ(same.trial->run(checked(), &error), QUERN_OK) << error.text;
  quern_list* list = nullptr;
  EXPECT_EQ(quern_faults(context(), &list, nullptr, &error), QUERN_INVALID);
  EXPECT_NE(std::string(error.text).find("QUERN_CONTEXT_CHECKED"), std::string::npos);
}

// What a context with its own log is told.
struct Heard {
  std::mutex mutex;
  std::vector<std::string> lines;
  static void log(void* user, std::int32_t, const char* text) {
    auto* const heard = static_cast<Heard*>(user);
    const std::lock_guard lock(heard->mutex);
    heard->lines.emplace_back(text);
  }
  bool has(const std::string& text) {
    const std::lock_guard lock(mutex);
    for (const std::string& line : lines)
      if (line.find(text) != std::string::npos) return true;
    return false;
  }
};

constexpr const char* kPrinting = R"(
#include "quern/kernel.cuh"
namespace q {
QUERN_DEVICE void work(const u32* stop, u32* out) {
  if (thread_index() == 3) print("half of {} is {} {}", 7, 3.5f, stop == nullptr);
  // Until the line has been read: a kernel that hangs unless somebody listens while it runs.
  while (load_volatile(stop) == 0) {
  }
  out[thread_index()] = 1;
}
}
QUERN_KERNEL(printing, 32, 1, const q::u32* stop, q::u32* out) { q::work(stop, out); }
)";

// A line comes before its kernel ends.
TEST(CheckedCalls, KernelsPrintWhileTheyRun) {
  if (on_cuda()) GTEST_SKIP() << "the flag that ends the kernel lies in the host's memory";
  if (device_kind() == Kind::host64) GTEST_SKIP() << "the same as on host";
  struct Listener : Heard {
    std::uint32_t stop = 0;
    static void log(void* user, std::int32_t level, const char* text) {
      auto* const listener = static_cast<Listener*>(user);
      Heard::log(static_cast<Heard*>(listener), level, text);
      if (listener->has("half of")) __atomic_store_n(&listener->stop, 1u, __ATOMIC_RELEASE);
    }
  } listener;
  const auto launch = [&](std::uint32_t flags, std::uint32_t out[32]) {
    const Context own = make_context([&](quern_context_options& options) {
      options.flags |= flags, options.log = Listener::log, options.log_user = &listener;
      options.log_level = QUERN_LOG_INFO;
    });
    auto source = sized<quern_source>();
    source.name = "printing.cu", source.text = kPrinting;
    auto desc = sized<quern_kernel_desc>();
    desc.source = &source, desc.entry = "printing";
    auto error = sized<quern_error>();
    quern_kernel* kernel = nullptr;
    ASSERT_EQ(quern_kernel_prepare(own.get(), &desc, &kernel, &error), QUERN_OK) << error.text;
    const std::uint32_t* stop = &listener.stop;
    void* args[] = {&stop, &out};
    auto how = sized<quern_launch>();
    how.block_x = 32, how.args = args, how.arg_count = 2;
    ASSERT_EQ(quern_kernel_launch(own.get(), kernel, &how, &error), QUERN_OK) << error.text;
  };
  std::uint32_t out[32] = {};
  launch(QUERN_CONTEXT_CHECKED, out);
  EXPECT_EQ(out[31], 1u);
  EXPECT_TRUE(listener.has("block (0, 0, 0), thread 3: half of 7 is 3.5 0"));
  // In the ordinary form it says nothing, and has another key.
  listener.lines.clear();
  launch(0, out);
  EXPECT_FALSE(listener.has("half of"));
}

}  // namespace
}  // namespace quern::test
