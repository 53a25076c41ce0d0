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
  args.flags = QUERN_VERIFY_GREEDY;
  args.target = target, args.draft_ids = draft_ids, args.lengths = lengths;
  args.accepted = accepted, args.ids = ids;
  QUERN_MAKE(calls_, verify_draft, args);
}

}  // namespace quern::engine
