// Who has which pages of the KV cache. Whole pages are shared between sequences that begin with the same tokens; what
// is shared is not written, and what nobody has any more is kept for the next sequence that begins so, until it is
// needed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace quern::engine {

class Pages {
 public:
  Pages(std::int64_t count, std::int64_t page_size);

  // A page for nobody but the caller; -1 where there is none left.
  std::int32_t take();
  void release(std::int32_t page);
  // One more has it.
  void hold(std::int32_t page) { ++pages_[static_cast<std::size_t>(page)].holders; }
  bool is_shared(std::int32_t page) const { return pages_[static_cast<std::size_t>(page)].holders > 1; }

  // Pages that hold the beginning of `tokens`, each held for the caller. The last token is left out, so that there is
  // one to compute: its logits choose the next.
  std::vector<std::int32_t> find(std::span<const std::int32_t> tokens);
  // Tells that `page` holds the last whole page of `tokens`, which are as many as fill whole pages, behind the page
  // `before` (-1: none).
  void publish(std::span<const std::int32_t> tokens, std::int32_t before, std::int32_t page);

  std::int64_t page_size() const { return page_size_; }
  std::int64_t count() const { return static_cast<std::int64_t>(pages_.size()); }
  // Pages that take() could give.
  std::int64_t free() const { return static_cast<std::int64_t>(empty_.size() + kept_.size()); }

 private:
  // The page before and a page's own tokens: these name its content.
  using Content = std::pair<std::int32_t, std::vector<std::int32_t>>;
  struct Page {
    std::int32_t holders = 0;
    bool published = false;
    Content content;
    std::list<std::int32_t>::iterator kept;  // where nobody has it
  };
  void forget(std::int32_t page);

  std::int64_t page_size_;
  std::vector<Page> pages_;
  std::vector<std::int32_t> empty_;
  std::list<std::int32_t> kept_;  // published, and nobody's; who is so longest goes first
  std::map<Content, std::int32_t> contents_;
};

}  // namespace quern::engine
