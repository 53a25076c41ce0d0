// Pointwise expressions: what they mean, their one canonical text, what is refused and in which words.
// SPDX-License-Identifier: Apache-2.0
#include "sources/expression/expression.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <thread>

#include "jit/error.h"
#include "sources/expression/tree.h"
#include "tests/support/formula.h"

namespace quern::ops::expression {
namespace {

struct Reading {
  const char* text;
  const char* canonical;
  const char* code;
};

TEST(Expression, HasOneCanonicalTextAndItsCode) {
  const Reading readings[] = {
      {"acc", "acc", "acc"},
      {" silu( acc + col0 )\t*\n row1 ", "silu(acc+col0)*row1", "(silu((acc + x0)) * x1)"},
      {"((acc))", "acc", "acc"},
      {"acc-row0-row1", "acc-row0-row1", "((acc - x0) - x1)"},
      {"acc-(row0-row1)", "acc-(row0-row1)", "(acc - (x0 - x1))"},
      {"acc+(row0+row1)", "acc+(row0+row1)", "(acc + (x0 + x1))"},
      {"(acc*row0)/row1", "acc*row0/row1", "((acc * x0) / x1)"},
      {"acc*(row0+1)", "acc*(row0+1)", "(acc * (x0 + 1.0f))"},
      {"-acc*2", "-acc*2", "((-acc) * 2.0f)"},
      {"-(acc*2)", "-(acc*2)", "(-(acc * 2.0f))"},
      {"- - acc", "--acc", "(-(-acc))"},
      {"acc - -1", "acc--1", "(acc - (-1.0f))"},
      {"gate*up", "gate*up", "(gate * up)"},
      {"tensor7+scalar7", "tensor7+scalar7", "(x7 + s7)"},
      {"acc*0.10", "acc*0.1", "(acc * 0.1f)"},
      {"acc*.5", "acc*0.5", "(acc * 0.5f)"},
      {"acc*2.", "acc*2", "(acc * 2.0f)"},
      {"acc*1E+03", "acc*1000", "(acc * 1000.0f)"},
      {"acc*1e-3", "acc*0.001", "(acc * 0.001f)"},
      {"acc*1e30", "acc*1e30", "(acc * 1e30f)"},
      {"acc*1e-30", "acc*1e-30", "(acc * 1e-30f)"},
      {"acc*16777217", "acc*16777216", "(acc * 16777216.0f)"},
      {"acc*1e-45", "acc*1e-45", "(acc * 1e-45f)"},
      {"select(acc<0, acc, 0)", "select(acc<0,acc,0)", "((acc < 0.0f) ? acc : 0.0f)"},
      {"select(!(acc<0) && (acc>1||acc!=2), 1, 2)", "select(!(acc<0)&&(acc>1||acc!=2),1,2)",
       "(((!(acc < 0.0f)) && ((acc > 1.0f) || (acc != 2.0f))) ? 1.0f : 2.0f)"},
      {"select(acc<0 || acc>1 && acc!=2, 1, 2)", "select(acc<0||acc>1&&acc!=2,1,2)",
       "(((acc < 0.0f) || ((acc > 1.0f) && (acc != 2.0f))) ? 1.0f : 2.0f)"},
      {"clamp(acc, -448, 448)", "clamp(acc,-448,448)", "clamp(acc, (-448.0f), 448.0f)"},
      {"gelu_tanh(min(max(pow(acc,2),rsqrt(row3)),erf(col2)))", "gelu_tanh(min(max(pow(acc,2),rsqrt(row3)),erf(col2)))",
       "gelu_tanh(min(max(pow(acc, 2.0f), rsqrt(x3)), erf(x2)))"},
      {"exp2( log2(acc) )", "exp2(log2(acc))", "exp_of_two(log_of_two(acc))"},
      {"atan2(sin(acc),f16(1))", "atan2(sin(acc),f16(1))", "atan2(sin(acc), rounded_to<f16>(1.0f))"},
      // Integers, and numbers that are written as such beside them.
      {"integer0+1", "integer0+1", "whole_sum(x0, 1ll)"},
      {"2*(3-1)*integer0", "2*(3-1)*integer0", "whole_product(whole_product(2ll, whole_difference(3ll, 1ll)), x0)"},
      {"integer0*16777217", "integer0*16777217", "whole_product(x0, 16777217ll)"},
      {"integer0/-2%7", "integer0/-2%7", "whole_remainder(whole_quotient(x0, whole_negative(2ll)), 7ll)"},
      {"integer0 & ~integer1 | 3 ^ integer0 << 2 >> 1", "integer0&~integer1|3^integer0<<2>>1",
       "((x0 & (~x1)) | (3ll ^ shifted_right(shifted_left(x0, 2ll), 1ll)))"},
      {"(integer0|1)&2", "(integer0|1)&2", "((x0 | 1ll) & 2ll)"},
      {"select(integer0+1==integer1&&index5<place,1,2)", "select(integer0+1==integer1&&index5<place,1,2)",
       "(((whole_sum(x0, 1ll) == x1) && (index5 < place)) ? 1.0f : 2.0f)"},
      {"select(integer0==1,integer1,0)", "select(integer0==1,integer1,0)", "((x0 == 1ll) ? x1 : 0ll)"},
      {"max(abs(integer0),clamp(1,0,integer1))", "max(abs(integer0),clamp(1,0,integer1))",
       "max(whole_abs(x0), whole_clamp(1ll, 0ll, x1))"},
      // Beside numbers, and in functions of numbers, they become numbers.
      {"integer0+1.0", "number(integer0)+1", "(number_of(x0) + 1.0f)"},
      {"1/2+integer0", "1/2+number(integer0)", "((1.0f / 2.0f) + number_of(x0))"},
      {"acc*index0", "acc*number(index0)", "(acc * number_of(index0))"},
      {"exp(place)", "exp(number(place))", "exp(number_of(place))"},
      {"number(integer0)", "number(integer0)", "number_of(x0)"},
      {"int8(acc)&255", "int8(acc)&255", "(integer_of<i8>(acc) & 255ll)"},
      {"int64(acc<1)*number(acc>2)", "number(int64(acc<1))*number(acc>2)",
       "(number_of(integer_of<i64>((acc < 1.0f))) * number_of((acc > 2.0f)))"},
  };
  for (const Reading& reading : readings) {
    SCOPED_TRACE(reading.text);
    const quern_expression& made = intern(reading.text);
    EXPECT_EQ(made.text, reading.canonical);
    EXPECT_EQ(made.code, reading.code);
    EXPECT_EQ(&intern(made.text), &made);
    EXPECT_EQ(&interned(made.number), &made);
  }
}

TEST(Expression, TellsWhatItReads) {
  const quern_expression& made = intern("acc*row1 + tensor3*scalar0 - col7*scalar5");
  using enum OperandKind;
  const std::array<OperandKind, 8> kinds = {unused, row, unused, tensor, unused, unused, unused, column};
  EXPECT_EQ(made.operands, kinds);
  EXPECT_EQ(made.scalars, 0b100001U);
  EXPECT_EQ(made.leaves, std::uint32_t{leaf_acc});
  EXPECT_EQ(intern("gate*up").leaves, std::uint32_t{leaf_gate | leaf_up});
  EXPECT_EQ(intern("row0").leaves, 0U);
  const quern_expression& whole = intern("integer2*index0+index5");
  EXPECT_EQ(whole.operands[2], integer);
  EXPECT_EQ(whole.leaves, std::uint32_t{leaf_integer_operand | leaf_place | leaf_integer_value});
  EXPECT_EQ(whole.indices, 0b100001U);
  EXPECT_EQ(intern("scalar0+place").indices, 1U << kDimensions);
  EXPECT_EQ(intern("scalar0+place").leaves, std::uint32_t{leaf_place});
  EXPECT_EQ(intern("int8(acc)").leaves, std::uint32_t{leaf_acc | leaf_integer_value});
}

struct Refused {
  std::string text;
  std::vector<const char*> named;  // all of them stand in the error
};

void expect_refused(const Refused& refused) {
  SCOPED_TRACE(refused.text);
  try {
    intern(refused.text);
    ADD_FAILURE() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), QUERN_INVALID);
    EXPECT_LT(error.text().size(), 1000U);
    for (const char* named : refused.named) {
      EXPECT_NE(error.text().find(named), std::string::npos) << named << "\n" << error.text();
    }
  }
}

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

TEST(Expression, IsRefusedWithThePlaceAndWhatIsAllowed) {
  const Refused all[] = {
      {"", {"byte 0: the text ends here", "acc, gate, up", "row0 to row7"}},
      {"   ", {"byte 3: the text ends here"}},
      {"acc +", {"byte 5: the text ends here", "a number, acc"}},
      {"acc acc", {"byte 4: found \"acc\"", "an operator or the end"}},
      {"acc)", {"byte 3: found \")\"", "an operator or the end"}},
      {"(acc", {"byte 4: the text ends here", "an operator or )"}},
      {"(acc,1)", {"byte 4: found \",\"", "an operator or )"}},
      {"* acc", {"byte 0: found \"*\"", "a number, acc"}},
      {"+acc", {"byte 0: found \"+\""}},
      {"acc @ 2", {"byte 4: \"@\" means nothing", "+ - * /"}},
      {"acc = 2", {"byte 4: \"=\" means nothing"}},
      {"acc & acc", {"byte 0: \"acc\" is a number", "\"&\" takes integers", "int64(x)"}},
      {"integer0 & 1.5", {"byte 11: \"1.5\" is a number", "\"&\" takes integers"}},
      {"integer0 << (1/2)", {"byte 12: \"(1/2)\" is a number", "\"<<\" takes integers"}},
      {"~acc", {"byte 1: \"acc\" is a number", "\"~\" takes integers"}},
      {"(acc<1)&1", {"byte 0: \"(acc<1)\" is a truth value", "\"&\" takes integers"}},
      {"acc%2", {"byte 0: \"acc\" is a number", "\"%\" takes integers"}},
      {"!integer0", {"byte 1: \"integer0\" is an integer", "\"!\" takes truth values"}},
      {"select(integer0,1,2)", {"byte 7: \"integer0\" is an integer", "the first argument of select"}},
      {"index6", {"there is no \"index6\"", "index0 to index5"}},
      {"integer8", {"there is no \"integer8\"", "integer0 to integer7"}},
      {"int64(1)", {"\"int64(1)\" is a constant"}},
      {"tensor1+integer1", {"\"integer1\" and \"tensor1\" are the same operand, number 1"}},
      {"acc \x07", {"byte 4: \"\\x07\" means nothing"}},
      {"acc*\xc3\xa9", {"byte 4: \"\\xc3\" means nothing"}},
      {std::string("acc\0+1", 6), {"byte 3: \"\\x00\" means nothing"}},
      {"foo(acc)", {"byte 0: there is no \"foo\"", "gelu_tanh", "select"}},
      {"acc+row", {"byte 4: there is no \"row\"", "row0 to row7"}},
      {"acc+row8", {"byte 4: there is no \"row8\"", "row0 to row7"}},
      {"acc+row10", {"there is no \"row10\""}},
      {"acc+scalar8", {"there is no \"scalar8\"", "scalar0 to scalar7"}},
      {"acc+Tensor0", {"there is no \"Tensor0\""}},
      {"acc+" + repeated("x", 3000), {"there is no \"xxxx", "...\""}},
      {"silu acc", {"byte 5: found \"acc\"", "( (silu takes 1 argument)"}},
      {"silu", {"byte 4: the text ends here", "silu takes 1 argument"}},
      {"silu()", {"byte 5: found \")\"", "a number, acc"}},
      {"min(acc)", {"byte 7: found \")\"", "a comma (min takes 2 arguments)"}},
      {"min(acc,1,2)", {"byte 9: found \",\"", "an operator or ) (min takes 2 arguments)"}},
      {"exp(acc", {"byte 7: the text ends here", "exp takes 1 argument"}},
      {"acc(1)", {"byte 3: found \"(\"", "an operator or the end"}},
      {"acc<1", {"byte 0: \"acc<1\" is a truth value", "select(condition, x, y)"}},
      {"(acc<1)+2", {"byte 0: \"(acc<1)\" is a truth value", "\"+\" takes numbers"}},
      {"acc<1<2", {"byte 0: \"acc<1\" is a truth value", "\"<\" takes numbers"}},
      {"select(acc<1==acc<2,1,2)", {"byte 7: \"acc<1\" is a truth value", "\"==\" takes numbers"}},
      {"acc*!acc", {"byte 5: \"acc\" is a number", "\"!\" takes truth values"}},
      {"select(acc && acc>1, 1, 2)", {"byte 7: \"acc\" is a number", "\"&&\" takes truth values"}},
      {"select(acc>1 || acc, 1, 2)", {"byte 16: \"acc\" is a number", "\"||\" takes truth values"}},
      {"select(acc, 1, 2)", {"byte 7: \"acc\" is a number", "the first argument of select"}},
      {"select(acc<1, acc<2, 2)", {"byte 14: \"acc<2\" is a truth value", "\"select\" takes numbers"}},
      {"exp(acc<1)", {"byte 4: \"acc<1\" is a truth value", "\"exp\" takes numbers"}},
      {"-(acc<1)", {"byte 1: \"(acc<1)\" is a truth value", "\"-\" takes numbers"}},
      {"row0 + acc*col0", {"byte 11: \"col0\" and \"row0\" are the same operand, number 0"}},
      {"1+2", {"\"1+2\" is a constant", "acc, gate, up"}},
      {"acc*1f", {"byte 5: \"f\" right after the number \"1\""}},
      {"acc*1.5.2", {"byte 7: \".\" right after the number \"1.5\""}},
      {"acc*1e", {"byte 4: the number \"1e\" has no digits in its exponent"}},
      {"acc*1e+", {"byte 4: the number \"1e+\" has no digits"}},
      {"acc*0x10", {"byte 5: \"x\" right after the number \"0\""}},
      {"acc*1e39", {"byte 4: the number \"1e39\" is beyond f32", "3.4028235e38"}},
      {"acc*1e-60", {"byte 4: the number \"1e-60\" is beyond f32", "1e-45"}},
      {"acc*.", {"byte 4: \".\" means nothing"}},
      {"acc*inf", {"there is no \"inf\""}},
      {repeated("(", 101) + "acc" + repeated(")", 101), {"byte 100: nested more than 100 deep"}},
      {repeated("-", 200) + "acc", {"nested more than 100 deep"}},
      {repeated("exp(", 100) + "acc" + repeated(")", 100), {"nested more than 100 deep"}},
      {"acc" + repeated("+1", 100), {"byte 0: nested more than 100 deep"}},
      {"acc+" + repeated("(", 4000), {"nested more than 100 deep"}},
      {std::string(4097, ' '), {"4097 bytes", "4096"}},
  };
  for (const Refused& refused : all) expect_refused(refused);
}

// 1 + 2 + 2 + ... leaves in a balanced tree.
std::string balanced(int levels, const std::string& leaf) {
  return levels == 0 ? leaf : "(" + balanced(levels - 1, leaf) + ")+(" + balanced(levels - 1, leaf) + ")";
}

TEST(Expression, IsTakenUpToItsLimits) {
  EXPECT_EQ(intern("acc" + repeated("+1", 99)).text, "acc" + repeated("+1", 99));
  EXPECT_EQ(intern(repeated("exp(", 99) + "acc" + repeated(")", 99)).code.substr(0, 8), "exp(exp(");
  EXPECT_EQ(intern(repeated("(", 99) + "acc" + repeated(")", 99)).text, "acc");
  EXPECT_EQ(intern(std::string(4093, ' ') + "acc").text, "acc");
  EXPECT_NO_THROW(intern(balanced(8, "acc")));  // 511 nodes
  expect_refused({balanced(9, "1"), {"more than 512 numbers, leaves, operators and functions"}});
  // Numbers whose shortest form is longer than what was written.
  const std::string half = "gelu_tanh(gelu_tanh(12345678e9))" + repeated("*gelu_tanh(gelu_tanh(12345678e9))", 27) +
                           repeated("*gelu_tanh(12345678e9)", 46);
  const std::string growing = half + "*(acc*" + half + ")";
  EXPECT_LE(growing.size(), 4096U);
  expect_refused({growing, {"bytes in its canonical form; at most 4096"}});
}

TEST(Expression, NumbersThatWereNeverGivenAreAnInternalError) {
  try {
    interned(0xffffffffU);
    ADD_FAILURE() << "it was found";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), QUERN_INTERNAL);
  }
}

TEST(Expression, CanonicalTextReadsAsTheSameTree) {
  int taken = 0;
  for (std::uint32_t seed = 0; seed < 20000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::string text = FormulaWriter(seed).number(static_cast<int>(seed % 7));
    if (text.size() > kMostBytes) continue;
    const Tree tree = parse(text);
    const std::string once = canonical(tree);
    const Tree again = parse(once);
    ASSERT_EQ(canonical(again), once) << text;
    ASSERT_EQ(code(again), code(tree)) << text;
    ASSERT_EQ(again.nodes.size(), tree.nodes.size()) << text;
    ASSERT_EQ(once.find_first_of(" \t"), std::string::npos);
    ++taken;
  }
  EXPECT_GT(taken, 15000);
}

// Bytes at random and texts cut and spliced: taken or refused with QUERN_INVALID, nothing else.
TEST(Expression, SurvivesAnyBytes) {
  std::mt19937 random(1);
  const std::string alphabet = "acgtuprowelnsx0123456789.e+-*/<>=!&|(), \n\x01\xff";
  int taken = 0;
  for (std::uint32_t round = 0; round < 50000; ++round) {
    std::string text;
    if (round % 2 == 0) {
      text = FormulaWriter(round).number(4);
      for (std::uint64_t edits = 1 + random() % 3; edits > 0 && !text.empty(); --edits) {
        text[random() % text.size()] = alphabet[random() % alphabet.size()];
        if (random() % 4 == 0) text.resize(random() % (text.size() + 1));
      }
    } else {
      for (std::uint64_t length = random() % 40; length > 0; --length) text += alphabet[random() % alphabet.size()];
    }
    try {
      parse(text);
      ++taken;
    } catch (const Error& error) {
      ASSERT_EQ(error.status(), QUERN_INVALID) << text;
      ASSERT_TRUE(error.text().starts_with("expression")) << error.text();
    }
  }
  EXPECT_GT(taken, 100);
}

TEST(Expression, IsInternedOnceByThreadsAtOnce) {
  constexpr int kThreads = 4, kFormulas = 300;  // beyond the first segments of the table
  std::vector<std::vector<const quern_expression*>> seen(kThreads);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (auto& mine : seen) {
    threads.emplace_back([&mine] {
      for (int i = 0; i < kFormulas; ++i) {
        const quern_expression& made = intern("acc * " + std::to_string(i) + " + 0.125");
        mine.push_back(&made);
        if (&interned(made.number) != &made) mine.push_back(nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : seen) EXPECT_EQ(mine, seen[0]);
  EXPECT_EQ(std::set(seen[0].begin(), seen[0].end()).size(), std::size_t{kFormulas});
  EXPECT_EQ(seen[0].size(), std::size_t{kFormulas});
}

}  // namespace
}  // namespace quern::ops::expression
