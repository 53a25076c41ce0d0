// The end of a step: from logits to tokens.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/model.h"

namespace quern::engine {

void Model::choose() {
  const View logits(logits_, device_, kF32, {size_.sequences * size_.each, config_.vocabulary}),
      ids = inputs_->ids(), rows = inputs_->rows(), temperatures = inputs_->temperatures(), top_ks = inputs_->top_ks(),
      top_ps = inputs_->top_ps(), min_ps = inputs_->min_ps(), seeds = inputs_->seeds(), offsets = inputs_->offsets();
  quern_sample_args args{};
  args.logits = logits, args.ids = ids;
  if (size_.each > 1) args.rows = rows;
  args.temperatures = temperatures, args.seeds = seeds, args.offsets = offsets;
  if (size_.choice == Choice::filtered) args.top_ks = top_ks, args.top_ps = top_ps, args.min_ps = min_ps;
  QUERN_MAKE(calls_, sample, args);
}

// How many of a sequence's drafts are what the model would have said, and what it says behind the last of them.
void Model::verify() {
  const View target(logits_, device_, kF32, {size_.sequences, size_.each, config_.vocabulary}),
      draft_ids = inputs_->drafts(), lengths = inputs_->draft_counts(), accepted = inputs_->accepted(),
      ids = inputs_->verified();
  quern_verify_draft_args args{};
  args.flags = QUERN_VERIFY_GREEDY;
  args.target = target, args.draft_ids = draft_ids, args.lengths = lengths;
  args.accepted = accepted, args.ids = ids;
  QUERN_MAKE(calls_, verify_draft, args);
}

}  // namespace quern::engine
