// SPDX-License-Identifier: Apache-2.0
#include "sources/sample/edits.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "jit/error.h"

namespace quern::ops::sample {
namespace {

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

}  // namespace

const std::uint32_t* read_mask(const DLTensor* given, const char* name, std::int64_t count, std::int64_t vocab,
                               const Place& place, q::i64* stride) {
  if (given == nullptr) return nullptr;
  const Tensor t = read_matrix(given, name, Dtype::i32, count, place);
  expect_extent(t, name, 1, (vocab + 31) / 32);
  *stride = t.strides[0];
  return reinterpret_cast<const std::uint32_t*>(t.data);
}

void read_penalties(const EditArgs& args, const Place& place, q::SampleParams* p) {
  const Parameters read(p->count, place);
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

std::int64_t read_edits(const EditArgs& args, const Place& place, q::SampleParams* p) {
  const std::int64_t n = p->count, vocab = p->vocab;
  p->prompt_mask = read_mask(args.prompt_mask, "prompt_mask", n, vocab, place, &p->prompt_mask_stride);
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

bool edits(const EditArgs& args) {
  return args.prompt_mask != nullptr || args.prompt_tokens != nullptr || args.output_counts != nullptr ||
         args.output_tokens != nullptr || args.bias_offsets != nullptr || args.banned != nullptr;
}

bool penalises(const q::SampleParams& p) {
  return given(p.repetition, 1.0f) || given(p.presence, 0.0f) || given(p.frequency, 0.0f);
}

// The rest is the kernels' own.
std::uint32_t most_edit_bytes(const jit::TargetInfo& limits) { return limits.shared_per_block - 40 * 1024; }

void give_slots(std::int64_t listed, const char* lists, const jit::TargetInfo& limits, q::SampleParams* p) {
  if (listed > q::kMostEdited)
    throw Error(QUERN_INVALID, std::string(lists) + " make " + std::to_string(listed) +
                                   " tokens a row; at most 8192 in all: give prompt_mask or output_counts instead");
  if (listed <= 0) return;
  p->slots = 64;
  while (p->slots < 2 * listed) p->slots *= 2;
  const std::uint32_t bytes = static_cast<std::uint32_t>(p->slots) * 12, most = most_edit_bytes(limits);
  if (bytes > most)
    throw Error(QUERN_UNSUPPORTED, "lists of " + std::to_string(listed) + " tokens a row need " +
                                       std::to_string(bytes) + " bytes of shared memory; this device has " +
                                       std::to_string(most) + ": give prompt_mask or output_counts instead");
}

void list_edits(const q::SampleParams& p, IndexList* list) {
  const auto add = [&](const char* name, const q::TokenList& tokens, const char* bound) {
    if (tokens.lengths != nullptr) list->in_range(name, tokens.lengths, p.count, 0, tokens.most, "row", bound);
  };
  add("prompt_lengths", p.prompt, "the columns of prompt_tokens");
  add("output_lengths", p.output, "the columns of output_tokens");
  if (p.bias_offsets == nullptr) return;
  list->offsets("bias_offsets", p.bias_offsets, p.count, p.bias_entries, "row", "the extent of bias_ids");
  list->extents("bias_offsets (the biases of row #)", "bias_offsets", p.bias_offsets, p.count, p.max_bias, "max_bias");
  q::IndexCheck& ids = list->add(q::CheckKind::members, "bias_ids[#]", integers(p.bias_ids), p.count, nullptr,
                                 "tokens of the vocabulary");
  ids.indptr = p.bias_offsets, ids.most = std::int64_t{p.vocab} - 1;
}

}  // namespace quern::ops::sample
