// SPDX-License-Identifier: Apache-2.0
#include "sources/verify_draft/read.h"

#include <cmath>
#include <limits>
#include <string>

#include "jit/error.h"
#include "sources/index_data.h"
#include "sources/sample/edits.h"

namespace quern::ops::verify_draft {
namespace {

constexpr std::int64_t kMostVocab = 1 << 20, kMostBatch = 1 << 20;
constexpr std::uint32_t kFlags = QUERN_VERIFY_TEMPERATURE | QUERN_VERIFY_TOP_P | QUERN_VERIFY_JOINT |
                                 QUERN_VERIFY_LOGITS | QUERN_VERIFY_GREEDY | QUERN_VERIFY_WITHOUT_REPLACEMENT |
                                 QUERN_VERIFY_LOGPROBS_FILTERED;

Tensor read_ids(const DLTensor* given, const char* name, std::int64_t batch, std::int64_t columns, const Place& place) {
  const Tensor t = read(given, name, 2, {Dtype::i32}, place);
  expect_extent(t, name, 0, batch);
  if (columns >= 0) expect_extent(t, name, 1, columns);
  expect_unit_stride(t, name, 1);
  return t;
}

// A node's parent comes before it: held against that on `host`, where it is a matter of a loop.
void list_nodes(const q::VerifyParams& p, IndexList* list) {
  if (p.lengths != nullptr) list->in_range("lengths", p.lengths, p.batch, 0, p.n, "sequence", "draft_ids.shape[1]");
  list->rows_in_range("draft_ids", p.draft_ids, p.batch, p.n, p.draft_ids_stride, 0, p.vocab - 1, nullptr,
                      "target.shape[2] - 1")
      .counts = p.lengths;
  if (p.parents == nullptr) return;
  q::IndexCheck& parents = list->rows_in_range("parents", p.parents, p.batch, p.n, p.parents_stride, -1, 0, nullptr,
                                               "a node before this one");
  parents.kind = q::CheckKind::earlier, parents.counts = p.lengths;
}

// Strides of [batch, rows, vocab], its last 1.
Tensor read_rows_of_nodes(const DLTensor* given, const char* name, std::initializer_list<Dtype> allowed,
                          std::int64_t batch, std::int64_t rows, const Place& place) {
  const Tensor t = read(given, name, 3, allowed, place);
  expect_unit_stride(t, name, 2);
  expect_extent(t, name, 0, batch);
  expect_extent(t, name, 1, rows);
  return t;
}

class Reader {
 public:
  Reader(const quern_verify_draft_args& args, const Call& call) : args_(args), call_(call) {}

  Problem read() {
    problem_.sms = call_.sms;
    read_drafts();
    read_target();
    read_results();
    read_report();
    q::VerifyParams& p = problem_.params;
    p.seeds = read_row_numbers<q::i64>(args_.seeds, "seeds", Dtype::i64, p.batch, call_.place);
    p.offsets = read_row_numbers<q::i64>(args_.offsets, "offsets", Dtype::i64, p.batch, call_.place);
    p.seed = args_.seed, p.offset = args_.offset;
    p.without_replacement = flag(QUERN_VERIFY_WITHOUT_REPLACEMENT);
    if (p.without_replacement && (args_.draft == nullptr || greedy()))
      throw Error(QUERN_INVALID, "flags has QUERN_VERIFY_WITHOUT_REPLACEMENT; that needs draft");
    return problem_;
  }

 private:
  bool flag(std::uint32_t bit) const { return (args_.flags & bit) != 0; }
  bool greedy() const { return flag(QUERN_VERIFY_GREEDY); }

  void read_drafts() {
    q::VerifyParams& p = problem_.params;
    const Tensor ids = ops::read(args_.draft_ids, "draft_ids", 2, {Dtype::i32}, call_.place);
    expect_unit_stride(ids, "draft_ids", 1);
    if (ids.shape[0] > kMostBatch) refuse_extent("draft_ids", 0, ids.shape[0], "at most 2^20");
    if (ids.shape[1] > q::kMostDrafts) refuse_extent("draft_ids", 1, ids.shape[1], "0 to 256");
    p.batch = static_cast<q::i32>(ids.shape[0]), p.n = static_cast<q::i32>(ids.shape[1]);
    p.draft_ids = reinterpret_cast<const q::i32*>(ids.data), p.draft_ids_stride = ids.strides[0];
    if (args_.parents != nullptr) {
      const Tensor parents = read_ids(args_.parents, "parents", p.batch, p.n, call_.place);
      p.parents = reinterpret_cast<const q::i32*>(parents.data), p.parents_stride = parents.strides[0];
    }
    p.lengths = read_row_numbers<q::i32>(args_.lengths, "lengths", Dtype::i32, p.batch, call_.place);
  }

  void read_target() {
    q::VerifyParams& p = problem_.params;
    const bool any = flag(QUERN_VERIFY_LOGITS) || greedy();
    const auto read_as = [&](std::initializer_list<Dtype> allowed) {
      return read_rows_of_nodes(args_.target, "target", allowed, p.batch, p.n + 1, call_.place);
    };
    const Tensor target = any ? read_as({Dtype::f32, Dtype::f16, Dtype::bf16}) : read_as({Dtype::f32});
    if (target.shape[2] < 1 || target.shape[2] > kMostVocab) refuse_extent("target", 2, target.shape[2], "1 to 2^20");
    p.vocab = static_cast<q::i32>(target.shape[2]);
    problem_.given = problem_.target = target.dtype;
    if (!flag(QUERN_VERIFY_LOGITS)) refuse_edits();
    logits_ = target.data, logits_stride_ = target.strides[0], logits_row_stride_ = target.strides[1];
    read_edits(target);
    if (args_.draft != nullptr) {
      if (greedy()) throw Error(QUERN_INVALID, "draft is given; it must be NULL with QUERN_VERIFY_GREEDY");
      const Tensor draft = read_rows_of_nodes(args_.draft, "draft", {Dtype::f32}, p.batch, p.n, call_.place);
      expect_extent(draft, "draft", 2, p.vocab);
      p.draft = reinterpret_cast<const float*>(draft.data);
      p.draft_stride = draft.strides[0], p.draft_row_stride = draft.strides[1];
    }
    if (!greedy() && !flag(QUERN_VERIFY_LOGITS)) {
      refuse_parameters();
      p.target = target.data;
      p.target_stride = target.strides[0], p.target_row_stride = target.strides[1];
    } else if (greedy()) {
      refuse_parameters();
      problem_.before = Before::largest;
      p.least_value = flag(QUERN_VERIFY_LOGITS) ? -std::numeric_limits<float>::infinity() : 0.0f;
      q::ArgmaxParams& largest = problem_.largest;
      largest.logits = logits_, largest.lengths = p.lengths;
      largest.logits_stride = logits_row_stride_, largest.group_stride = logits_stride_;
      largest.rows = static_cast<q::i32>(problem_.rows()), largest.group = p.n + 1, largest.n = p.vocab;
    } else {
      read_kept();
    }
  }

  // Parameters that nothing would come of.
  void refuse_parameters() const {
    const struct {
      const char* name;
      bool given;
    } all[] = {{"temperatures", args_.temperatures != nullptr},
               {"top_ks", args_.top_ks != nullptr},
               {"top_ps", args_.top_ps != nullptr},
               {"min_ps", args_.min_ps != nullptr},
               {"temperature", flag(QUERN_VERIFY_TEMPERATURE)},
               {"top_p", flag(QUERN_VERIFY_TOP_P)},
               {"top_k", args_.top_k > 0},
               {"min_p", args_.min_p != 0.0f}};
    for (const auto& each : all) {
      if (each.given)
        throw Error(QUERN_INVALID, std::string(each.name) +
                                       " is given; allowed with QUERN_VERIFY_LOGITS, without QUERN_VERIFY_GREEDY");
    }
  }

  // What asks for logits where there are none.
  void refuse_edits() const {
    const struct {
      const char* name;
      bool given;
    } all[] = {{"logprobs", args_.logprobs != nullptr},
               {"repetitions", args_.repetitions != nullptr},
               {"presences", args_.presences != nullptr},
               {"frequencies", args_.frequencies != nullptr},
               {"prompt_mask", args_.prompt_mask != nullptr},
               {"prompt_tokens", args_.prompt_tokens != nullptr},
               {"prompt_lengths", args_.prompt_lengths != nullptr},
               {"output_counts", args_.output_counts != nullptr},
               {"output_tokens", args_.output_tokens != nullptr},
               {"output_lengths", args_.output_lengths != nullptr},
               {"bias_offsets", args_.bias_offsets != nullptr},
               {"bias_ids", args_.bias_ids != nullptr},
               {"bias_values", args_.bias_values != nullptr},
               {"allowed", args_.allowed != nullptr},
               {"banned", args_.banned != nullptr},
               {"repetition", args_.repetition != 0.0f && args_.repetition != 1.0f},
               {"presence", args_.presence != 0.0f},
               {"frequency", args_.frequency != 0.0f},
               {"max_bias", args_.max_bias != 0},
               {"QUERN_VERIFY_LOGPROBS_FILTERED", flag(QUERN_VERIFY_LOGPROBS_FILTERED)}};
    for (const auto& each : all) {
      if (each.given)
        throw Error(QUERN_INVALID, std::string(each.name) +
                                       " is given; allowed with QUERN_VERIFY_LOGITS: probabilities are not edited");
    }
  }

  // What edits target's logits: with any of it, what follows reads rows of f32 in the workspace.
  void read_edits(const Tensor& target) {
    const q::VerifyParams& p = problem_.params;
    q::EditParams& e = problem_.edit;
    q::SampleParams& s = e.of_sequences;
    s.count = p.batch, s.vocab = p.vocab, s.chunks = (p.vocab + q::kChunk - 1) / q::kChunk;
    const sample::EditArgs given = sample::edit_args_of(args_);
    sample::read_penalties(given, call_.place, &s);
    const std::int64_t listed = sample::read_edits(given, call_.place, &s);
    e.penalised = sample::penalises(s);
    sample::give_slots(listed + (e.penalised ? p.n : 0),
                       e.penalised ? "prompt_tokens, output_tokens, banned, max_bias and draft_ids"
                                   : "prompt_tokens, output_tokens, banned and max_bias",
                       call_.device->limits, &s);
    if (args_.allowed != nullptr) {
      const Tensor allowed = read_rows_of_nodes(args_.allowed, "allowed", {Dtype::i32}, p.batch, p.n + 1, call_.place);
      expect_extent(allowed, "allowed", 2, (p.vocab + 31) / 32);
      e.allowed = reinterpret_cast<const q::u32*>(allowed.data);
      e.allowed_stride = allowed.strides[0], e.allowed_row_stride = allowed.strides[1];
    }
    problem_.edits = sample::edits(given) || args_.allowed != nullptr;
    e.vectors = aligned_rows(target);
    if (!problem_.edits) return;
    e.target = target.data, e.target_stride = target.strides[0], e.target_row_stride = target.strides[1];
    e.draft_ids = p.draft_ids, e.draft_ids_stride = p.draft_ids_stride;
    e.parents = p.parents, e.parents_stride = p.parents_stride, e.lengths = p.lengths;
    e.rows = p.n + 1;
    constexpr std::int64_t kVector = 4;
    e.out_stride = (p.vocab + kVector - 1) / kVector * kVector;
    problem_.target = Dtype::f32;
    logits_ = nullptr, logits_row_stride_ = e.out_stride, logits_stride_ = e.out_stride * e.rows;
  }
  static bool aligned_rows(const Tensor& target) {
    const std::int64_t bytes = bytes_of(target.dtype);
    return reinterpret_cast<std::uintptr_t>(target.data) % 16 == 0 && target.strides[0] * bytes % 16 == 0 &&
           target.strides[1] * bytes % 16 == 0;
  }

  void read_kept() {
    q::VerifyParams& p = problem_.params;
    p.target = logits_, p.target_stride = logits_stride_, p.target_row_stride = logits_row_stride_;
    renormalise::Problem& made = problem_.filtered;
    made.shape.in = problem_.target, made.shape.logits = true;
    q::RenormaliseParams& r = made.params;
    r.in = logits_, r.in_group_stride = logits_stride_, r.in_stride = logits_row_stride_;
    r.rows = static_cast<q::i32>(problem_.rows()), r.group = p.n + 1, r.n = p.vocab;
    r.lengths = p.lengths;
    r.joint = flag(QUERN_VERIFY_JOINT);
    r.temperature.rows = read_row_numbers<float>(args_.temperatures, "temperatures", Dtype::f32, p.batch, call_.place);
    r.temperature.all = flag(QUERN_VERIFY_TEMPERATURE) ? args_.temperature : 1.0f;
    if (args_.temperatures == nullptr && !(r.temperature.all >= 0.0f && std::isfinite(r.temperature.all)))
      refuse_value("temperature", double{args_.temperature}, "0 and more, and finite");
    renormalise::read_limits(args_.top_ks, args_.top_ps, args_.min_ps, args_.top_k,
                             flag(QUERN_VERIFY_TOP_P) ? args_.top_p : 1.0f, args_.min_p, p.batch, call_.place, &r);
    renormalise::share_rows(&made, call_.sms, call_.device->limits);
    // Where nothing is taken away, softmax does the same in one pass.
    const bool filters = args_.top_ks != nullptr || args_.top_ps != nullptr || args_.min_ps != nullptr ||
                         r.top_k.all > 0 || r.top_p.all < 1.0f || r.min_p.all > 0.0f;
    problem_.before = filters ? Before::filtered : Before::whole;
    problem_.whole.shape.logits = problem_.target;
    q::SoftmaxParams& s = problem_.whole.params;
    s.logits = r.in, s.group_stride = r.in_group_stride, s.logits_stride = r.in_stride;
    s.rows = r.rows, s.group = r.group, s.n = r.n, s.lengths = r.lengths, s.temperature = r.temperature;
  }

  void read_results() {
    q::VerifyParams& p = problem_.params;
    const Place& place = call_.place;
    if (args_.accepted == nullptr) refuse_missing("accepted");
    p.accepted = read_row_numbers<q::i32>(args_.accepted, "accepted", Dtype::i32, p.batch, place);
    const Tensor ids = read_ids(args_.ids, "ids", p.batch, -1, place);
    expect_apart(ids, "ids");
    if (ids.shape[1] < 1 || ids.shape[1] > p.n + 1)
      refuse_extent("ids", 1, ids.shape[1], ("1 to draft_ids.shape[1] + 1: " + std::to_string(p.n + 1)).c_str());
    p.depth = static_cast<q::i32>(ids.shape[1]) - 1;
    p.ids = reinterpret_cast<q::i32*>(ids.data), p.ids_stride = ids.strides[0];
    if (args_.path != nullptr) {
      const Tensor path = read_ids(args_.path, "path", p.batch, p.depth, place);
      if (p.depth > 0) expect_apart(path, "path");
      p.path = reinterpret_cast<q::i32*>(path.data), p.path_stride = path.strides[0];
    }
    p.status = read_row_numbers<q::i32>(args_.status, "status", Dtype::i32, p.batch, place);
  }

  // What is told of the tokens that were written.
  void read_report() {
    const q::VerifyParams& p = problem_.params;
    q::ReportParams& r = problem_.report;
    if (args_.logprobs != nullptr) {
      const Tensor logprobs = ops::read(args_.logprobs, "logprobs", 2, {Dtype::f32}, call_.place);
      expect_extent(logprobs, "logprobs", 0, p.batch);
      expect_extent(logprobs, "logprobs", 1, p.depth + 1);
      expect_unit_stride(logprobs, "logprobs", 1);
      expect_apart(logprobs, "logprobs");
      r.logprobs = reinterpret_cast<float*>(logprobs.data), r.logprobs_stride = logprobs.strides[0];
      problem_.tells_logprobs = true;
      problem_.logprobs_filtered = flag(QUERN_VERIFY_LOGPROBS_FILTERED) && !greedy();
    }
    const q::SampleParams& s = problem_.edit.of_sequences;
    problem_.reports = problem_.edits || problem_.tells_logprobs;
    r.logits = logits_, r.logits_stride = logits_stride_, r.logits_row_stride = logits_row_stride_;
    r.vectors = problem_.edits || problem_.edit.vectors;
    r.ids = p.ids, r.ids_stride = p.ids_stride;
    r.status = p.status;
    r.output_counts = s.output_counts, r.output_counts_stride = s.output_counts_stride;
    r.temperature.rows = problem_.filtered.params.temperature.rows;
    r.temperature.all = problem_.filtered.params.temperature.all;
    r.rows = p.n + 1, r.depth = p.depth, r.vocab = p.vocab, r.chunks = s.chunks, r.greedy = greedy();
  }

  const quern_verify_draft_args& args_;
  const Call& call_;
  // Of target's logits, as edited: in the workspace then.
  const void* logits_ = nullptr;
  std::int64_t logits_stride_ = 0, logits_row_stride_ = 0;
  Problem problem_;
};

}  // namespace

Problem read_problem(const quern_verify_draft_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call =
      read_call(runtime, args, kFlags, "enum quern_call_flags | enum quern_verify_flags", 4, may_lack_data);
  const Problem problem = Reader(args, call).read();
  if (may_lack_data) return problem;
  check_indices(runtime, args, [&](IndexList& list) {
    list_nodes(problem.params, &list);
    // Told in the caller's status, on `host` too; without one they are checked here, as sample's are.
    if (args.status == nullptr) sample::list_edits(problem.edit.of_sequences, &list);
  });
  return problem;
}

}  // namespace quern::ops::verify_draft
