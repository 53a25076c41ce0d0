// What is kept of a compiler's log: all of it up to a bound, beyond that both ends and how much lies between.
// SPDX-License-Identifier: Apache-2.0
#include "jit/compile_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace quern::jit {
namespace {

// Numbered words, so that a text says where it was taken from.
std::string words(std::size_t bytes) {
  std::string text;
  for (int i = 0; text.size() < bytes; ++i) text += "word " + std::to_string(i) + '\n';
  text.resize(bytes);
  return text;
}

std::string in_pieces(const std::string& text, std::size_t piece) {
  CompileLog log;
  for (std::size_t at = 0; at < text.size(); at += piece) log.append(std::string_view(text).substr(at, piece));
  return log.text();
}

std::string both_ends(const std::string& text) {
  return text.substr(0, kLogHead) + "\n... (" + std::to_string(text.size() - kLogHead - kLogTail) +
         " bytes of the log are left out here)\n" + text.substr(text.size() - kLogTail);
}

TEST(CompileLog, IsWholeUpToItsLimit) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kLogHead, kLogHead + 1, kLogLimit - 1, kLogLimit}) {
    std::string text = words(size);
    for (const std::size_t piece : {std::size_t{7}, std::size_t{4096}, kLogLimit})
      EXPECT_EQ(in_pieces(text, piece), text) << size << " in pieces of " << piece;
    const std::string before = text;
    cap_log(&text);
    EXPECT_EQ(text, before) << size;
  }
}

TEST(CompileLog, KeepsBothEndsOfALongerOne) {
  for (const std::size_t size : {kLogLimit + 1, kLogLimit + 12345, 3 * kLogLimit, 20 * kLogLimit + 17}) {
    const std::string text = words(size), expected = both_ends(text);
    for (const std::size_t piece : {std::size_t{7}, std::size_t{65536}, size})
      EXPECT_EQ(in_pieces(text, piece), expected) << size << " in pieces of " << piece;
    std::string capped = text;
    cap_log(&capped);
    EXPECT_EQ(capped, expected) << size;
    EXPECT_LE(capped.size(), kLogLimit);
    cap_log(&capped);
    EXPECT_EQ(capped, expected) << "what was cut is not cut again";
  }
}

// The two bytes of an 'é' at either parity: neither end may begin or end in the middle of one.
TEST(CompileLog, CutsBetweenCharacters) {
  for (const std::size_t lead : {0, 1}) {
    for (const std::size_t last : {0, 1}) {
      std::string text(lead, 'x');
      while (text.size() < 2 * kLogLimit) text += "\u00e9";
      text.append(last, 'x');
      cap_log(&text);
      const std::size_t note = text.find("\n... ");
      const std::size_t end = text.find("here)\n") + 6;
      ASSERT_LT(note, end);
      EXPECT_EQ((note - lead) % 2, 0u) << lead;
      EXPECT_EQ((text.size() - last - end) % 2, 0u) << last;
    }
  }
}

}  // namespace
}  // namespace quern::jit
