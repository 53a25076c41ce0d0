// What edits logits before anything is sampled from them, as arguments: penalties, biases, masks. Of sample, and of ops
// whose args have fields of the same names and meanings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/index_data.h"
#include "sources/sample/parameters.h"

namespace quern::ops::sample {

struct EditArgs {
  const DLTensor *repetitions, *presences, *frequencies;
  const DLTensor *prompt_mask, *prompt_tokens, *prompt_lengths, *output_counts, *output_tokens, *output_lengths;
  const DLTensor *bias_offsets, *bias_ids, *bias_values, *banned;
  float repetition, presence, frequency;
  std::int32_t max_bias;
};
template <class Args>
EditArgs edit_args_of(const Args& a) {
  return {a.repetitions,   a.presences,     a.frequencies,    a.prompt_mask,  a.prompt_tokens, a.prompt_lengths,
          a.output_counts, a.output_tokens, a.output_lengths, a.bias_offsets, a.bias_ids,      a.bias_values,
          a.banned,        a.repetition,    a.presence,       a.frequency,    a.max_bias};
}

// The tensors are of p->count rows, tokens of p->vocab. Leaves `slots` to give_slots. Throws Error(QUERN_INVALID).
void read_penalties(const EditArgs& args, const Place& place, q::SampleParams* p);
// What changes single logits, but for `allowed`. Returns how many tokens of a row lists can name.
std::int64_t read_edits(const EditArgs& args, const Place& place, q::SampleParams* p);
// Whether any tensor is given that edits logits; a penalty alone has nothing to be of.
bool edits(const EditArgs& args);
bool penalises(const q::SampleParams& p);

// Words of 32 tokens a row, [count, ceil(vocab / 32)]. Throws Error(QUERN_INVALID).
const std::uint32_t* read_mask(const DLTensor* given, const char* name, std::int64_t count, std::int64_t vocab,
                               const Place& place, q::i64* stride);

// Room for `listed` tokens a row; `lists` are the arguments that name them, for the error. Throws Error(QUERN_INVALID)
// where they are more than there may be, Error(QUERN_UNSUPPORTED) where the device has no room for them.
void give_slots(std::int64_t listed, const char* lists, const jit::TargetInfo& limits, q::SampleParams* p);
// Of a block of a kernel that has such room.
std::uint32_t most_edit_bytes(const jit::TargetInfo& limits);

// What only the device can see of them.
void list_edits(const q::SampleParams& p, IndexList* list);

}  // namespace quern::ops::sample
