// The size protocol: smaller structs, larger ones, and sizes that no struct has; and what is written into a
// quern_error.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "tests/abi/support.h"

namespace quern::test {
namespace {

// A struct from a newer header: the one of this header and something behind it.
template <class T>
struct Newer {
  T known;
  std::uint64_t tail[4];
};
template <class T>
Newer<T> newer() {
  Newer<T> value{};
  value.known.size = sizeof(value);
  return value;
}

std::int32_t create(const quern_context_options* options, quern_error* error) {
  quern_context* context = nullptr;
  const std::int32_t status = quern_context_create(options, &context, error);
  EXPECT_EQ(context == nullptr, status != QUERN_OK) << "an output was touched, or left out";
  quern_context_destroy(context);
  return status;
}

TEST(Structs, NewerOnesPassWhenTheUnknownTailIsZero) {
  auto options = newer<quern_context_options>();
  options.known.flags = QUERN_CONTEXT_NO_CACHE;
  EXPECT_EQ(create(&options.known, nullptr), QUERN_OK);
}

TEST(Structs, NewerOnesAreRefusedWhenSomethingUnknownIsSet) {
  auto options = newer<quern_context_options>();
  options.known.flags = QUERN_CONTEXT_NO_CACHE;
  // Each byte by itself: what a newer field would be sits at the beginning as a rule.
  for (std::size_t at = sizeof(quern_context_options); at < sizeof(options); ++at) {
    auto* const byte = reinterpret_cast<unsigned char*>(&options) + at;
    *byte = 1;
    expect_refused(QUERN_INVALID,
                   {"quern_context_options.size is 224", "byte " + std::to_string(at) + " is not zero", "192"},
                   [&](quern_error* error) { return create(&options.known, error); });
    *byte = 0;
  }
}

TEST(Structs, SmallerOnesReadAsIfFollowedByZeros) {
  // Only size and flags are there; the bytes behind would be refused if they were read.
  struct {
    std::uint32_t size = 8;
    std::uint32_t flags = QUERN_CONTEXT_NO_CACHE;
    unsigned char garbage[sizeof(quern_context_options)];
  } small;
  std::memset(small.garbage, 0xA5, sizeof(small.garbage));
  EXPECT_EQ(create(reinterpret_cast<const quern_context_options*>(&small), nullptr), QUERN_OK);
}

TEST(Structs, SizesThatNoStructHasAreRefused) {
  for (const std::uint32_t size : {0U, 4U, 7U, 65'537U, 0xffffffffU}) {
    auto options = sized<quern_context_options>();
    options.size = size;
    expect_refused(QUERN_INVALID,
                   {"quern_context_options.size is " + std::to_string(size), "sizeof(quern_context_options)", "192"},
                   [&](quern_error* error) { return create(&options, error); });
  }
}

TEST(Structs, OutputsOfAnySizeAreFilledAsFarAsTheyReach) {
  const Folder folder;
  const Context context = make_context(folder, 0);
  auto larger = newer<quern_cache_stats>();
  EXPECT_EQ(quern_cache_get_stats(context.get(), &larger.known, nullptr), QUERN_OK);
  EXPECT_EQ(larger.known.size, sizeof(larger)) << "the size is the caller's";
  EXPECT_GT(larger.known.limit, 0U);

  auto smaller = sized<quern_cache_stats>();
  smaller.size = offsetof(quern_cache_stats, limit);
  smaller.limit = 77;
  EXPECT_EQ(quern_cache_get_stats(context.get(), &smaller, nullptr), QUERN_OK);
  EXPECT_EQ(smaller.limit, 77U) << "written past the caller's size";

  larger.tail[3] = 1;
  expect_refused(QUERN_INVALID, {"quern_cache_stats.size", "not zero"},
                 [&](quern_error* error) { return quern_cache_get_stats(context.get(), &larger.known, error); });
}

std::int32_t fail_with(quern_error* error) {
  auto options = sized<quern_context_options>();
  // 'é' is two bytes, so that a cut can fall within a character.
  options.cache_path = "é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é";
  return create(&options, error);
}

bool is_whole_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (static_cast<unsigned char>(text[i]) == 0xC3 &&
        (i + 1 == text.size() || static_cast<unsigned char>(text[i + 1]) != 0xA9)) {
      return false;
    }
  }
  return true;
}

TEST(Errors, AreWrittenWithinTheCallersSize) {
  for (std::uint32_t size = 8; size < 100; ++size) {
    auto error = sized<quern_error>();
    std::memset(error.text, 0x5A, sizeof(error.text));
    error.native = -1;
    error.size = size;
    EXPECT_EQ(fail_with(&error), QUERN_INVALID);
    EXPECT_EQ(error.status, QUERN_INVALID);
    EXPECT_EQ(error.size, size);
    EXPECT_EQ(error.native, size >= 16 ? 0 : -1);
    const std::size_t room = size > 16 ? size - 16 : 0;
    EXPECT_EQ(error.text[room], 0x5A) << "written past a size of " << size;
    if (room > 0) {
      const std::size_t length = strnlen(error.text, room);
      EXPECT_LT(length, room) << "no NUL within a size of " << size;
      EXPECT_TRUE(is_whole_utf8({error.text, length})) << error.text;
    }
  }
}

TEST(Errors, ALongTextKeepsItsBeginningAndItsEnd) {
  auto whole = sized<quern_error>(), cut = sized<quern_error>();
  fail_with(&whole);
  const std::string all = whole.text;
  for (std::uint32_t room = 60; room < all.size(); ++room) {
    cut.size = 16 + room;
    fail_with(&cut);
    const std::string text = cut.text;
    const std::size_t middle = text.find("\n[...]\n");
    ASSERT_NE(middle, std::string::npos) << text;
    EXPECT_TRUE(all.starts_with(text.substr(0, middle))) << text;
    EXPECT_TRUE(all.ends_with(text.substr(middle + 7))) << text;
    EXPECT_GT(text.size() - middle, middle) << "the end is where the error is";
    EXPECT_GE(text.size() + 4, room);
  }
}

TEST(Errors, OnesWithoutASizeAreLeftAlone) {
  for (const std::uint32_t size : {0U, 4U, 1'000'000U}) {
    auto error = sized<quern_error>();
    error.size = size;
    error.status = 1234;
    EXPECT_EQ(fail_with(&error), QUERN_INVALID);
    EXPECT_EQ(error.status, 1234);
    EXPECT_EQ(error.text[0], '\0');
  }
}

TEST(Status, EveryNumberHasItsName) {
  EXPECT_STREQ(quern_status_name(QUERN_OK), "QUERN_OK");
  EXPECT_STREQ(quern_status_name(QUERN_INTERNAL), "QUERN_INTERNAL");
  EXPECT_STREQ(quern_status_name(QUERN_FAULT), "QUERN_FAULT");
  for (std::int32_t status = QUERN_OK; status <= QUERN_FAULT; ++status) {
    EXPECT_EQ(std::string_view(quern_status_name(status)).substr(0, 6), "QUERN_") << status;
  }
  EXPECT_STREQ(quern_status_name(17), "unknown");
  EXPECT_STREQ(quern_status_name(-1), "unknown");
  EXPECT_EQ(quern_abi_version(), static_cast<std::uint32_t>(QUERN_ABI_VERSION));
}

}  // namespace
}  // namespace quern::test
