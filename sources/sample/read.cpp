// SPDX-License-Identifier: Apache-2.0
#include "sources/sample/read.h"

#include <cmath>
#include <string>

#include "jit/error.h"

namespace quern::ops::sample {
namespace {

constexpr std::uint32_t kFlags = QUERN_SAMPLE_TEMPERATURE | QUERN_SAMPLE_TOP_P | QUERN_SAMPLE_TYPICAL_P |
                                 QUERN_SAMPLE_JOINT | QUERN_SAMPLE_TEMPERATURE_LAST | QUERN_SAMPLE_LOGPROBS_FILTERED;

template <class T>
constexpr Dtype kDtype = Dtype::f32;
template <>
constexpr Dtype kDtype<std::int32_t> = Dtype::i32;

// A parameter as an array or as one number for all rows; those that the host can see are held against their range.
class Parameters {
 public:
  Parameters(std::int64_t count, const Place& place) : count_(count), place_(place) {}

  template <class T, class Allowed>
  void read(const DLTensor* rows, const char* rows_name, T all, const char* name, Allowed allowed, const char* range,
            q::PerRow<T>* to) const {
    to->rows = read_vector<T>(rows, rows_name, kDtype<T>, count_, place_);
    to->all = all;
    if (rows == nullptr && !allowed(all)) refuse(name, all, range);
  }

 private:
  static void refuse(const char* name, float v, const char* range) { refuse_value(name, double{v}, range); }
  static void refuse(const char* name, std::int32_t v, const char* range) {
    refuse_value(name, std::int64_t{v}, range);
  }

  std::int64_t count_;
  Place place_;
};

template <class T>
bool given(const q::PerRow<T>& parameter, T off) {
  return parameter.rows != nullptr || parameter.all != off;
}

Tensor read_matrix(const DLTensor* given, const char* name, Dtype dtype, std::int64_t rows, const Place& place) {
  const Tensor t = read(given, name, 2, {dtype}, place);
  expect_extent(t, name, 0, rows);
  expect_unit_stride(t, name, 1);
  return t;
}

q::TokenList read_list(const DLTensor* tokens, const char* name, const DLTensor* lengths, const char* lengths_name,
                       std::int64_t count, const Place& place) {
  q::TokenList list{};
  if (tokens == nullptr) {
    if (lengths != nullptr) throw Error(QUERN_INVALID, std::string(lengths_name) + " is given without " + name);
    return list;
  }
  const Tensor t = read_matrix(tokens, name, Dtype::i32, count, place);
  list.stride = t.strides[0], list.most = static_cast<std::int32_t>(t.shape[1]);
  list.lengths = read_vector<std::int32_t>(lengths, lengths_name, Dtype::i32, count, place);
  // Without data (workspace, prepare) the list is there all the same.
  list.tokens = reinterpret_cast<const std::int32_t*>(t.data);
  return list;
}

const std::uint32_t* read_mask(const DLTensor* given, const char* name, std::int64_t count, std::int64_t vocab,
                               const Place& place, q::i64* stride) {
  if (given == nullptr) return nullptr;
  const Tensor t = read_matrix(given, name, Dtype::i32, count, place);
  expect_extent(t, name, 1, (vocab + 31) / 32);
  *stride = t.strides[0];
  return reinterpret_cast<const std::uint32_t*>(t.data);
}

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

// What few requests ask for.
bool is_rare(const q::SampleParams& p) {
  return given(p.typical_p, 1.0f) || given(p.n_sigma, 0.0f) || given(p.xtc_probability, 0.0f) ||
         given(p.dynamic_range, 0.0f) || p.temperature_last || p.top_n != 0 ||
         (p.logprobs_filtered && p.logprobs != nullptr);
}

void read_penalties(const quern_sample_args& args, const Parameters& read, q::SampleParams* p) {
  read.read<float>(
      args.repetitions, "repetitions", args.repetition == 0.0f ? 1.0f : args.repetition, "repetition",
      [](float v) { return v > 0.0f; }, "0 (off) or more", &p->repetition);
  const auto number = [](float v) { return !std::isnan(v); };
  read.read<float>(args.presences, "presences", args.presence, "presence", number, "a number", &p->presence);
  read.read<float>(args.frequencies, "frequencies", args.frequency, "frequency", number, "a number", &p->frequency);
  const bool output = args.output_counts != nullptr || args.output_tokens != nullptr;
  const bool prompt = args.prompt_mask != nullptr || args.prompt_tokens != nullptr;
  if (given(p->repetition, 1.0f) && !output && !prompt)
    throw Error(QUERN_INVALID,
                "repetition is given without prompt_mask, prompt_tokens, output_counts or output_tokens");
  if ((given(p->presence, 0.0f) || given(p->frequency, 0.0f)) && !output)
    throw Error(QUERN_INVALID, "presence or frequency is given without output_counts or output_tokens");
}

// What changes single logits. Returns how many tokens of a row lists can name.
std::int64_t read_edits(const quern_sample_args& args, const Place& place, q::SampleParams* p) {
  const std::int64_t n = p->count, vocab = p->vocab;
  p->prompt_mask = read_mask(args.prompt_mask, "prompt_mask", n, vocab, place, &p->prompt_mask_stride);
  p->allowed = read_mask(args.allowed, "allowed", n, vocab, place, &p->allowed_stride);
  p->prompt = read_list(args.prompt_tokens, "prompt_tokens", args.prompt_lengths, "prompt_lengths", n, place);
  p->output = read_list(args.output_tokens, "output_tokens", args.output_lengths, "output_lengths", n, place);
  p->banned = read_list(args.banned, "banned", nullptr, "", n, place);
  if (args.output_counts != nullptr) {
    const Tensor t = read_matrix(args.output_counts, "output_counts", Dtype::i32, n, place);
    expect_extent(t, "output_counts", 1, vocab);
    expect_apart(t, "output_counts");
    p->output_counts = reinterpret_cast<std::int32_t*>(t.data), p->output_counts_stride = t.strides[0];
    p->count_vectors = reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 && t.strides[0] % 4 == 0;
  }
  if (args.bias_offsets != nullptr) {
    p->bias_offsets = read_vector<std::int32_t>(args.bias_offsets, "bias_offsets", Dtype::i32, n + 1, place);
    const Tensor ids = read(args.bias_ids, "bias_ids", 1, {Dtype::i32}, place);
    expect_unit_stride(ids, "bias_ids", 0);
    p->bias_ids = reinterpret_cast<const std::int32_t*>(ids.data);
    p->bias_entries = static_cast<std::int32_t>(ids.shape[0]);
    if (args.bias_values == nullptr) refuse_missing("bias_values");
    p->bias_values = read_vector<float>(args.bias_values, "bias_values", Dtype::f32, ids.shape[0], place);
    if (args.max_bias < 0) refuse_value("max_bias", std::int64_t{args.max_bias}, "0 (all entries) and more");
    p->max_bias = args.max_bias == 0 ? p->bias_entries : std::min(args.max_bias, p->bias_entries);
  } else if (args.bias_ids != nullptr || args.bias_values != nullptr) {
    refuse_missing("bias_offsets");
  }
  return std::int64_t{p->prompt.most} + p->output.most + p->banned.most + p->max_bias;
}

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
  Problem problem{{}, {}, call.sms, args.max_sms > 0, false, 0};
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
  const Parameters parameters(p.count, call.place);
  read_filters(args, parameters, &p);
  read_penalties(args, parameters, &p);
  const std::int64_t listed = read_edits(args, call.place, &p);
  if (listed > q::kMostEdited)
    throw Error(QUERN_INVALID, "prompt_tokens, output_tokens, banned and max_bias make " + std::to_string(listed) +
                                   " tokens a row; at most 8192 in all: give prompt_mask or output_counts instead");
  problem.shape.edits = listed != 0 || args.prompt_mask != nullptr || args.output_counts != nullptr ||
                        args.allowed != nullptr || args.bias_offsets != nullptr || args.banned != nullptr ||
                        args.prompt_tokens != nullptr || args.output_tokens != nullptr;
  problem.shape.filters = filters(p) || p.temperature_last;
  problem.rare = is_rare(p);
  p.sigmas = given(p.n_sigma, 0.0f);
  p.sums = args.logprobs != nullptr || p.top_n != 0 ? q::Sums::all : q::Sums::wanted;
  if (listed > 0) {
    p.slots = 64;
    while (p.slots < 2 * listed) p.slots *= 2;
    const std::uint32_t bytes = static_cast<std::uint32_t>(p.slots) * 12;
    const std::uint32_t most = call.device->limits.shared_per_block - 40 * 1024;  // the rest is the kernel's own
    if (bytes > most)
      throw Error(QUERN_UNSUPPORTED, "lists of " + std::to_string(listed) + " tokens a row need " +
                                         std::to_string(bytes) + " bytes of shared memory; this device has " +
                                         std::to_string(most) + ": give prompt_mask or output_counts instead");
  }
  return problem;
}

}  // namespace quern::ops::sample
