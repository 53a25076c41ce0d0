// The checked form of calls: index tensors that lead out of what they point into are told of by name, on every device,
// and the call's kernels write nothing; kernels print.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/ops/array.h"
#include "tests/ops/cuda.h"
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
      rank == 4   ? made.set(value, a, b, c, d)
      : rank == 3 ? made.set(value, a, b, c)
      : rank == 2 ? made.set(value, a, b)
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

  // The same call on a stream, workspace and kernels being ready.
  std::int32_t enqueue(quern_context* in, void* stream, quern_error* error) { return enqueue_(in, stream, error); }
  void upload() {
    for (const auto& array : arrays_) array->upload();
  }
  void download() {
    for (const auto& array : arrays_) array->download();
  }

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
    enqueue_ = [this, op, args](quern_context* in, void* stream, quern_error* error) mutable {
      args.workspace = workspace_->data(), args.workspace_size = workspace_->size();
      args.stream = stream;
      return op.run(in, &args, error);
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
  const std::vector<Array*>& outputs() const { return outputs_; }

 private:
  std::string op_;
  Random random_{"checked"};
  std::vector<std::unique_ptr<Array>> arrays_;
  std::vector<Array*> outputs_;
  std::unique_ptr<Buffer> workspace_;
  std::function<std::int32_t(quern_context*, quern_error*)> run_;
  std::function<std::int32_t(quern_context*, void*, quern_error*)> enqueue_;
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

#define QUERN_CALLS(op) \
  ThreeCalls<quern_##op##_args> { quern_##op, quern_##op##_workspace, quern_##op##_prepare }

Built gather() {
  auto t = std::make_unique<Trial>("gather");
  auto args = sized<quern_gather_args>();
  Array& ids = t->integers({3}, {4, 0, 2});
  args.table = t->numbers(Element::f16, {5, 16}).tensor(), args.ids = ids.tensor();
  args.out = t->written(Element::f16, {3, 16}).tensor();
  t->calls(QUERN_CALLS(gather), args);
  return {std::move(t),
          {{&ids, 1, kNone, 5, "ids", 1, -1, "ids[1] is 5; allowed: 0 to 4, table's rows"},
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

Built mla_decode(bool slots) {
  auto t = std::make_unique<Trial>("mla_decode");
  auto args = sized<quern_mla_decode_args>();
  Array& lengths = t->integers({2}, {9, 3});
  Array& table = t->integers({2, 2}, {2, 0, 1, 7});
  Array& indices = slots ? t->integers({2, 3}, {5, -1, 23, 0, 1, 2}) : t->integers({2, 3}, {8, -1, 0, 0, 1, 2});
  args.q = t->numbers(Element::bf16, {2, 16, 80}).tensor();
  args.cache = t->numbers(Element::bf16, {3, 8, 80}).tensor();
  args.out = t->written(Element::bf16, {2, 16, 64}).tensor(), args.indices = indices.tensor(), args.scale = 0.1f;
  std::vector<Spoiled> mistakes;
  if (slots) {
    args.flags = QUERN_MLA_SLOTS;
    mistakes = {{&indices, 1, 2, 24, "indices", 1, 2, "indices[1][2] is 24; allowed: -1 to 23, the pool's places"}};
  } else {
    args.lengths = lengths.tensor(), args.page_table = table.tensor(), args.max_kv_len = 16;
    mistakes = {{&indices, 0, 0, 9, "indices", 0, 0, "indices[0][0] is 9; allowed: -1 to 8, the sequence's length"},
                {&table, 0, 1, 3, "page_table", 0, 1, "page_table[0][1] (sequence 0) is 3; allowed: 0 to 2"},
                {&lengths, 1, kNone, 17, "lengths", 1, -1, "lengths[1] (sequence 1) is 17; allowed: 0 to 16"}};
  }
  t->calls(QUERN_CALLS(mla_decode), args);
  return {std::move(t), std::move(mistakes)};
}
Built mla_by_table() { return mla_decode(false); }
Built mla_by_slots() { return mla_decode(true); }

Built mla_append() {
  auto t = std::make_unique<Trial>("mla_append");
  auto args = sized<quern_mla_append_args>();
  Array& slots = t->integers({2}, {7, -1});
  args.kv = t->numbers(Element::bf16, {2, 80}).tensor(), args.cache = t->written(Element::bf16, {2, 4, 80}).tensor();
  args.slots = slots.tensor(), args.d_rope = 16;
  t->calls(QUERN_CALLS(mla_append), args);
  return {std::move(t), {{&slots, 1, kNone, 8, "slots", 1, -1, "slots[1] (token 1) is 8; allowed: 0 to 7, cache's"}}};
}

Built index_scores() {
  auto t = std::make_unique<Trial>("index_scores");
  auto args = sized<quern_index_scores_args>();
  Array& lengths = t->integers({2}, {9, 3});
  Array& table = t->integers({2, 2}, {2, 0, 1, 7});
  args.q = t->numbers(Element::e4m3, {2, 4, 64}).tensor(), args.weights = t->numbers(Element::f32, {2, 4}).tensor();
  args.k = t->numbers(Element::e4m3, {3, 8, 64}).tensor(), args.out = t->written(Element::f32, {2, 16}).tensor();
  args.lengths = lengths.tensor(), args.page_table = table.tensor();
  t->calls(QUERN_CALLS(index_scores), args);
  return {std::move(t),
          {{&table, 1, 0, -2, "page_table", 1, 0, "page_table[1][0] (sequence 1) is -2; allowed: 0 to 2, k's pages"},
           {&lengths, 0, kNone, 17, "lengths", 0, -1, "lengths[0] (sequence 0) is 17; allowed: 0 to 16"}}};
}

Built kv_copy_pages() {
  auto t = std::make_unique<Trial>("kv_copy_pages");
  auto args = sized<quern_kv_copy_pages_args>();
  Array& from = t->integers({3}, {1, 9, 2});
  Array& to = t->integers({3}, {0, -1, 3});
  args.k = t->numbers(Element::f16, {3, 4, 1, 8}).tensor(), args.v = t->numbers(Element::f16, {3, 4, 1, 8}).tensor();
  args.k_to = t->written(Element::f16, {4, 4, 1, 8}).tensor(),
  args.v_to = t->written(Element::f16, {4, 4, 1, 8}).tensor();
  args.sources = from.tensor(), args.destinations = to.tensor();
  t->calls(QUERN_CALLS(kv_copy_pages), args);
  return {std::move(t),
          {{&to, 1, kNone, 1, "sources", 1, -1, "sources[1] is 9; allowed: 0 to 2, k's and v's pages"},
           {&to, 2, kNone, 4, "destinations", 2, -1, "destinations[2] is 4; allowed: 0 to 3, k_to's and v_to's"}}};
}

Built rope() {
  auto t = std::make_unique<Trial>("rope");
  auto args = sized<quern_rope_args>();
  static quern_rope_options options;
  options = sized<quern_rope_options>();
  Array& positions = t->integers({2}, {4, -1});
  args.q = t->numbers(Element::f32, {2, 1, 16}).tensor(), args.q_out = t->written(Element::f32, {2, 1, 16}).tensor();
  options.table = t->numbers(Element::f32, {5, 16}).tensor();
  args.positions = positions.tensor(), args.rope = &options;
  t->calls(QUERN_CALLS(rope), args);
  return {std::move(t),
          {{&positions, 0, kNone, 5, "positions", 0, -1, "positions[0] (token 0) is 5; allowed: 0 to 4"}}};
}

Built scatter() {
  auto t = std::make_unique<Trial>("scatter");
  auto args = sized<quern_scatter_args>();
  Array& ids = t->integers({3}, {4, 0, 2});
  args.x = t->numbers(Element::f16, {3, 16}).tensor(), args.ids = ids.tensor();
  args.out = t->written(Element::f16, {5, 16}).tensor(), args.flags = QUERN_SCATTER_UNIQUE;
  t->calls(QUERN_CALLS(scatter), args);
  return {std::move(t),
          {{&ids, 1, kNone, 5, "ids", 1, -1, "ids[1] is 5; allowed: 0 to 4, out's rows"},
           {&ids, 2, kNone, 4, "ids", 2, -1, "ids[2] is 4, as is ids[0]; QUERN_SCATTER_UNIQUE says"}}};
}

Built sort() {
  auto t = std::make_unique<Trial>("sort");
  auto args = sized<quern_sort_args>();
  Array& offsets = t->integers({4}, {0, 3, 3, 8});
  args.keys = t->numbers(Element::f32, {1, 8}).tensor(), args.keys_out = t->written(Element::f32, {1, 8}).tensor();
  args.offsets = offsets.tensor(), args.max_segment = 5;
  t->calls(QUERN_CALLS(sort), args);
  return {std::move(t),
          {{&offsets, 3, kNone, 9, "offsets", 3, -1, "offsets[3] (the end of segment 2) is 9"},
           {&offsets, 2, kNone, 2, "offsets", 2, -1, "offsets[2] (the end of segment 1) is 2"},
           {&offsets, 2, kNone, 0, "offsets", 2, -1, "offsets[2]"}}};
}

Built top_k() {
  auto t = std::make_unique<Trial>("top_k");
  auto args = sized<quern_top_k_args>();
  Array& lengths = t->integers({2}, {8, 5});
  args.x = t->numbers(Element::f32, {2, 8}).tensor(), args.lengths = lengths.tensor();
  args.ids = t->written(IntegerBits{32}, {2, 3}).tensor();
  t->calls(QUERN_CALLS(top_k), args);
  return {std::move(t), {{&lengths, 1, kNone, 9, "lengths", 1, -1, "lengths[1] (row 1) is 9; allowed: 0 to 8"}}};
}

Built nms() {
  auto t = std::make_unique<Trial>("nms");
  auto args = sized<quern_nms_args>();
  Array& lengths = t->integers({1}, {4});
  args.boxes = t->numbers(Element::f32, {1, 4, 4}).tensor(), args.scores = t->numbers(Element::f32, {1, 4}).tensor();
  args.lengths = lengths.tensor(), args.ids = t->written(IntegerBits{32}, {1, 4}).tensor(), args.iou_threshold = 0.5f;
  t->calls(QUERN_CALLS(nms), args);
  return {std::move(t), {{&lengths, 0, kNone, 5, "lengths", 0, -1, "lengths[0] (image 0) is 5; allowed: 0 to 4"}}};
}

Built grouped_fp8_gemm() {
  auto t = std::make_unique<Trial>("grouped_fp8_gemm");
  auto args = sized<quern_grouped_fp8_gemm_args>();
  Array& offsets = t->integers({3}, {0, 2, 3});
  Array& indices = t->integers({4}, {3, 0, 1, 99});
  args.a = t->numbers(Element::e4m3, {4, 128}).tensor(), args.b = t->numbers(Element::e4m3, {2, 128, 128}).tensor();
  args.scale_a = t->numbers(Element::f32, {4, 1}).tensor(), args.scale_b = t->numbers(Element::f32, {2, 1, 1}).tensor();
  args.offsets = offsets.tensor(), args.indices = indices.tensor();
  args.out = t->written(Element::bf16, {4, 128}).tensor();
  t->calls(QUERN_CALLS(grouped_fp8_gemm), args);
  return {std::move(t),
          {{&indices, 2, kNone, 4, "indices", 2, -1, "indices[2] (row 2 of out) is 4; allowed: 0 to 3"},
           {&offsets, 2, kNone, 5, "offsets", 2, -1, "offsets[2] (the end of expert 1) is 5"}}};
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
    EXPECT_TRUE(told[0].value < told[0].least || told[0].value > told[0].most ||
                told[0].text.find("as is") != std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ops, Checked,
    testing::Values(Maker{"gather", gather}, Maker{"moe_combine", moe_combine},
                    Maker{"paged_attention", paged_attention}, Maker{"indexed_attention", indexed_attention},
                    Maker{"append_by_lengths", append_by_lengths}, Maker{"append_by_positions", append_by_positions},
                    Maker{"conv1d", conv1d}, Maker{"verify_draft", verify_draft}, Maker{"mla_by_table", mla_by_table},
                    Maker{"mla_by_slots", mla_by_slots}, Maker{"mla_append", mla_append},
                    Maker{"index_scores", index_scores}, Maker{"kv_copy_pages", kv_copy_pages}, Maker{"rope", rope},
                    Maker{"scatter", scatter}, Maker{"sort", sort}, Maker{"top_k", top_k}, Maker{"nms", nms},
                    Maker{"grouped_fp8_gemm", grouped_fp8_gemm}),
    [](const auto& maker) { return std::string(maker.param.name); });

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

// A captured call is checked in each replay, by what the tensors hold then.
TEST(CheckedCalls, AreCheckedInGraphs) {
  if (!on_cuda()) GTEST_SKIP() << "there are no graphs on the host";
  faults(checked());
  Built built = attention(false);
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

// The kernel hangs until its line has been read.
class Printing {
 public:
  Printing(std::uint32_t flags, std::chrono::milliseconds patience)
      : patience_(patience), own_(make_context([&](quern_context_options& options) {
          options.flags |= flags, options.log = Heard::log, options.log_user = &heard;
          options.log_level = QUERN_LOG_ERROR;  // which is not for what kernels print
        })) {}

  void run() {
    auto source = sized<quern_source>();
    source.name = "printing.cu", source.text = kPrinting;
    auto desc = sized<quern_kernel_desc>();
    desc.source = &source, desc.entry = "printing";
    auto error = sized<quern_error>();
    quern_kernel* kernel = nullptr;
    ASSERT_EQ(quern_kernel_prepare(own_.get(), &desc, &kernel, &error), QUERN_OK) << error.text;
    stop_.set_integer(0, 0);
    stop_.upload(), out.upload();
    synchronize();
    std::unique_ptr<Stream> stream;
    if (on_cuda()) stream = std::make_unique<Stream>();
    // A launch on the host returns when all is done.
    std::thread watcher([&] { release_when_heard(); });
    const void *stop = stop_.box().tensor.data, *to = out.box().tensor.data;
    void* args[] = {&stop, &to};
    auto how = sized<quern_launch>();
    how.block_x = 32, how.args = args, how.arg_count = 2, how.stream = stream != nullptr ? stream->get() : nullptr;
    EXPECT_EQ(quern_kernel_launch(own_.get(), kernel, &how, &error), QUERN_OK) << error.text;
    watcher.join();
    synchronize();
    out.download();
  }

  Heard heard;
  Array out{IntegerBits{32}, {32}};
  bool in_time = false;

 private:
  void release_when_heard() {
    const auto until = std::chrono::steady_clock::now() + patience_;
    while (!in_time && std::chrono::steady_clock::now() < until) {
      in_time = heard.has("half of");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    if (on_cuda()) {
      cuda().cuCtxSetCurrent(cuda().context);
      stop_.set_integer(1, 0);
      stop_.upload();
    } else {
      __atomic_store_n(static_cast<std::uint32_t*>(stop_.box().tensor.data), 1u, __ATOMIC_RELEASE);
    }
  }

  const std::chrono::milliseconds patience_;
  Array stop_{IntegerBits{32}, {1}};
  Context own_;
};

TEST(CheckedCalls, KernelsPrintWhileTheyRun) {
  Printing printing(QUERN_CONTEXT_CHECKED, std::chrono::seconds(10));
  printing.run();
  EXPECT_TRUE(printing.in_time) << "the line came after the kernel's end, or never";
  EXPECT_EQ(printing.out.integer(31), 1);
  EXPECT_TRUE(printing.heard.has("block (0, 0, 0), thread 3: half of 7 is 3.5 0"));
}

// It has another key, and says nothing.
TEST(CheckedCalls, OrdinaryKernelsPrintNothing) {
  Printing printing(0, std::chrono::milliseconds(200));
  printing.run();
  EXPECT_FALSE(printing.in_time);
  EXPECT_EQ(printing.out.integer(31), 1);
}

}  // namespace
}  // namespace quern::test
