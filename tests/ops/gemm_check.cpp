// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/gemm_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <numeric>
#include <sstream>
#include <thread>

namespace quern::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Of a sum of so many terms, relative to that of their magnitudes. Tensor cores cut sums off instead of rounding them,
// and Hopper's of 8-bit products keep about 14 bits: each of the 32 terms of an instruction may lose what lies below
// that of the largest.
double sum_error(bool fp8, double terms) {
  if (on_cuda() && fp8) return 0x1p-11;
  return ((on_cuda() ? 8.0 : 2.0) + std::sqrt(terms)) * 0x1p-23;
}

double activated(int activation, double x) {
  switch (activation) {
    case QUERN_ACTIVATION_RELU:
      return x < 0.0 ? 0.0 : x;
    case QUERN_ACTIVATION_GELU:
      return std::isinf(x) ? (x < 0.0 ? 0.0 : x) : x / 2.0 * std::erfc(-x / std::sqrt(2.0));
    case QUERN_ACTIVATION_GELU_TANH:
      return std::isinf(x) ? (x < 0.0 ? 0.0 : x)
                           : x / (1.0 + std::exp(-2.0 * std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case QUERN_ACTIVATION_SILU:
      return std::isinf(x) ? (x < 0.0 ? 0.0 : x) : x / (1.0 + std::exp(-x));
    default:
      return x;
  }
}

// Operands of a case that is given bias and c, not an expression: c and bias of the first half, then of the second.
constexpr int kC = 0, kBias = 1;

// Judges the results of one problem.
class Reference {
 public:
  Reference(const GemmProblem& problem, std::vector<std::int64_t> columns)
      : p_(problem),
        c_(problem.description()),
        t_(problem.tensors()),
        columns_(std::move(columns)),
        formula_(formula_of(c_)) {}

  // The lines of b that the columns need, for one expert or batch.
  void take_weights(std::int64_t weights) {
    weights_ = weights;
    lines_.resize(columns_.size() * halves());
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      for (std::size_t half = 0; half < halves(); ++half)
        p_.line(t_.b, weights, line_of(i, half), &lines_[i * halves() + half]);
    }
  }

  std::vector<GemmValue> row(const GemmRow& row) const {
    std::vector<float> a;
    const std::int64_t group_of_a = c_.product == Product::contiguous ? 0 : row.group;
    p_.line(t_.a, group_of_a, row.source, &a);
    std::vector<GemmValue> values(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      GemmSum sums[2];
      for (std::size_t half = 0; half < halves(); ++half) {
        sums[half] = sum(a, lines_[i * halves() + half], group_of_a, row.source, line_of(i, half));
      }
      values[i] = judged(sums, terms(row, columns_[i]));
    }
    return values;
  }

 private:
  std::size_t halves() const { return c_.gate ? 2 : 1; }
  // The row of b that a column is made of.
  std::int64_t line_of(std::size_t column, std::size_t half) const {
    return columns_[column] + static_cast<std::int64_t>(half) * c_.columns();
  }

  GemmSum sum(const std::vector<float>& a, const std::vector<float>& b, std::int64_t group_of_a, std::int64_t row,
              std::int64_t line) const {
    const bool blocks = c_.is_fp8() && c_.scale_a == Scaling::blocks;
    const std::size_t step = blocks ? 128 : a.size();
    GemmSum total;
    float plain = 0.0f;
    for (std::size_t first = 0; first < a.size(); first += step) {
      double exact = 0.0, size = 0.0;
      float part = 0.0f;
      for (std::size_t k = first; k < std::min(first + step, a.size()); ++k) {
        const double term = double{a[k]} * double{b[k]};
        exact += term;
        size += std::fabs(term);
        part += a[k] * b[k];
      }
      double scale = 1.0;
      if (c_.is_fp8()) {
        const auto block = static_cast<std::int64_t>(blocks ? first / 128 : 0);
        scale = p_.value(t_.scale_a, group_of_a, row, block) *
                p_.value(t_.scale_b, weights_, blocks ? line / 128 : line, block);
      }
      total.exact += exact * scale;
      total.size += size * scale;
      plain += part * static_cast<float>(scale);
    }
    total.plain = double{plain};
    total.count = static_cast<double>(a.size());
    return total;
  }

  Terms terms(const GemmRow& row, std::int64_t column) const {
    Terms terms;
    if (c_.expression.empty()) {
      for (int half = 0; half < static_cast<int>(halves()); ++half) {
        const std::int64_t at = column + half * c_.columns();
        if (t_.c.used()) terms.x[kC + 2 * half] = p_.value(t_.c, row.group, row.row, at);
        if (t_.bias.used()) terms.x[kBias + 2 * half] = p_.value(t_.bias, row.weights, 0, at);
      }
      return terms;
    }
    for (std::size_t i = 0; i < c_.operands.size(); ++i) {
      if (c_.operands[i].kind == EpilogueOperand::unused) continue;
      const bool column_vector = c_.operands[i].kind == EpilogueOperand::column;
      terms.x[i] = p_.value(t_.operands[i], column_vector ? row.weights : row.group, row.row, column);
    }
    for (std::size_t i = 0; i < c_.scalars.size(); ++i) terms.s[i] = double{c_.scalars[i]};
    return terms;
  }

  GemmValue judged(const GemmSum (&sums)[2], Terms terms) const {
    const bool rounded = c_.tf32 && !c_.short_numbers;
    const auto error_of = [&](const GemmSum& s) {
      return sum_error(c_.is_fp8(), s.count) * s.size + 0x1p-22 * std::fabs(s.exact) +
             (rounded ? 0x1p-10 * s.size : 0.0);
    };
    const double errors[2] = {error_of(sums[0]), error_of(sums[1])};
    const auto with = [&](double first, double second) {
      Terms t = terms;
      t.acc = t.gate = first;
      t.up = second;
      return formula_(t);
    };
    GemmValue value;
    value.exact = with(sums[0].exact, sums[1].exact);
    value.plain = with(sums[0].plain, sums[1].plain);
    for (const int a : {-1, 1}) {
      for (const int b : {-1, 1}) {
        const double moved = with(sums[0].exact + a * errors[0], sums[1].exact + b * errors[1]);
        value.allowed = std::max(value.allowed, std::fabs(moved - value.exact));
      }
    }
    terms.acc = terms.gate = sums[0].exact;
    terms.up = sums[1].exact;
    for (double* input : {&terms.x[0], &terms.x[1], &terms.x[2], &terms.x[3], &terms.s[0], &terms.s[1]}) {
      const double kept = *input;
      *input *= 1.0 + 0x1p-22;
      value.allowed += std::fabs(formula_(terms) - value.exact);
      *input = kept;
    }
    value.allowed += 0x1p-20 * std::fabs(value.exact) + 0x1p-126;
    if (c_.expression.empty() && c_.activation == QUERN_ACTIVATION_DEFAULT && !c_.gate)
      value.allowed -= 0x1p-20 * std::fabs(value.exact);
    if (std::isnan(value.allowed)) value.allowed = 0.0;
    return value;
  }

  const GemmProblem& p_;
  const GemmCase& c_;
  const GemmTensors& t_;
  std::vector<std::int64_t> columns_;
  std::function<double(const Terms&)> formula_;
  std::int64_t weights_ = -1;
  std::vector<std::vector<float>> lines_;
};

// Errors over many elements.
struct Tally {
  std::int64_t count = 0, wrong = 0, within = 0;  // `within`: of results that the element does not cut off
  double ours = 0.0, plain = 0.0;                 // squares of errors
  double products = 0.0, ours_squared = 0.0, exact_squared = 0.0;
  double worst = 0.0;
  std::ostringstream told;

  void add(const Tally& o) {
    if (wrong < 4) told << o.told.str();
    count += o.count, wrong += o.wrong, within += o.within;
    ours += o.ours, plain += o.plain;
    products += o.products, ours_squared += o.ours_squared, exact_squared += o.exact_squared;
    worst = std::max(worst, o.worst);
  }

  // `scale` is what the stored result is to be multiplied by.
  void judge(const GemmRow& row, std::int64_t column, const GemmValue& value, const Element& element, double scale,
             double got) {
    ++count;
    const double exact = value.exact / scale,
                 allowed = value.allowed / scale + (scale == 1.0 ? 0.0 : 0x1p-22 * std::fabs(exact));
    const double low = element.rounded(exact - allowed), high = element.rounded(exact + allowed);
    const bool right = std::isnan(value.exact) ? std::isnan(got)
                       : std::isinf(exact)     ? got == element.rounded(exact)
                                               : low <= got && got <= high;
    if (!right && ++wrong <= 4) {
      told << "group " << row.group << ", row " << row.row << ", column " << column << ": " << got << ", not " << exact
           << " within " << allowed << " (" << low << " to " << high << ")\n";
    }
    if (!std::isfinite(value.exact) || !std::isfinite(got) || std::fabs(exact) > element.largest()) return;
    ++within;
    const double rounded = element.rounded(exact), error = got - exact,
                 plain_error = element.rounded(value.plain / scale) - exact;
    ours += error * error;
    plain += plain_error * plain_error;
    products += got * rounded;
    ours_squared += got * got;
    exact_squared += rounded * rounded;
    // Elsewhere rounding hides it.
    if (element.kind() == Element::f32 && right) worst = std::max(worst, std::fabs(error) / allowed);
  }
};

double worst_so_far = 0.0;

// All of them, or evenly at random `most`: the first and last always.
std::vector<std::int64_t> sample(std::int64_t count, std::int64_t most, Random& random) {
  std::vector<std::int64_t> chosen(static_cast<std::size_t>(count));
  std::iota(chosen.begin(), chosen.end(), 0);
  if (count <= most) return chosen;
  if (count > 2) std::swap(chosen[1], chosen.back());
  for (std::size_t i = 2; i < static_cast<std::size_t>(most); ++i)
    std::swap(chosen[i], chosen[i + random.below(chosen.size() - i)]);
  chosen.resize(static_cast<std::size_t>(most));
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

// What one row's scales may be: the largest magnitude of each 128 columns, over the largest number.
void judge_scales(const GemmCase& c, const GemmRow& row, const std::vector<GemmValue>& values,
                  const std::function<double(std::int64_t)>& got, Tally* tally) {
  for (std::size_t first = 0; first < values.size(); first += 128) {
    double largest = 0.0, allowed = 0.0;
    for (std::size_t i = first; i < std::min(first + 128, values.size()); ++i) {
      if (!std::isfinite(values[i].exact)) continue;
      largest = std::max(largest, std::fabs(values[i].exact));
      allowed = std::max(allowed, values[i].allowed);
    }
    const double least = std::max((largest - allowed) / c.out.largest() * (1.0 - 0x1p-22), 0x1p-126);
    const double most = std::max((largest + allowed) / c.out.largest() * (1.0 + 0x1p-22), 0x1p-126);
    const double scale = got(static_cast<std::int64_t>(first / 128));
    bool right = scale >= least && scale <= most;
    if (c.power_of_two)
      right = std::exp2(std::round(std::log2(scale))) == scale && scale >= least && scale < 2.0 * most;
    if (largest == 0.0) right = scale == 1.0;
    if (!right && ++tally->wrong <= 4) {
      tally->told << "group " << row.group << ", row " << row.row << ", scale " << first / 128 << ": " << scale
                  << ", not " << least << " to " << most << "\n";
    }
  }
}

}  // namespace

std::function<double(const Terms&)> formula_of(const GemmCase& c) {
  if (!c.expression.empty()) return c.formula;
  const int activation = c.gate && c.activation == QUERN_ACTIVATION_DEFAULT ? int{QUERN_ACTIVATION_SILU} : c.activation;
  if (!c.gate) return [=](const Terms& t) { return activated(activation, t.acc + t.x[kC] + t.x[kBias]); };
  return [=](const Terms& t) {
    return activated(activation, t.gate + t.x[kC] + t.x[kBias]) * (t.up + t.x[kC + 2] + t.x[kBias + 2]);
  };
}

double worst_gemm_error() { return worst_so_far; }

void GemmProblem::check() const {
  const GemmOutput output = this->output();
  const std::vector<GemmRow> all = rows();
  check_untouched(output, all);
  if (all.empty() || case_.columns() == 0) return;

  Random random("results to check");
  const double work = on_cuda() ? 4e8 : 2e7;
  const auto most = static_cast<std::int64_t>(work / (case_.k * (case_.gate ? 2.0 : 1.0)));
  const std::int64_t count = static_cast<std::int64_t>(all.size()), wide = case_.columns();
  // Scales need whole rows.
  const std::int64_t rows_taken =
      case_.out_scale ? most / wide
                      : std::max(most / wide, static_cast<std::int64_t>(std::sqrt(static_cast<double>(most))));
  const std::vector<std::int64_t> chosen = sample(count, std::max<std::int64_t>(rows_taken, 4), random);
  const std::vector<std::int64_t> columns =
      sample(wide, case_.out_scale ? wide : std::max<std::int64_t>(most / static_cast<std::int64_t>(chosen.size()), 4),
             random);

  const Element element = case_.out;
  const auto scale_at = [&](const GemmRow& row, std::int64_t block) {
    return tensors_.out_scale.element.load(&output.out_scale[tensors_.out_scale.at(row.group, row.row, block) * 4]);
  };
  Tally tally;
  for (std::size_t begin = 0; begin < chosen.size();) {
    std::size_t end = begin;
    const auto row_at = [&](std::size_t i) -> const GemmRow& { return all[static_cast<std::size_t>(chosen[i])]; };
    while (end < chosen.size() && row_at(end).weights == row_at(begin).weights) ++end;
    Reference reference(*this, columns);
    reference.take_weights(row_at(begin).weights);
    std::atomic<std::size_t> next{begin};
    std::mutex mutex;
    const auto work_on_rows = [&] {
      Tally own;
      for (std::size_t i = next++; i < end; i = next++) {
        const GemmRow& row = row_at(i);
        const std::vector<GemmValue> values = reference.row(row);
        if (case_.out_scale)
          judge_scales(case_, row, values, [&](std::int64_t block) { return scale_at(row, block); }, &own);
        for (std::size_t j = 0; j < columns.size(); ++j) {
          const double got =
              element.load(&output.out[tensors_.out.at(row.group, row.row, columns[j]) * element.bytes()]);
          own.judge(row, columns[j], values[j], element, case_.out_scale ? scale_at(row, columns[j] / 128) : 1.0, got);
        }
      }
      const std::lock_guard lock(mutex);
      tally.add(own);
    };
    std::vector<std::thread> threads;
    const std::size_t helpers =
        on_cuda() ? std::min<std::size_t>(std::thread::hardware_concurrency(), (end - begin) / 4) : 0;
    for (std::size_t i = 0; i < helpers; ++i) threads.emplace_back(work_on_rows);
    work_on_rows();
    for (std::thread& thread : threads) thread.join();
    begin = end;
  }
  worst_so_far = std::max(worst_so_far, tally.worst);
  EXPECT_EQ(tally.wrong, 0) << "of " << tally.count << " results; QUERN_TEST_SEED=" << run_seed() << "\n"
                            << tally.told.str();
  if (!finite_) return;
  const double squares = tally.ours_squared + tally.exact_squared;
  // Where most results lie beyond the element's largest number, the others are what little cancelling left of large
  // terms: each may come out as its neighbour, which is 1/8 more in e4m3, and there are too few of them for a mean to
  // hide that.
  if (squares > 0.0 && 2 * tally.within >= tally.count) {
    EXPECT_LT(1.0 - 2.0 * tally.products / squares, 1e-3) << "QUERN_TEST_SEED=" << run_seed();
  }
  // Of f32 results the little that tensor cores cut off shows; of few, chance: a gate's results are products, of which
  // one large one, with what tensor cores cut off of its sums, may make most of the mean.
  const bool shows = case_.out.kind() == Element::f32 && on_cuda();
  const std::int64_t few = case_.gate && on_cuda() ? 2048 : 256;
  if (tally.within >= few && !shows && !(case_.tf32 && !case_.short_numbers)) {
    EXPECT_LE(std::sqrt(tally.ours), 2.0 * std::sqrt(tally.plain) + 1e-12)
        << "root mean square; QUERN_TEST_SEED=" << run_seed();
  }
}

// Rows in use were written everywhere; everything else holds what it did.
void GemmProblem::check_untouched(const GemmOutput& output, const std::vector<GemmRow>& rows) const {
  std::int64_t touched = 0, unwritten = 0;
  const auto inspect = [&](const GemmTensor& tensor, const std::vector<unsigned char>& bytes,
                           const std::vector<unsigned char>* before) {
    if (!tensor.used()) return;
    const std::size_t size = tensor.element.bytes();
    std::vector<bool> in_use(bytes.size());
    for (const GemmRow& row : rows) {
      for (std::int64_t c = 0; c < tensor.columns; ++c) {
        const std::size_t at = tensor.at(row.group, row.row, c) * size;
        bool poison = finite_;
        for (std::size_t i = 0; i < size; ++i) {
          in_use[at + i] = true;
          poison &= bytes[at + i] == 0xff;
        }
        unwritten += poison;
      }
    }
    for (std::size_t i = 0; i < bytes.size(); ++i)
      touched += !in_use[i] && bytes[i] != (before != nullptr ? (*before)[i] : 0xff);
  };
  inspect(tensors_.out, output.out, case_.c_is_out ? &memory_of(tensors_.c).mirror : nullptr);
  inspect(tensors_.out_scale, output.out_scale, nullptr);
  EXPECT_EQ(unwritten, 0) << "results were not written, or are no numbers; QUERN_TEST_SEED=" << run_seed();
  EXPECT_EQ(touched, 0) << "bytes outside of the rows in use were written; QUERN_TEST_SEED=" << run_seed();
}

}  // namespace quern::test
