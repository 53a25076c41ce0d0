// SPDX-License-Identifier: Apache-2.0
#include "sources/sample/read.h"

#include <cmath>
#include <string>

#include "jit/error.h"
#include "sources/sample/edits.h"

namespace quern::ops::sample {
namespace {

constexpr std::uint32_t kFlags = QUERN_SAMPLE_TEMPERATURE | QUERN_SAMPLE_TOP_P | QUERN_SAMPLE_TYPICAL_P |
                                 QUERN_SAMPLE_JOINT | QUERN_SAMPLE_TEMPERATURE_LAST | QUERN_SAMPLE_LOGPROBS_FILTERED;

bool is_share(float v) { return v >= 0.0f && v <= 1.0f; }

void read_filters(const quern_sample_args& args, const Parameters& read, q::SampleParams* p) {
  const auto flag = [&](std::uint32_t bit) { return (args.flags & bit) != 0; };
  read.read<float>(
      args.temperatures, "temperatures", flag(QUERN_SAMPLE_TEMPERATURE) ? args.temperature : 1.0f, "temperature",
      [](float v) { return v >= 0.0f && std::isfinite(v); }, "0 and more, and finite", &p->temperature);
  read.read<std::int32_t>(
      args.top_ks, "top_ks", args.top_k, "top_k", [](std::int32_t v) { return v >= -1; }, "-1 or 0 (off), or more",
      &p->top_k);
  const auto share = [&](const DLTensor* rows, const char* rows_name, float all, const char* name,
                         q::PerRow<float>* to) {
    read.read<float>(rows, rows_name, all, name, is_share, "0 to 1", to);
  };
  share(args.top_ps, "top_ps", flag(QUERN_SAMPLE_TOP_P) ? args.top_p : 1.0f, "top_p", &p->top_p);
  share(args.min_ps, "min_ps", args.min_p, "min_p", &p->min_p);
  share(args.typical_ps, "typical_ps", flag(QUERN_SAMPLE_TYPICAL_P) ? args.typical_p : 1.0f, "typical_p",
        &p->typical_p);
  share(args.xtc_probabilities, "xtc_probabilities", args.xtc_probability, "xtc_probability", &p->xtc_probability);
  const auto not_negative = [](float v) { return v >= 0.0f; };
  read.read<float>(args.xtc_thresholds, "xtc_thresholds", args.xtc_threshold, "xtc_threshold", not_negative,
                   "0 and more", &p->xtc_threshold);
  read.read<float>(
      args.n_sigmas, "n_sigmas", args.n_sigma, "n_sigma", [](float v) { return !std::isnan(v); }, "a number; 0 is off",
      &p->n_sigma);
  read.read<float>(
      args.dynamic_ranges, "dynamic_ranges", args.dynamic_range, "dynamic_range",
      [](float v) { return v >= 0.0f && std::isfinite(v); }, "0 (off) and more, and finite", &p->dynamic_range);
  read.read<float>(
      args.dynamic_exponents, "dynamic_exponents", args.dynamic_exponent == 0.0f ? 1.0f : args.dynamic_exponent,
      "dynamic_exponent", [](float v) { return std::isfinite(v); }, "a finite number", &p->dynamic_exponent);
  p->joint = flag(QUERN_SAMPLE_JOINT), p->temperature_last = flag(QUERN_SAMPLE_TEMPERATURE_LAST);
  p->logprobs_filtered = flag(QUERN_SAMPLE_LOGPROBS_FILTERED);
}

bool filters(const q::SampleParams& p) {
  return given(p.top_k, 0) || given(p.top_p, 1.0f) || given(p.min_p, 0.0f) || given(p.typical_p, 1.0f) ||
         given(p.n_sigma, 0.0f) || given(p.xtc_probability, 0.0f) || given(p.dynamic_range, 0.0f) || p.top_n != 0;
}

// What few requests ask for: filters, and beyond these what is told.
bool filters_rarely(const q::SampleParams& p) {
  return given(p.typical_p, 1.0f) || given(p.n_sigma, 0.0f) || given(p.xtc_probability, 0.0f) ||
         given(p.dynamic_range, 0.0f) || p.temperature_last;
}
bool tells_more(const q::SampleParams& p) { return p.top_n != 0 || (p.logprobs_filtered && p.logprobs != nullptr); }

void read_results(const quern_sample_args& args, const Place& place, q::SampleParams* p) {
  const std::int64_t n = p->count;
  read_ids(args.ids, n, place, p);
  p->logprobs = read_vector<float>(args.logprobs, "logprobs", Dtype::f32, n, place);
  p->status = read_vector<std::int32_t>(args.status, "status", Dtype::i32, n, place);
  p->seeds = read_vector<q::i64>(args.seeds, "seeds", Dtype::i64, n, place);
  p->offsets = read_vector<q::i64>(args.offsets, "offsets", Dtype::i64, n, place);
  p->seed = args.seed, p->offset = args.offset;
  if (args.top_ids == nullptr) {
    if (args.top_logprobs != nullptr) refuse_missing("top_ids");
    return;
  }
  const Tensor ids = read_matrix(args.top_ids, "top_ids", Dtype::i32, n, place);
  if (ids.shape[1] < 1 || ids.shape[1] > q::kMostTop) refuse_extent("top_ids", 1, ids.shape[1], "1 to 128");
  expect_apart(ids, "top_ids");
  p->top_ids = reinterpret_cast<std::int32_t*>(ids.data), p->top_ids_stride = ids.strides[0];
  p->top_n = static_cast<std::int32_t>(ids.shape[1]);
  if (args.top_logprobs == nullptr) return;
  const Tensor logprobs = read_matrix(args.top_logprobs, "top_logprobs", Dtype::f32, n, place);
  expect_extent(logprobs, "top_logprobs", 1, p->top_n);
  expect_apart(logprobs, "top_logprobs");
  p->top_logprobs = reinterpret_cast<float*>(logprobs.data), p->top_logprobs_stride = logprobs.strides[0];
}

}  // namespace

Tensor read_logits(const DLTensor* given, const char* name, const Place& place, q::SampleParams* p) {
  const Tensor logits = read(given, name, 2, {Dtype::f32, Dtype::f16, Dtype::bf16}, place);
  expect_unit_stride(logits, name, 1);
  if (logits.shape[1] < 1 || logits.shape[1] > q::kMostVocab) refuse_extent(name, 1, logits.shape[1], "1 to 2^20");
  if (logits.shape[0] > 1 << 24) refuse_extent(name, 0, logits.shape[0], "at most 2^24 rows");
  p->logits = logits.data, p->logits_stride = logits.strides[0];
  p->logit_rows = static_cast<std::int32_t>(logits.shape[0]);
  p->vocab = static_cast<std::int32_t>(logits.shape[1]);
  p->chunks = (p->vocab + q::kChunk - 1) / q::kChunk;
  p->vectors =
      reinterpret_cast<std::uintptr_t>(logits.data) % 16 == 0 && logits.strides[0] * bytes_of(logits.dtype) % 16 == 0;
  return logits;
}

void read_ids(const DLTensor* given, std::int64_t count, const Place& place, q::SampleParams* p) {
  const Tensor ids = read(given, "ids", 1, {Dtype::i32, Dtype::i64}, place);
  expect_extent(ids, "ids", 0, count);
  expect_unit_stride(ids, "ids", 0);
  p->ids = ids.data, p->wide_ids = ids.dtype == Dtype::i64;
}

Problem read_problem(const quern_sample_args& args, const Runtime& runtime, bool may_lack_data) {
  const Call call =
      read_call(runtime, args, kFlags, "enum quern_call_flags | enum quern_sample_flags", 4, may_lack_data);
  Problem problem{{}, {}, call.sms, args.max_sms > 0, false, 0, false};
  q::SampleParams& p = problem.params;
  problem.shape.logits = read_logits(args.logits, "logits", call.place, &p).dtype;
  p.count = p.logit_rows;
  if (args.rows != nullptr) {
    const Tensor rows = read(args.rows, "rows", 1, {Dtype::i32}, call.place);
    expect_unit_stride(rows, "rows", 0);
    if (rows.shape[0] > 1 << 24) refuse_extent("rows", 0, rows.shape[0], "at most 2^24");
    p.rows = reinterpret_cast<const std::int32_t*>(rows.data), p.count = static_cast<std::int32_t>(rows.shape[0]);
  }
  read_results(args, call.place, &p);
  read_filters(args, Parameters(p.count, call.place), &p);
  const EditArgs edited = edit_args_of(args);
  read_penalties(edited, call.place, &p);
  const std::int64_t listed = read_edits(edited, call.place, &p);
  p.allowed = read_mask(args.allowed, "allowed", p.count, p.vocab, call.place, &p.allowed_stride);
  problem.shape.edits = edits(edited) || args.allowed != nullptr;
  problem.shape.filters = filters(p) || p.temperature_last;
  problem.rarer = filters_rarely(p), problem.rare = problem.rarer || tells_more(p);
  p.sigmas = given(p.n_sigma, 0.0f);
  p.sums = args.logprobs != nullptr || p.top_n != 0 ? q::Sums::all : q::Sums::wanted;
  give_slots(listed, "prompt_tokens, output_tokens, banned and max_bias", call.device->limits, &p);
  return problem;
}

}  // namespace quern::ops::sample
