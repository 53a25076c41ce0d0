// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/engine.h"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>

namespace quern::engine {

Engine::Engine(Model& model) : model_(model), pages_(model.limits().pages, model.limits().page_size) {}

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
  auto sequence = std::make_unique<Sequence>();
  sequence->number = next_number_++;
  sequence->tokens = request.prompt;
  sequence->request = std::move(request);
  waiting_.push_back(std::move(sequence));
  return waiting_.back()->number;
}

void Engine::cancel(std::int64_t number) {
  for (Sequences* all : {&running_, &waiting_}) {
    const auto found =
        std::find_if(all->begin(), all->end(), [&](const auto& sequence) { return sequence->number == number; });
    if (found == all->end()) continue;
    leave(**found);
    all->erase(found);
    return;
  }
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

bool Engine::make_room(Sequence& sequence, std::int64_t count) {
  const std::int64_t size = pages_.page_size(), end = sequence.computed + count;
  while (static_cast<std::int64_t>(sequence.pages.size()) * size < end) {
    const std::int32_t page = pages_.take();
    if (page >= 0) {
      sequence.pages.push_back(page);
      continue;
    }
    if (running_.back().get() == &sequence) return false;
    preempt(running_.size() - 1);
  }
  return true;
}

bool Engine::step() {
  admit();
  if (running_.empty()) return false;
  std::vector<Part> parts;
  std::vector<std::pair<Sequence*, std::int64_t>> members;  // with how many tokens
  std::int64_t left = model_.limits().tokens;
  // One token of each first: who writes is not kept waiting by others' prompts.
  std::int64_t ones = static_cast<std::int64_t>(running_.size());
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    const std::int64_t count = std::min(sequence.waiting(), std::max<std::int64_t>(left - --ones, 1));
    if (left < 1) break;
    if (!make_room(sequence, count)) {
      preempt(i);  // it is the last one
      break;
    }
    members.emplace_back(&sequence, count);
    left -= count;
  }
  if (members.empty()) throw std::runtime_error("the cache has too few pages for one sequence");
  for (const auto& [sequence, count] : members) {
    const auto first = sequence->tokens.begin() + sequence->computed;
    parts.push_back({{first, first + count}, sequence->computed, &sequence->pages, sequence->request.sampling});
  }
  const std::vector<std::int32_t> next = model_.step(parts);
  counts_.steps++;
  for (std::size_t i = 0; i < members.size(); ++i) advance(*members[i].first, members[i].second, next[i]);
  std::erase_if(running_, [](const auto& sequence) { return sequence->pages.empty(); });
  return true;
}

void Engine::advance(Sequence& sequence, std::int64_t count, std::int32_t next) {
  const std::int64_t before = sequence.computed;
  sequence.computed += count;
  counts_.computed += count;
  publish(sequence, before);
  if (sequence.waiting() > 0) return;  // the prompt goes on
  sequence.tokens.push_back(next);
  sequence.answered++;
  counts_.answered++;
  const Request& request = sequence.request;
  const bool goes_on = !request.take || request.take(next);
  const auto& ends = model_.config().ends;
  const bool ended = request.stop_at_end && std::find(ends.begin(), ends.end(), next) != ends.end();
  if (!goes_on || ended || sequence.answered >= request.most_new) leave(sequence);
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
