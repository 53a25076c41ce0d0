// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/pages.h"

namespace quern::engine {

Pages::Pages(std::int64_t count, std::int64_t page_size)
    : page_size_(page_size), pages_(static_cast<std::size_t>(count)) {
  for (std::int64_t i = count; i-- > 0;) empty_.push_back(static_cast<std::int32_t>(i));
}

std::int32_t Pages::take() {
  if (empty_.empty() && !kept_.empty()) forget(kept_.front());
  if (empty_.empty()) return -1;
  const std::int32_t page = empty_.back();
  empty_.pop_back();
  pages_[static_cast<std::size_t>(page)].holders = 1;
  return page;
}

void Pages::release(std::int32_t page) {
  Page& released = pages_[static_cast<std::size_t>(page)];
  if (--released.holders > 0) return;
  if (released.published) {
    released.kept = kept_.insert(kept_.end(), page);
  } else {
    empty_.push_back(page);
  }
}

// A page's content is named by the page before it, so what lies behind it can no longer be found either.
void Pages::forget(std::int32_t page) {
  Page& forgotten = pages_[static_cast<std::size_t>(page)];
  contents_.erase(forgotten.content);
  forgotten.published = false;
  if (forgotten.holders == 0) {
    kept_.erase(forgotten.kept);
    empty_.push_back(page);
  }
  const auto behind = [&] { return contents_.lower_bound({page, {}}); };
  for (auto next = behind(); next != contents_.end() && next->first.first == page; next = behind())
    forget(next->second);
}

std::vector<std::int32_t> Pages::find(std::span<const std::int32_t> tokens) {
  std::vector<std::int32_t> found;
  const auto size = static_cast<std::size_t>(page_size_);
  std::int32_t before = -1;
  for (std::size_t end = size; end < tokens.size(); end += size) {
    const auto page = contents_.find({before,
                                      {tokens.begin() + static_cast<std::ptrdiff_t>(end - size),
                                       tokens.begin() + static_cast<std::ptrdiff_t>(end)}});
    if (page == contents_.end()) break;
    before = page->second;
    Page& shared = pages_[static_cast<std::size_t>(before)];
    if (shared.holders++ == 0) kept_.erase(shared.kept);
    found.push_back(before);
  }
  return found;
}

void Pages::publish(std::span<const std::int32_t> tokens, std::int32_t before, std::int32_t page) {
  if (before >= 0 && !pages_[static_cast<std::size_t>(before)].published) return;
  Page& published = pages_[static_cast<std::size_t>(page)];
  Content content{before, {tokens.end() - static_cast<std::ptrdiff_t>(page_size_), tokens.end()}};
  if (published.published || !contents_.emplace(content, page).second) return;
  published.published = true;
  published.content = std::move(content);
}

}  // namespace quern::engine
