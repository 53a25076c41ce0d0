// Where the new tokens of a test go: sequences with pages of their own, some tokens skipped, and the ways in which an
// append is told.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "tests/ops/array.h"
#include "tests/ops/random.h"
#include "tests/ops/refusal.h"

namespace quern::test {

enum class By { slots, table, indices };

inline constexpr std::int64_t kPages = 16;

struct PlacedCase {
  std::string name;
  std::vector<int> q_lens = {1, 4, 0, 9, 1};
  std::vector<int> lengths = {1, 33, 7, 9, 40};  // with the new tokens
  std::int64_t page_size = 16;
  By by = By::slots;
  bool positions = true, wide = false, one_each = false;

  std::int64_t batch() const { return static_cast<std::int64_t>(q_lens.size()); }
  std::int64_t tokens() const {
    return std::accumulate(q_lens.begin(), q_lens.end(), 0) + (one_each ? 0 : 2);
  }  // two belong to nobody
};

class Places {
 public:
  explicit Places(const PlacedCase& c)
      : slots(IntegerBits{c.wide ? 64 : 32}, {c.tokens()}),
        positions(IntegerBits{c.wide ? 64 : 32}, {c.tokens()}),
        table(IntegerBits{32}, {c.batch(), 4}),
        indptr(IntegerBits{32}, {c.batch() + 1}),
        indices(IntegerBits{32}, {4 * c.batch()}),
        cu_q(IntegerBits{32}, {c.batch() + 1}),
        lengths(IntegerBits{32}, {c.batch()}) {}

  Array slots, positions, table, indptr, indices, cu_q, lengths;

 protected:
  // Every sequence has pages of its own; some tokens are skipped.
  void place_tokens(const PlacedCase& c, Random& random) {
    std::vector<std::int64_t> free(kPages);
    std::iota(free.begin(), free.end(), 0);
    random.shuffle(free);
    std::int64_t listed = 0, token = 0;
    indptr.set_integer(0, 0), cu_q.set_integer(0, 0);
    for (std::int64_t s = 0; s < c.batch(); ++s) {
      const int length = c.lengths[static_cast<std::size_t>(s)], q_len = c.q_lens[static_cast<std::size_t>(s)];
      std::vector<std::int64_t> pages;
      lengths.set_integer(length, s);
      for (std::int64_t j = 0; j * c.page_size < length; ++j) {
        pages.push_back(free.back());
        table.set_integer(free.back(), s, j), indices.set_integer(free.back(), listed++);
        free.pop_back();
      }
      indptr.set_integer(listed, s + 1);
      for (int i = 0; i < q_len; ++i, ++token) {
        const std::int64_t position = length - q_len + i;
        const bool skipped = c.by == By::slots ? random.below(6) == 0 : c.positions && random.below(6) == 0;
        const std::int64_t page = pages[static_cast<std::size_t>(position / c.page_size)];
        page_.push_back(skipped ? -1 : page), place_.push_back(position % c.page_size), position_.push_back(position);
        slots.set_integer(
            skipped ? -1 - static_cast<std::int64_t>(random.below(3)) : page * c.page_size + position % c.page_size,
            token);
        positions.set_integer(skipped && c.by != By::slots ? -1 : position, token);
      }
      cu_q.set_integer(token, s + 1);
    }
    for (; listed < indices.extent(0); ++listed) indices.set_integer(0x7ffffff0, listed);
    for (; token < c.tokens(); ++token) {
      page_.push_back(-1), place_.push_back(0), position_.push_back(0);
      slots.set_integer(-1, token), positions.set_integer(3, token);
    }
  }

  // Any append's arguments, by as much as the case tells.
  template <class Args>
  void tell_places(const PlacedCase& c, Args* args) {
    if (c.by == By::slots) {
      args->slots = slots.tensor();
    } else {
      if (!c.one_each) args->cu_q = cu_q.tensor();
      if (!c.positions) args->lengths = lengths.tensor();
      if (c.by == By::table) args->page_table = table.tensor();
      if (c.by == By::indices) args->page_indptr = indptr.tensor(), args->page_indices = indices.tensor();
    }
    if (c.positions) args->positions = positions.tensor();
  }

  std::vector<Array*> told() { return {&slots, &positions, &table, &indptr, &indices, &cu_q, &lengths}; }

  bool is_skipped(std::int64_t token) const { return page_[static_cast<std::size_t>(token)] < 0; }

  // Of each token: its page, negative where it is skipped; the place there; its position.
  std::vector<std::int64_t> page_, place_, position_;
};

// A call with its places, for a test of any append.
template <class Args, class Case>
class Appending : public Places {
 public:
  explicit Appending(const Case& c) : Places(c), args(sized<Args>()), options(c.options), c_(c) {
    options.size = sizeof(options);
  }

  Args args;
  quern_rope_options options;

 protected:
  Case c_;
  std::int64_t wrong_ = 0;  // results that are not as they should be
};

// A call from end to end: nothing is asked of a workspace, and once prepared nothing is compiled any more.
template <class Args, class Workspace, class Prepare, class Run>
void append_prepared(Args& args, Workspace workspace, Prepare prepare, Run run) {
  auto error = sized<quern_error>();
  std::uint64_t bytes = 5;
  ASSERT_EQ(workspace(context(), &args, &bytes, &error), QUERN_OK) << error.text;
  EXPECT_EQ(bytes, 0u);
  ASSERT_EQ(prepare(context(), &args, &error), QUERN_OK) << error.text;
  args.flags |= QUERN_CALL_CACHED_ONLY;
  ASSERT_EQ(run(context(), &args, &error), QUERN_OK) << error.text;
  synchronize();
}

}  // namespace quern::test
