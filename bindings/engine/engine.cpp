// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/engine.h"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "bindings/engine/lookup.h"

namespace quern::engine {

Engine::Engine(Steps& model) : model_(model), pages_(model.limits().pages, model.limits().page_size) {}

std::int64_t Engine::add(Request request) {
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  if (prompt == 0) throw std::runtime_error("the prompt has no token");
  const std::int64_t longest = std::min(model_.limits().context, pages_.count() * pages_.page_size());
  if (prompt + request.most_new > longest) {
    throw std::runtime_error("the prompt's " + std::to_string(prompt) + " tokens and " +
                             std::to_string(request.most_new) + " of an answer are more than a sequence's " +
                             std::to_string(longest));
  }
  for (const std::int32_t token : request.prompt) {
    if (token < 0 || token >= model_.config().vocabulary)
      throw std::runtime_error("the prompt's token " + std::to_string(token) + " is not of the vocabulary");
  }
  check_sampling(request.sampling, request.most_new, model_.limits().penalised, model_.config().vocabulary);
  auto sequence = std::make_unique<Sequence>();
  sequence->number = next_number_++;
  sequence->tokens = request.prompt;
  sequence->request = std::move(request);
  waiting_.push_back(std::move(sequence));
  return waiting_.back()->number;
}

void Engine::cancel(std::int64_t number) {
  if (stepping_) throw std::runtime_error("a request is cancelled from within take: return false there");
  for (Sequences* all : {&running_, &waiting_}) {
    const auto found =
        std::find_if(all->begin(), all->end(), [&](const auto& sequence) { return sequence->number == number; });
    if (found == all->end()) continue;
    leave(**found);
    all->erase(found);
    return;
  }
}

std::int64_t Engine::fork(std::int64_t number, Request request) {
  if (stepping_) throw std::runtime_error("a request is forked from within take: do it between steps");
  for (Sequences* all : {&running_, &waiting_}) {
    const auto found =
        std::find_if(all->begin(), all->end(), [&](const auto& sequence) { return sequence->number == number; });
    if (found == all->end()) continue;
    const Sequence& from = **found;
    request.prompt = from.tokens;
    const std::int64_t made = add(std::move(request));
    Sequence& sequence = *waiting_.back();
    if (all == &waiting_ || static_cast<std::int64_t>(running_.size()) >= model_.limits().sequences) return made;
    const std::int64_t size = pages_.page_size();
    sequence.computed = from.computed;
    sequence.pages.assign(from.pages.begin(), from.pages.begin() + (from.computed + size - 1) / size);
    for (const std::int32_t page : sequence.pages) pages_.hold(page);
    running_.push_back(std::move(waiting_.back()));
    waiting_.pop_back();
    return made;
  }
  return -1;
}

// The last page first: what a prompt begins with is kept longest.
void Engine::leave(Sequence& sequence) {
  for (auto page = sequence.pages.rbegin(); page != sequence.pages.rend(); ++page) pages_.release(*page);
  sequence.pages.clear();
  sequence.computed = 0;
}

void Engine::admit() {
  while (!waiting_.empty() && static_cast<std::int64_t>(running_.size()) < model_.limits().sequences) {
    Sequence& next = *waiting_.front();
    next.pages = pages_.find(next.tokens);
    next.computed = static_cast<std::int64_t>(next.pages.size()) * pages_.page_size();
    const std::int64_t more = (next.waiting() + pages_.page_size() - 1) / pages_.page_size();
    // Room for the whole of it, so that what has begun is seldom put back; but alone it may always begin.
    if (!running_.empty() && pages_.free() < more) {
      leave(next);
      return;
    }
    counts_.shared += next.computed;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

// Its tokens are kept, and computed again when there is room.
void Engine::preempt(std::size_t place) {
  leave(*running_[place]);
  counts_.preempted++;
  waiting_.push_front(std::move(running_[place]));
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(place));
}

bool Engine::writes_shared(const Sequence& sequence) const {
  const auto first = static_cast<std::size_t>(sequence.computed / pages_.page_size());
  return first < sequence.pages.size() && pages_.is_shared(sequence.pages[first]);
}

bool Engine::make_room(Sequence& sequence, std::int64_t count) {
  const std::int64_t size = pages_.page_size(), end = sequence.computed + count;
  const auto first = static_cast<std::size_t>(sequence.computed / size);  // the page that is written first
  for (;;) {
    // Others' numbers stand in a page that they have, too: what is written goes into a copy.
    const bool shared = writes_shared(sequence);
    if (!shared && static_cast<std::int64_t>(sequence.pages.size()) * size >= end) return true;
    const std::int32_t page = pages_.take();
    if (page >= 0 && shared) {
      model_.copy_pages({{sequence.pages[first], page}});
      pages_.release(std::exchange(sequence.pages[first], page));
      counts_.copied++;
      continue;
    }
    if (page >= 0) {
      sequence.pages.push_back(page);
      continue;
    }
    if (running_.back().get() == &sequence) return false;
    preempt(running_.size() - 1);
  }
}

std::vector<std::int32_t> Engine::draft(const Sequence& sequence, std::int64_t most) const {
  if (sequence.waiting() != 1 || !may_draft(sequence.request.sampling, !sequence.request.allow)) return {};
  // Nobody loses a page for a guess; and the last token of an answer has none behind it.
  const auto pages =
      static_cast<std::int64_t>(sequence.pages.size()) + pages_.free() - (writes_shared(sequence) ? 1 : 0);
  const std::int64_t room = pages * pages_.page_size() - sequence.computed - 1;
  return look_up(sequence.tokens,
                 std::min({most, model_.limits().drafts, room, sequence.request.most_new - sequence.answered - 1}));
}

bool Engine::step() {
  admit();
  if (running_.empty()) return false;
  std::vector<Part> parts;
  std::vector<Member> members;
  std::int64_t left = model_.limits().tokens;
  // One token of each first: who writes is not kept waiting by others' prompts.
  std::int64_t ones = static_cast<std::int64_t>(running_.size());
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    const std::int64_t most = std::max<std::int64_t>(left - --ones, 1), count = std::min(sequence.waiting(), most);
    if (left < 1) break;
    std::vector<std::int32_t> drafts = draft(sequence, most - count);
    const auto all = count + static_cast<std::int64_t>(drafts.size());
    if (!make_room(sequence, all)) {
      preempt(i);  // it is the last one
      break;
    }
    members.push_back({&sequence, count, std::move(drafts)});
    left -= all;
  }
  if (members.empty()) throw std::runtime_error("the cache has too few pages for one sequence");
  for (const Member& member : members) {
    const Sequence& sequence = *member.sequence;
    const auto first = sequence.tokens.begin() + sequence.computed;
    Part part{{first, first + member.count},
              sequence.computed,
              &sequence.pages,
              sequence.request.sampling,
              static_cast<std::int64_t>(member.drafts.size())};
    part.tokens.insert(part.tokens.end(), member.drafts.begin(), member.drafts.end());
    part.text = sequence.tokens, part.prompt = sequence.tokens.size() - static_cast<std::size_t>(sequence.answered);
    if (sequence.request.allow && member.count == sequence.waiting()) part.allowed = sequence.request.allow(part.text);
    parts.push_back(std::move(part));
  }
  const std::vector<Next> next = model_.step(parts);
  counts_.steps++;
  stepping_ = true;
  for (std::size_t i = 0; i < members.size(); ++i) advance(members[i], next[i]);
  stepping_ = false;
  std::erase_if(running_, [](const auto& sequence) { return sequence->done; });
  return true;
}

void Engine::advance(const Member& member, const Next& next) {
  Sequence& sequence = *member.sequence;
  const Request& request = sequence.request;
  const std::int64_t before = sequence.computed;
  sequence.computed += member.count;
  counts_.computed += member.count + static_cast<std::int64_t>(member.drafts.size());
  bool ended = false;
  if (sequence.waiting() == 0) {  // else the prompt goes on
    const auto& ends = model_.config().ends;
    if (request.look && request.sampling.top_logprobs >= 0) request.look(next);
    if (next.tokens.back() < 0) {  // nothing is allowed, or no logit is a number
      counts_.barren++;
      ended = true;
    }
    for (std::size_t i = 0; i < next.tokens.size() && !ended; ++i) {
      const std::int32_t token = next.tokens[i];
      sequence.tokens.push_back(token);
      sequence.answered++;
      counts_.answered++;
      ended = (request.take && !request.take(token)) || sequence.answered >= request.most_new ||
              (request.stop_at_end && std::find(ends.begin(), ends.end(), token) != ends.end());
    }
    // Accepted drafts have their keys in the cache; what stands behind them will be written over.
    const std::int64_t kept = static_cast<std::int64_t>(sequence.tokens.size()) - 1;
    counts_.accepted += std::max<std::int64_t>(kept - sequence.computed, 0);
    sequence.computed = kept;
  }
  counts_.drafted += static_cast<std::int64_t>(member.drafts.size());
  publish(sequence, before);
  if (ended) leave(sequence);
  sequence.done = ended;
}

// The pages that have become full since `before`.
void Engine::publish(Sequence& sequence, std::int64_t before) {
  const std::int64_t size = pages_.page_size();
  for (std::int64_t page = before / size; (page + 1) * size <= sequence.computed; ++page) {
    const auto at = static_cast<std::size_t>(page);
    pages_.publish(std::span(sequence.tokens).first(static_cast<std::size_t>((page + 1) * size)),
                   page > 0 ? sequence.pages[at - 1] : -1, sequence.pages[at]);
  }
}

}  // namespace quern::engine
