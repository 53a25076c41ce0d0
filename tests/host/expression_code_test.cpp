// What an expression's code computes on a target, against its tree evaluated here.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <random>

#include "tests/host/kernels.h"
#include "tests/support/formula.h"

namespace quern::host_tests {
namespace {

using namespace ops::expression;

// Numbers that the leaves stand for: acc, gate, up, operands, scalars.
using Leaves = std::array<float, 19>;

// Every formula as a case of one kernel: out[formula * samples + sample].
std::string kernel_source(const std::vector<std::string>& codes) {
  std::string text = "#include \"common/pointwise.cuh\"\nnamespace q {\n";
  for (std::size_t i = 0; i < codes.size(); ++i) {
    text +=
        "static f32 formula_" + std::to_string(i) + "(const f32* v) {\n  const f32 acc = v[0], gate = v[1], up = v[2]";
    for (int n = 0; n < 8; ++n) {
      text += ", x" + std::to_string(n) + " = v[" + std::to_string(3 + n) + "], s" + std::to_string(n) + " = v[" +
              std::to_string(11 + n) + "]";
    }
    text += ";\n  (void)acc, (void)gate, (void)up";
    for (int n = 0; n < 8; ++n) text += ", (void)x" + std::to_string(n) + ", (void)s" + std::to_string(n);
    text += ";\n  return " + codes[i] + ";\n}\n";
  }
  text +=
      "QUERN_KERNEL(formulas, 1, 1, const f32* leaves, f32* out, int samples) {\n"
      "  f32 (*const all[])(const f32*) = {";
  for (std::size_t i = 0; i < codes.size(); ++i) text += "formula_" + std::to_string(i) + ", ";
  text +=
      "};\n  const int f = block_index(0);\n"
      "  for (int i = 0; i < samples; ++i) out[f * samples + i] = all[f](leaves + 19 * i);\n}\n}\n";
  return text;
}

std::vector<float> run(const std::vector<std::string>& codes, const std::vector<Leaves>& leaves) {
  Kernel kernel(compile("host", "formulas.cuh", kernel_source(codes), "formulas"), "formulas", 0, {});
  std::vector<float> out(codes.size() * leaves.size(), -777.0f);
  EXPECT_EQ(
      kernel(static_cast<std::uint32_t>(codes.size()), leaves.data(), out.data(), static_cast<int>(leaves.size())), "");
  return out;
}

// A tree's value in numbers of type T, each result of an operation passed through `rounded`. Truth values are 0 and 1.
template <class T>
class Evaluator {
 public:
  Evaluator(const Tree& tree, const Leaves& leaves, std::function<T(T)> rounded)
      : tree_(tree), leaves_(leaves), rounded_(std::move(rounded)) {}

  T of(const Node& node) const {
    const auto child = [&](std::size_t i) { return of(tree_.nodes[node.children[i]]); };
    switch (node.kind) {
      case NodeKind::number:
        return node.value;
      case NodeKind::result:
        return leaves_[node.which];
      case NodeKind::operand:
        return leaves_[3U + node.index];
      case NodeKind::scalar:
        return leaves_[11U + node.which];
      case NodeKind::index:
        ADD_FAILURE() << "places are those of quern_pointwise, whose tests have formulas of them";
        return 0;
      case NodeKind::prefix:
        return kPrefix[node.which].text == "!" ? static_cast<T>(child(0) == 0) : -child(0);
      case NodeKind::binary:
        return node.type == Type::truth ? truth(kBinary[node.which].text, child(0), child(1))
                                        : rounded_(arithmetic(kBinary[node.which].text, child(0), child(1)));
      case NodeKind::call:
        break;
    }
    const std::string_view name = kFunctions[node.which].name;
    if (name == kSelect) return child(0) != 0 ? child(1) : child(2);
    return rounded_(call(name, child(0), node.child_count > 1 ? child(1) : T{}, node.child_count > 2 ? child(2) : T{}));
  }

 private:
  static T truth(std::string_view symbol, T a, T b) {
    const bool holds = symbol == "||"   ? a != 0 || b != 0
                       : symbol == "&&" ? a != 0 && b != 0
                       : symbol == "==" ? a == b
                       : symbol == "!=" ? a != b
                       : symbol == "<"  ? a < b
                       : symbol == "<=" ? a <= b
                       : symbol == ">"  ? a > b
                                        : a >= b;
    return static_cast<T>(holds);
  }
  static T arithmetic(std::string_view symbol, T a, T b) {
    if (symbol == "+") return a + b;
    if (symbol == "-") return a - b;
    return symbol == "*" ? a * b : a / b;
  }
  static T call(std::string_view name, T x, T y, T z) {
    const auto least = [](T a, T b) { return a < b || std::isnan(a) ? a : b; };
    const auto most = [](T a, T b) { return a > b || std::isnan(a) ? a : b; };
    if (name == "abs") return std::abs(x);
    if (name == "exp") return std::exp(x);
    if (name == "log") return std::log(x);
    if (name == "sqrt") return std::sqrt(x);
    if (name == "rsqrt") return 1 / std::sqrt(x);
    if (name == "tanh") return std::tanh(x);
    if (name == "erf") return std::erf(x);
    if (name == "sigmoid") return 1 / (1 + std::exp(-x));
    if (name == "relu") return x < 0 ? 0 : x;
    if (name == "silu") return x / (1 + std::exp(-x));
    if (name == "gelu") return x / 2 * std::erfc(-x / std::sqrt(T{2}));
    if (name == "gelu_tanh")
      return x / (1 + std::exp(static_cast<T>(-2 * std::sqrt(2 / M_PI)) * (x + static_cast<T>(0.044715) * x * x * x)));
    if (name == "min") return least(x, y);
    if (name == "max") return most(x, y);
    if (name == "pow") return std::pow(x, y);
    if (name == "exp2") return std::exp2(x);
    if (name == "expm1") return std::expm1(x);
    if (name == "log2") return std::log2(x);
    if (name == "log1p") return std::log1p(x);
    if (name == "sin") return std::sin(x);
    if (name == "cos") return std::cos(x);
    if (name == "atan2") return std::atan2(x, y);
    if (name == "floor") return std::floor(x);
    if (name == "ceil") return std::ceil(x);
    if (name == "trunc") return std::trunc(x);
    if (name == "round") return std::nearbyint(x);
    EXPECT_EQ(name, "clamp");
    return least(most(x, y), z);
  }

  const Tree& tree_;
  const Leaves& leaves_;
  std::function<T(T)> rounded_;
};

std::vector<Leaves> random_leaves(std::size_t count) {
  std::mt19937 random(11);
  std::vector<Leaves> all(count);
  for (Leaves& leaves : all) {
    for (float& leaf : leaves) leaf = static_cast<float>(static_cast<int>(random() % 8001) - 4000) / 1000.0f;
  }
  return all;
}

// Whether a tree consists of what IEEE 754 rounds exactly, so that f32 has one answer.
bool is_exact(const Tree& tree) {
  constexpr std::array kExact = {"abs", "relu", "min", "max", "clamp", "select"};
  for (const Node& node : tree.nodes) {
    if (node.kind != NodeKind::call) continue;
    if (std::find(kExact.begin(), kExact.end(), kFunctions[node.which].name) == kExact.end()) return false;
  }
  return true;
}

TEST(ExpressionCode, ComputesWhatTheTreeSays) {
  constexpr std::size_t kFormulas = 400, kSamples = 25;
  constexpr int kTrials = 12;
  std::vector<Tree> trees;
  std::vector<std::string> codes, texts;
  for (std::uint32_t seed = 1; trees.size() < kFormulas; ++seed) {
    const std::string text = FormulaWriter(seed, 100.0f).number(1 + static_cast<int>(seed % 5));
    Tree tree = parse(text);
    codes.push_back(code(tree));
    texts.push_back("seed " + std::to_string(seed) + ": " + canonical(tree));
    trees.push_back(std::move(tree));
  }
  const std::vector<Leaves> leaves = random_leaves(kSamples);
  const std::vector<float> out = run(codes, leaves);
  int exact = 0, close = 0;
  std::mt19937 random(5);
  for (std::size_t f = 0; f < trees.size(); ++f) {
    SCOPED_TRACE(texts[f]);
    const Tree& tree = trees[f];
    const bool to_the_bit = is_exact(tree);
    for (std::size_t i = 0; i < kSamples; ++i) {
      const float got = out[f * kSamples + i];
      if (to_the_bit) {
        const float expected = Evaluator<float>(tree, leaves[i], [](float v) { return v; }).of(tree.root());
        ASSERT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected))) << got << ", not " << expected;
        ++exact;
        continue;
      }
      // In f64, and again with every operation off by up to 16 ulp of f32 at random: what that does is what is allowed.
      // Where it changes a NaN, an overflow or a comparison there is nothing to compare.
      const double expected = Evaluator<double>(tree, leaves[i], [](double v) { return v; }).of(tree.root());
      double spread = std::abs(expected) * 0x1p-22 + 0x1p-120;
      bool comparable = std::abs(expected) < 1e30;
      for (int trial = 0; trial < kTrials; ++trial) {
        const auto off = [&](double v) {
          comparable = comparable && std::abs(v) < 1e30;
          return v * (1 + (static_cast<double>(random() % 2001) - 1000) / 1000 * 0x1p-20);
        };
        const double other = Evaluator<double>(tree, leaves[i], off).of(tree.root());
        spread = std::max(spread, std::abs(other - expected));
      }
      if (!comparable || !std::isfinite(spread) || spread > std::abs(expected) / 100) continue;
      ASSERT_LE(std::abs(got - expected), 3 * spread) << got << ", not " << expected << " within " << 3 * spread;
      ++close;
    }
  }
  EXPECT_GT(exact, 2000);
  EXPECT_GT(close, 2000);
}

class ExpressionCodeOn : public testing::TestWithParam<const char*> {};
TEST_P(ExpressionCodeOn, Compiles) {
  const char* const texts[] = {
      "silu(gate*scalar0+col0)*clamp(up,-scalar1,scalar1)+tensor2",
      "select(!(acc<row1)&&(acc>=1||acc!=2),exp(-abs(acc))/(1e-3+log(1+acc*acc)),pow(sqrt(acc),rsqrt(3)))",
      "gelu(min(acc,gelu_tanh(acc)))+erf(tanh(sigmoid(max(relu(acc),-(-acc)))))",
      "sin(acc)*cos(atan2(acc,2))+exp2(log2(expm1(log1p(acc))))-floor(ceil(trunc(round(acc))))",
      "f16(acc)+bf16(acc)+e4m3(acc)*e5m2(acc)+number(abs(int8(acc)%5-uint8(acc)<<2)>>1^~int16(acc)/3)",
      "number(max(int64(acc<1),clamp(int32(acc),-3,4)|2)&int64(acc))",
  };
  std::vector<std::string> codes = {intern("acc").code};
  for (const char* text : texts) codes.push_back(intern(text).code);
  // As deep as a formula can be: the brackets must be within what every compiler takes.
  std::string deep = "acc";
  for (std::uint32_t i = 1; i < kMostDepth; ++i) deep.insert(0, i % 2 == 0 ? "relu(" : "(1-").append(")");
  ASSERT_EQ(parse(deep).root().depth, kMostDepth);
  codes.push_back(code(parse(deep)));
  std::string source = "#include \"common/pointwise.cuh\"\nnamespace q {\n";
  source += "QUERN_KERNEL(formulas, 32, 1, const f32* v, f32* out) {\n  const int i = thread_index();\n";
  source +=
      "  const f32 acc = v[i], gate = v[i + 32], up = v[i + 64], x0 = v[96], x1 = v[97], x2 = v[98], s0 = v[99], s1 = "
      "v[100];\n";
  for (const std::string& one : codes) source += "  out[i] += " + one + ";\n";
  source += "  out[i] += gate + up + x0 + x1 + x2 + s0 + s1;\n}\n}\n";
  EXPECT_FALSE(compile(GetParam(), "formulas.cuh", source, "formulas").image.empty());
}
INSTANTIATE_TEST_SUITE_P(EveryTarget, ExpressionCodeOn,
                         testing::Values("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a", "gfx90a", "host",
                                         "host64"),
                         [](const testing::TestParamInfo<const char*>& target) { return std::string(target.param); });

}  // namespace
}  // namespace quern::host_tests
