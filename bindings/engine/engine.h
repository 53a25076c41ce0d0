// Continuous batching: requests join and leave between steps. Each step takes a token of every running sequence, and
// fills what is left of it with chunks of the prompts that wait.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bindings/engine/pages.h"
#include "bindings/engine/step.h"

namespace quern::engine {

struct Request {
  std::vector<std::int32_t> prompt;  // tokens
  std::int64_t most_new = 64;        // tokens of the answer
  bool stop_at_end = true;           // a token that ends a text ends the answer, too
  Sampling sampling;
  // A bit for each token that may follow the text so far, prompt and answer; all may where there is none.
  std::function<std::vector<std::uint32_t>(std::span<const std::int32_t>)> allow;
  // With sampling.top_logprobs: called with each token's before it is taken.
  std::function<void(const Next&)> look;
  // Called with each token of the answer as it comes; false cancels the request. It may add requests, and must not
  // throw.
  std::function<bool(std::int32_t)> take;
};

class Engine {
 public:
  explicit Engine(Steps& model);

  // Number of the request. Throws std::runtime_error where the prompt is empty, or it and its answer are longer than
  // a sequence may be.
  std::int64_t add(Request request);
  void cancel(std::int64_t number);
  // Another sequence that begins with all that this one has by now, prompt and answer; `request` says how it goes on,
  // its prompt is not looked at. Both have the same pages, the one that is not full too, until one of them writes
  // there. -1 where there is no such sequence any more.
  std::int64_t fork(std::int64_t number, Request request);
  // Computes one step of what has been added. False where there was nothing to do.
  bool step();
  void run() {
    while (step()) {
    }
  }

  struct Counts {
    std::int64_t steps = 0, barren = 0, computed = 0, shared = 0, answered = 0, drafted = 0, accepted = 0,
                 preempted = 0,
                 copied = 0;  // tokens; steps, sequences and pages; barren: answers that no token could follow
  };
  const Counts& counts() const { return counts_; }
  const Pages& pages() const { return pages_; }

 private:
  struct Sequence {
    std::int64_t number;
    Request request;
    std::vector<std::int32_t> tokens;  // the prompt's and the answer's
    std::vector<std::int32_t> pages;
    std::int64_t computed = 0;  // tokens whose keys and values are in the cache
    std::int64_t answered = 0;
    bool done = false;
    std::int64_t waiting() const { return static_cast<std::int64_t>(tokens.size()) - computed; }
  };
  struct Member {  // of a step
    Sequence* sequence;
    std::int64_t count;                // of its tokens
    std::vector<std::int32_t> drafts;  // behind them
  };
  using Sequences = std::deque<std::unique_ptr<Sequence>>;

  void admit();
  // Pages for the next `count` tokens, taken from the youngest sequences where there are none left. False where even
  // that gives none.
  bool writes_shared(const Sequence& sequence) const;  // the page that its next token goes to is another's, too
  bool make_room(Sequence& sequence, std::int64_t count);
  void preempt(std::size_t place);
  void leave(Sequence& sequence);
  std::vector<std::int32_t> draft(const Sequence& sequence, std::int64_t most) const;
  void advance(const Member& member, const Next& next);
  void publish(Sequence& sequence, std::int64_t before);

  Steps& model_;
  Pages pages_;
  Sequences waiting_, running_;
  std::int64_t next_number_ = 0;
  bool stepping_ = false;
  Counts counts_;
};

}  // namespace quern::engine
