// Target names, tags and limits.
// SPDX-License-Identifier: Apache-2.0
#include "jit/target.h"

#include <gtest/gtest.h>

#include "jit/error.h"

namespace quern::jit {
namespace {

TEST(Target, NamesComeBackAsTheyWent) {
  for (const char* name : {"sm_80",   "sm_86",   "sm_87",   "sm_89",   "sm_90",   "sm_90a", "sm_100", "sm_100a",
                           "sm_100f", "sm_103a", "sm_120",  "sm_120a", "sm_130",  "gfx900", "gfx908", "gfx90a",
                           "gfx942",  "gfx950",  "gfx1030", "gfx1100", "gfx1201", "host",   "host64"}) {
    const Target target = Target::parse(name);
    EXPECT_EQ(target.name(), name);
    EXPECT_EQ(Target::from_tag(target.tag()), target);
  }
}

TEST(Target, TagsArePackedAsTheHeaderSays) {
  EXPECT_EQ(Target::parse("sm_90a").tag(), 1u << 24 | 90u << 8 | 'a');
  EXPECT_EQ(Target::parse("gfx90a").tag(), 2u << 24 | 0x90au << 8);
  EXPECT_EQ(Target::parse("host64").tag(), 3u << 24 | 64u << 8);
  EXPECT_NE(Target::parse("sm_90"), Target::parse("sm_90a"));
  EXPECT_EQ(Target().family(), Family::none);
}

TEST(Target, DeviceFeaturesAreStripped) {
  EXPECT_EQ(Target::parse("gfx90a:sramecc+:xnack-"), Target::parse("gfx90a"));
  EXPECT_EQ(Target::parse("gfx942:xnack+").name(), "gfx942");
}

TEST(Target, BadNamesAreRefusedWithThoseAllowed) {
  for (const char* name :
       {"",         "sm_",     "sm_75",        "sm_9",         "sm_090", "sm_90b", "sm_90aa", "sm_a",   "sm_99999",
        "sm90",     "SM_90",   "sm_90 ",       "gfx",          "gfx8",   "gfx803", "gfxabc",  "gfx90g", "gfx9a0",
        "gfx12345", "gfx90a:", "gfx90a:fast+", "gfx90a:xnack", "gfx90A", "host32", "hosts",   "cpu",    "../sm_90"}) {
    try {
      Target::parse(name);
      ADD_FAILURE() << name << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), QUERN_INVALID);
      EXPECT_NE(error.text().find('\'' + std::string(name) + '\''), std::string::npos) << error.text();
      EXPECT_NE(error.text().find("sm_90a"), std::string::npos) << error.text();
      EXPECT_NE(error.text().find("host64"), std::string::npos) << error.text();
    }
  }
}

TEST(Target, Limits) {
  struct Expected {
    const char* name;
    std::uint32_t warp, per_block, per_sm;
    bool async_copy;
  };
  for (const Expected& expected :
       {Expected{"sm_80", 32, 166912, 167936, true}, Expected{"sm_86", 32, 101376, 102400, true},
        Expected{"sm_89", 32, 101376, 102400, true}, Expected{"sm_90a", 32, 232448, 233472, true},
        Expected{"sm_100a", 32, 232448, 233472, true}, Expected{"sm_103a", 32, 232448, 233472, true},
        Expected{"sm_120a", 32, 101376, 102400, true}, Expected{"gfx90a", 64, 65536, 65536, false},
        Expected{"gfx942", 64, 65536, 65536, false}, Expected{"gfx1100", 32, 65536, 65536, false},
        Expected{"host", 32, 232448, 233472, true}, Expected{"host64", 64, 232448, 233472, true}}) {
    const TargetInfo info = limits_of(Target::parse(expected.name));
    EXPECT_EQ(info.target.name(), expected.name);
    EXPECT_EQ(info.warp_size, expected.warp) << expected.name;
    EXPECT_EQ(info.shared_per_block, expected.per_block) << expected.name;
    EXPECT_EQ(info.shared_per_sm, expected.per_sm) << expected.name;
    EXPECT_EQ(info.async_copy, expected.async_copy) << expected.name;
  }
}

}  // namespace
}  // namespace quern::jit
