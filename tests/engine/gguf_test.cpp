// GGUF files: the numbers of each element type by a formula of the test's own, and files that are not as they should
// be.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/checkpoint/gguf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <random>
#include <stdexcept>

#include "tests/engine/gguf_file.h"

namespace quern::test {
namespace {

using engine::Gguf;

// What reading these bytes is refused with, without the file's name; "" where it is not.
std::string refusal(const std::string& bytes) {
  const Written file(bytes);
  try {
    const Gguf gguf(file.path());
    return "";
  } catch (const std::runtime_error& error) {
    const std::string text = error.what(), prefix = file.path() + ": ";
    EXPECT_TRUE(text.starts_with(prefix)) << text;
    return text.substr(std::min(prefix.size(), text.size()));
  }
}

// ---- Numbers --------------------------------------------------------------------------------------------------------

// The nearest bf16, the even one of two.
std::uint16_t nearest(double value) {
  const auto below = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
  const auto number = [](std::uint16_t bits) {
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
  };
  const auto above = static_cast<std::uint16_t>(below + 1);
  const double down = std::abs(value - number(below)), up = std::abs(number(above) - value);
  return down < up || (down == up && below % 2 == 0) ? below : above;
}

// Six bits of mantissa, so that all that follows is exact in fp32.
struct Half {
  std::uint16_t bits;
  double value;
};
Half draw_half(std::mt19937& random) {
  const auto draw = [&](unsigned most) { return static_cast<std::uint32_t>(random() % most); };
  const std::uint32_t mantissa = draw(32), exponent = 8 + draw(12), sign = draw(2);
  return {static_cast<std::uint16_t>(sign << 15 | exponent << 10 | mantissa << 5),
          (sign == 0 ? 1.0 : -1.0) * (1.0 + mantissa / 32.0) * std::exp2(static_cast<double>(exponent) - 15.0)};
}

struct Blocks {
  std::string bytes;
  std::vector<double> values;
};
void set_bits(std::string& bytes, std::size_t byte, int shift, int value) {
  bytes[byte] = static_cast<char>(static_cast<unsigned char>(bytes[byte]) | value << shift);
}
void set_half(std::string& bytes, std::size_t byte, const Half& half) {
  bytes[byte] = static_cast<char>(half.bits & 255), bytes[byte + 1] = static_cast<char>(half.bits >> 8);
}

// A block of each type, written element by element from the numbers that it is to hold.
Blocks make_q8_0(std::mt19937& random) {
  Blocks block{std::string(34, '\0'), {}};
  const Half d = draw_half(random);
  set_half(block.bytes, 0, d);
  for (std::size_t i = 0; i < 32; ++i) {
    const int q = static_cast<int>(random() % 256) - 128;
    block.bytes[2 + i] = static_cast<char>(q);
    block.values.push_back(d.value * q);
  }
  return block;
}
Blocks make_q4(std::mt19937& random, bool with_minimum) {
  const std::size_t begin = with_minimum ? 4 : 2;
  Blocks block{std::string(begin + 16, '\0'), {}};
  const Half d = draw_half(random), m = draw_half(random);
  set_half(block.bytes, 0, d);
  if (with_minimum) set_half(block.bytes, 2, m);
  for (std::size_t i = 0; i < 32; ++i) {
    const int q = static_cast<int>(random() % 16);
    set_bits(block.bytes, begin + i % 16, i < 16 ? 0 : 4, q);
    block.values.push_back(with_minimum ? d.value * q + m.value : d.value * (q - 8));
  }
  return block;
}
Blocks make_q4_k(std::mt19937& random) {
  Blocks block{std::string(144, '\0'), {}};
  const Half d = draw_half(random), m = draw_half(random);
  set_half(block.bytes, 0, d), set_half(block.bytes, 2, m);
  for (std::size_t group = 0; group < 8; ++group) {
    const int scale = static_cast<int>(random() % 64), least = static_cast<int>(random() % 64);
    if (group < 4) {
      set_bits(block.bytes, 4 + group, 0, scale);
      set_bits(block.bytes, 8 + group, 0, least);
    } else {
      set_bits(block.bytes, 12 + group - 4, 0, scale % 16);
      set_bits(block.bytes, 12 + group - 4, 4, least % 16);
      set_bits(block.bytes, 4 + group - 4, 6, scale / 16);
      set_bits(block.bytes, 8 + group - 4, 6, least / 16);
    }
    for (std::size_t i = 0; i < 32; ++i) {
      const int q = static_cast<int>(random() % 16);
      set_bits(block.bytes, 16 + group / 2 * 32 + i, group % 2 == 0 ? 0 : 4, q);
      block.values.push_back(d.value * scale * q - m.value * least);
    }
  }
  return block;
}
Blocks make_q6_k(std::mt19937& random) {
  Blocks block{std::string(210, '\0'), {}};
  const Half d = draw_half(random);
  set_half(block.bytes, 208, d);
  std::array<int, 16> scales{};
  for (std::size_t group = 0; group < 16; ++group) {
    scales[group] = static_cast<int>(random() % 256) - 128;
    block.bytes[192 + group] = static_cast<char>(scales[group]);
  }
  // Of each 128 the first 64 have the low halves of 64 bytes, the last 64 their high ones.
  for (std::size_t i = 0; i < 256; ++i) {
    const int q = static_cast<int>(random() % 64);
    const std::size_t within = i % 128;
    set_bits(block.bytes, i / 128 * 64 + within % 64, within < 64 ? 0 : 4, q % 16);
    set_bits(block.bytes, 128 + i / 128 * 32 + within % 32, static_cast<int>(within / 32) * 2, q / 16);
    block.values.push_back(d.value * scales[i / 16] * (q - 32));
  }
  return block;
}
Blocks make_plain(std::mt19937& random, int kind) {
  const Half h = draw_half(random);
  if (kind == 1) return {GgufFile::raw(h.bits), {h.value}};
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(h.value)) |
                    (kind == 0 ? static_cast<std::uint32_t>(random() % 65536) : 0);
  if (kind == 0) return {GgufFile::raw(bits), {static_cast<double>(std::bit_cast<float>(bits))}};
  return {GgufFile::raw(static_cast<std::uint16_t>(bits >> 16)), {h.value}};
}

TEST(GgufNumbers, AreThoseThatWereWritten) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  struct Type {
    std::uint32_t number;
    Blocks (*make)(std::mt19937&);
  };
  const Type types[] = {{0, [](std::mt19937& r) { return make_plain(r, 0); }},
                        {1, [](std::mt19937& r) { return make_plain(r, 1); }},
                        {30, [](std::mt19937& r) { return make_plain(r, 2); }},
                        {2, [](std::mt19937& r) { return make_q4(r, false); }},
                        {3, [](std::mt19937& r) { return make_q4(r, true); }},
                        {8, make_q8_0},
                        {12, make_q4_k},
                        {14, make_q6_k}};
  for (const Type& type : types) {
    Blocks all;
    for (int i = 0; i < 24; ++i) {
      const Blocks block = type.make(random);
      all.bytes += block.bytes;
      all.values.insert(all.values.end(), block.values.begin(), block.values.end());
    }
    GgufFile made;
    made.tensor("before", {2}, 0, GgufFile::raw(1.0f) + GgufFile::raw(2.0f));
    made.tensor("t", {3, static_cast<std::int64_t>(all.values.size()) / 3}, type.number, all.bytes);
    const Written file(made.bytes());
    const Gguf gguf(file.path());
    ASSERT_NE(gguf.tensor("t"), nullptr);
    EXPECT_EQ(gguf.tensor("t")->shape[0], 3);
    std::vector<std::uint16_t> expected;
    for (const double value : all.values) expected.push_back(nearest(value));
    EXPECT_EQ(gguf.bf16("t"), expected) << engine::find_block_type(type.number)->name;
    EXPECT_EQ(gguf.bf16("before"), (std::vector<std::uint16_t>{0x3f80, 0x4000}));
  }
}

// Powers of two at the ends of f16: subnormal, largest, infinite.
TEST(GgufNumbers, OfF16AreRightAtItsEnds) {
  GgufFile made;
  std::string bytes;
  for (const int bits : {0x0000, 0x8000, 0x0001, 0x03ff, 0x0400, 0x7bff, 0xfc00, 0x7e00})
    bytes += GgufFile::raw(static_cast<std::uint16_t>(bits));
  made.tensor("t", {8}, 1, bytes);
  const Written file(made.bytes());
  const std::vector<std::uint16_t> values = Gguf(file.path()).bf16("t");
  EXPECT_EQ(values, (std::vector<std::uint16_t>{0x0000, 0x8000, 0x3380, nearest(1023 * std::exp2(-24.0)), 0x3880,
                                                0x4780, 0xff80, 0x7fc0}));
}

// ---- Files that are not as they should be ---------------------------------------------------------------------------

TEST(GgufFileOfNobody, IsRefusedByWhatIsWrong) {
  const std::string good = GgufFile().bytes();
  EXPECT_EQ(refusal(good), "");
  EXPECT_EQ(refusal(""), "the file is empty");
  EXPECT_EQ(refusal("GG"), "byte 0: the header goes past the end of the file");
  EXPECT_EQ(refusal("GGML" + good.substr(4)), "it does not begin with GGUF");
  EXPECT_EQ(refusal("GGUF" + GgufFile::raw(std::uint32_t{1}) + good.substr(8)), "the version is 1; allowed: 2, 3");
  const auto of = [](const auto& fill) {
    GgufFile made;
    fill(made);
    return refusal(made.bytes());
  };
  const std::string huge = GgufFile::raw(~std::uint64_t{0} - 7);
  EXPECT_EQ(refusal(good.substr(0, 8) + huge + huge), "byte 16: the number of tensors goes past the end of the file");
  EXPECT_EQ(of([&](GgufFile& f) { f.value("x", 8, huge); }).substr(9), "the string goes past the end of the file");
  EXPECT_EQ(of([&](GgufFile& f) { f.value("x", 9, GgufFile::raw(std::uint32_t{0}) + huge); }).substr(9),
            "the array goes past the end of the file");
  EXPECT_EQ(of([&](GgufFile& f) { f.value("x", 77, ""); }).substr(9), "there is no value type 77");
  EXPECT_EQ(of([&](GgufFile& f) { f.whole("x", 1), f.whole("x", 2); }).substr(9), "there are two values x");
  EXPECT_EQ(of([&](GgufFile& f) { f.whole("general.alignment", 24); }),
            "general.alignment is 24; allowed: powers of two to 65536");
  EXPECT_EQ(of([&](GgufFile& f) { f.text("general.alignment", "x"); }),
            "general.alignment is \"x\"; allowed: powers of two to 65536");
  std::string nested;
  for (int i = 0; i < 6; ++i) nested += GgufFile::raw(std::uint32_t{9}) + GgufFile::raw(std::uint64_t{1});
  EXPECT_NE(of([&](GgufFile& f) { f.value("x", 9, nested); }).find("more than 4 arrays lie in each other"),
            std::string::npos);
  const std::string many(5 << 20, '\0');
  EXPECT_NE(of([&](GgufFile& f) {
              f.value("x", 9, GgufFile::raw(std::uint32_t{0}) + GgufFile::raw(many));
            }).find("more than 4194304 values"),
            std::string::npos);

  const auto tensor = [&](const std::vector<std::int64_t>& shape, std::uint32_t type, std::uint64_t offset) {
    return of([&](GgufFile& f) {
      f.tensor("fine", {8}, 0, std::string(32, '\0'));
      f.place("t", shape, type, offset);
    });
  };
  EXPECT_EQ(tensor({8}, 0, 0), "");
  EXPECT_EQ(tensor({9}, 0, 0), "t goes past the end of the file");
  EXPECT_EQ(tensor({1}, 0, 32), "t goes past the end of the file");
  EXPECT_EQ(tensor({1}, 0, ~std::uint64_t{31}), "t goes past the end of the file");
  EXPECT_EQ(tensor({1}, 999, 64), "t goes past the end of the file");
  EXPECT_EQ(tensor({1}, 999, 0), "") << "nobody has asked for it";
  EXPECT_NE(tensor({1}, 0, 4).find("the offset of t is not aligned"), std::string::npos);
  EXPECT_NE(tensor({0, 4}, 0, 0).find("the shape of t is none"), std::string::npos);
  EXPECT_NE(tensor({1 << 30, 1 << 30, 1 << 30}, 0, 0).find("the shape of t is none"), std::string::npos);
  EXPECT_NE(tensor({-1}, 0, 0).find("the shape of t is none"), std::string::npos);
  EXPECT_NE(tensor({1, 1, 1, 1, 1}, 0, 0).find("has 5 dimensions; allowed: at most 4"), std::string::npos);
  EXPECT_EQ(tensor({40}, 8, 0), "t has rows of 40 elements, which are no whole blocks of Q8_0");
  EXPECT_NE(
      of([](GgufFile& f) { f.place("t", {1}, 999, 0), f.place("t", {1}, 999, 0); }).find("there are two tensors t"),
      std::string::npos);

  GgufFile unknown;
  unknown.tensor("t", {32}, 6, std::string(22, '\0'));
  const Written file(unknown.bytes());
  const Gguf gguf(file.path());
  EXPECT_THROW(gguf.bf16("t"), std::runtime_error);
  EXPECT_THROW(gguf.bf16("u"), std::runtime_error);
  EXPECT_THROW(gguf.at("x"), std::runtime_error);
  EXPECT_THROW(Gguf("/nowhere.gguf"), std::runtime_error);
  EXPECT_THROW(Gguf(testing::TempDir()), std::runtime_error);
}

}  // namespace
}  // namespace quern::test
