// Records are rows of the cache like images, of another kind.
// SPDX-License-Identifier: Apache-2.0
#include "jit/records.h"

#include <utility>

#include "jit/error.h"
#include "jit/key.h"

namespace quern::jit {

Records::~Records() { service_.store().touch(used_); }

std::optional<std::string> Records::find(const std::string& of) {
  const cache::Key key = key_of(of);
  cache::Entry entry;
  if (!service_.store().get(key, of, "", &entry) || entry.kind != cache::Kind::tuning) return {};
  const std::lock_guard lock(mutex_);
  used_.push_back(key);
  return std::move(entry.image);
}

void Records::keep(const std::string& of, std::string op, std::string target, std::string contents) {
  cache::Entry entry;
  entry.kind = cache::Kind::tuning;
  entry.text = of;
  entry.op = std::move(op);
  entry.target = std::move(target);
  entry.entry_name = "tuning";
  entry.image = std::move(contents);
  std::string why_not;
  if (service_.store().put_patiently(key_of(of), entry, &why_not) == cache::Put::stored) return;
  throw Error(QUERN_IO, "what was measured could not be stored: " +
                            (why_not.empty() ? service_.store().stats().reason : why_not));
}

void Records::deliver() noexcept {
  const Listening listening(notice_);
  service_.store().deliver();
}

}  // namespace quern::jit
