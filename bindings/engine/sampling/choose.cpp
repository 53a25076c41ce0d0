// The end of a step: from logits to tokens.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/model.h"

namespace quern::engine {

void Model::choose() {
  const View logits(logits_, device_, kF32, {size_.sequences * size_.each, config_.vocabulary});
  Inputs::Chooser chooser;
  inputs_->describe(&chooser);
  chooser.args.logits = logits;
  QUERN_MAKE(calls_, sample, chooser.args);
}

// How many of a sequence's drafts are what the model would have said, and what it says behind the last of them.
void Model::verify() {
  const View target(logits_, device_, kF32, {size_.sequences, size_.each, config_.vocabulary}),
      draft_ids = inputs_->drafts(), lengths = inputs_->draft_counts(), accepted = inputs_->accepted(),
      ids = inputs_->verified();
  quern_verify_draft_args args{};
  args.flags = std::uint32_t{QUERN_VERIFY_GREEDY} | std::uint32_t{QUERN_VERIFY_LOGITS};
  args.target = target, args.draft_ids = draft_ids, args.lengths = lengths;
  args.accepted = accepted, args.ids = ids;
  // Of these the op edits each draft's row as if those before it were output. Masks are not among them: a sequence with
  // one has no drafts, and its token is what choose() wrote.
  Inputs::Chooser chooser;
  inputs_->describe(&chooser);
  const quern_sample_args& edits = chooser.args;
  args.repetitions = edits.repetitions, args.presences = edits.presences, args.frequencies = edits.frequencies;
  args.prompt_mask = edits.prompt_mask;
  args.output_tokens = edits.output_tokens, args.output_lengths = edits.output_lengths;
  args.bias_offsets = edits.bias_offsets, args.bias_ids = edits.bias_ids, args.bias_values = edits.bias_values;
  args.max_bias = edits.max_bias, args.banned = edits.banned;
  QUERN_MAKE(calls_, verify_draft, args);
}

}  // namespace quern::engine
