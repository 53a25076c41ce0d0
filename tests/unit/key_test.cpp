// The canonical text and its hash, held to the byte: they are the identity of every cached kernel.
// SPDX-License-Identifier: Apache-2.0
#include "jit/key.h"

#include <gtest/gtest.h>

#include "jit/sanitizer.h"

namespace quern::jit {
namespace {

Unit sample() {
  Unit unit;
  unit.op = "attention";
  unit.target = Target::parse("sm_90a");
  unit.entry = "quern_attention";
  unit.constants = {{"HEAD_DIM", "128"}, {"EPILOGUE", "a + b"}};
  unit.source = {"attention/attention.cuh", "#include \"common/tile.cuh\"\n#include \"common/a.cuh\"\n"};
  unit.headers = {{"unused.cuh", "x"}, {"common/tile.cuh", "abc"}, {"common/a.cuh", ""}};
  unit.options = {"-use_fast_math", "-DX=1"};
  unit.max_shared_bytes = 65536;
  return unit;
}

std::string text_of(const Unit& unit) { return canonical_text(unit, render(unit).used); }

// The digests of "abc" and "" are those of FIPS 180-2's examples.
TEST(Key, GoldenText) {
  EXPECT_EQ(text_of(sample()),
            "quern 2\n"
            "op attention\n"
            "target sm_90a\n"
            "entry quern_attention\n"
            "const HEAD_DIM 128\n"
            "const EPILOGUE a + b\n"
            "shared 65536\n"
            "option -use_fast_math\n"
            "option -DX=1\n"
            "source attention/attention.cuh c99dc0705f2630699d0518aa568af2b0dfe3192ccbc3fb49a428d6fd29c696d2\n"
            "header common/a.cuh e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"
            "header common/tile.cuh ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n");
}

TEST(Key, GoldenKey) {
  const cache::Key empty = key_of("");  // XXH3-128 of nothing, as xxHash documents it
  EXPECT_EQ(empty.high, 0x99aa06d3014798d8u);
  EXPECT_EQ(empty.low, 0x6001c324468d497fu);
  const cache::Key key = key_of(text_of(sample()));  // of GoldenText, as xxHash's Python package computes it
  EXPECT_EQ(key.high, 0xc6d638e47b46ef48u);
  EXPECT_EQ(key.low, 0x44a54ff5a8a714f6u);
}

TEST(Key, OptionalLines) {
  Unit unit = sample();
  unit.max_shared_bytes = 0;
  unit.options.clear();
  unit.constants.clear();
  const std::string text = text_of(unit);
  EXPECT_EQ(text.find("pass"), std::string::npos);
  Unit checked = unit;
  checked.checked = true;
  EXPECT_NE(text_of(checked).find("\npass checked\n"), std::string::npos);
  EXPECT_EQ(text.find("shared"), std::string::npos);
  EXPECT_EQ(text.find("option"), std::string::npos);
  EXPECT_EQ(text.find("const"), std::string::npos);
}

TEST(Key, ValuesAreEncoded) {
  Unit unit = sample();
  unit.constants = {{"A", "50% of\n\tx\xc3\xa9"}};
  unit.options = {"-DX=\x7f"};
  const std::string text = text_of(unit);
  EXPECT_NE(text.find("const A 50%25 of%0a%09x\xc3\xa9\n"), std::string::npos) << text;
  EXPECT_NE(text.find("option -DX=%7f\n"), std::string::npos) << text;
}

TEST(Key, EverythingThatMattersChangesIt) {
  const std::string base = text_of(sample());
  std::vector<Unit> others(10, sample());
  others[0].op = "other";
  others[1].target = Target::parse("sm_90");
  others[2].entry = "other";
  others[3].constants[0].value = "64";
  others[4].max_shared_bytes = 65537;
  others[5].options.pop_back();
  others[6].source.text = "#include \"common/tile.cuh\"\n#include \"common/a.cuh\"\n ";
  others[7].headers[1].text = "abd";
  others[8].source.name = "other.cuh";
  others[9].keep_operands = true;
  for (const Unit& other : others) EXPECT_NE(text_of(other), base);
  Unit same = sample();
  same.headers[0].text = "y";  // does not go in
  EXPECT_EQ(text_of(same), base);
}

TEST(Key, ASanitizedHostImageIsAnother) {
  Unit unit = sample();
  unit.target = Target::parse("host");
  const std::string text = text_of(unit);
  EXPECT_EQ(text.find("option -fsanitize=") != std::string::npos, !kSanitizerOption.empty()) << text;
  EXPECT_EQ(text_of(sample()).find("-fsanitize="), std::string::npos);
}

}  // namespace
}  // namespace quern::jit
