// Who has which pages: sharing by content, keeping what nobody has, and forgetting what lies behind a page that goes.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/pages.h"

#include <gtest/gtest.h>

#include <numeric>

namespace quern::test {
namespace {

using engine::Pages;

std::vector<std::int32_t> text(std::int32_t first, std::size_t count) {
  std::vector<std::int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// Takes pages for a text of whole pages, and tells what they hold.
std::vector<std::int32_t> write(Pages& pages, const std::vector<std::int32_t>& tokens) {
  std::vector<std::int32_t> taken;
  const auto size = static_cast<std::size_t>(pages.page_size());
  for (std::size_t end = size; end <= tokens.size(); end += size) {
    taken.push_back(pages.take());
    pages.publish(std::span(tokens).first(end), taken.size() > 1 ? taken[taken.size() - 2] : -1, taken.back());
  }
  return taken;
}
void release(Pages& pages, const std::vector<std::int32_t>& all) {
  for (auto page = all.rbegin(); page != all.rend(); ++page) pages.release(*page);
}

TEST(Pages, AreGivenOnceAndComeBack) {
  Pages pages(3, 4);
  const std::int32_t a = pages.take(), b = pages.take(), c = pages.take();
  EXPECT_NE(a, b);
  EXPECT_NE(b, c);
  EXPECT_EQ(pages.take(), -1);
  pages.release(b);
  EXPECT_EQ(pages.free(), 1);
  EXPECT_EQ(pages.take(), b);
}

TEST(Pages, AreSharedByTextsThatBeginAlike) {
  Pages pages(8, 4);
  std::vector<std::int32_t> tokens = text(0, 12);
  const std::vector<std::int32_t> written = write(pages, tokens);
  EXPECT_EQ(pages.find(tokens), std::vector(written.begin(), written.begin() + 2)) << "the last token is left out";
  EXPECT_TRUE(pages.is_shared(written[0]));
  EXPECT_FALSE(pages.is_shared(written[2]));
  tokens.push_back(99);
  EXPECT_EQ(pages.find(tokens), written);
  tokens[5] = 77;
  EXPECT_EQ(pages.find(tokens), std::vector{written[0]}) << "the second page's tokens are others";
  EXPECT_TRUE(pages.find(text(1, 12)).empty());
}

TEST(Pages, AreFoundWhenNobodyHasThemUntilTheyAreNeeded) {
  Pages pages(4, 4);
  const std::vector<std::int32_t> tokens = text(0, 9);
  const std::vector<std::int32_t> written = write(pages, text(0, 8));
  release(pages, written);
  EXPECT_EQ(pages.free(), 4);
  const std::vector<std::int32_t> found = pages.find(tokens);
  EXPECT_EQ(found, written);
  release(pages, found);
  for (int i = 0; i < 3; ++i) EXPECT_GE(pages.take(), 0);
  EXPECT_EQ(pages.find(tokens), std::vector{written[0]}) << "the end of a text goes before its beginning";
}

TEST(Pages, ForgetWhatLiesBehindAPageThatGoes) {
  Pages pages(3, 2);
  const std::vector<std::int32_t> written = write(pages, text(0, 6));
  pages.release(written[0]);  // its followers are still held
  EXPECT_EQ(pages.take(), written[0]);
  EXPECT_TRUE(pages.find(text(0, 7)).empty());
  // The page has other content now; the old followers must not be found behind it.
  const std::vector<std::int32_t> other = {50, 51, 2, 3, 9};
  pages.publish(std::span(other).first(2), -1, written[0]);
  EXPECT_EQ(pages.find(other), std::vector{written[0]});
}

TEST(Pages, OfOneContentAreFoundOnce) {
  Pages pages(4, 2);
  const std::vector<std::int32_t> first = write(pages, text(0, 4)), second = write(pages, text(0, 4));
  EXPECT_EQ(pages.find(text(0, 5)), first);
  release(pages, second);
  EXPECT_EQ(pages.free(), 2);
}

}  // namespace
}  // namespace quern::test
