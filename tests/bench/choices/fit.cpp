// Fits the constants of sources/gemm/plan/cost.h from times that quern_gemm_choices has measured: `./dev fit-gemm`.
//
//   quern_gemm_fit [--write FILE] [--check] DATA
//
// DATA has a line "KIND M N K [US]" for each product, US being the time of another library, and behind it lines
// "  VARIANT PARTS PEERS US", of fitted "VARIANT:TILES:TWINS". Tells how much longer the chosen take than the fastest:
// of all products, and of each half of them by constants that were fitted on the other half. --write writes costs.def.
// --check tells it of the constants as compiled, and fails where the chosen take more than 3% longer on the mean.
//
// Constants are fitted in two steps: by least squares of logarithms (Levenberg and Marquardt), where choices count more
// the closer they are to their product's fastest; then by random steps that make the chosen ones faster.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "sources/gemm/plan/cost.h"

namespace quern::bench {
namespace {

using namespace ops::gemm;

constexpr int kSms = 132;
std::size_t kWorst = 10;           // that are told
constexpr std::size_t kLines = 8;  // of costs.def: the families, and the overlapped epilogue
constexpr const char* kLineNames[kLines] = {"portable", "tma_mma", "persistent", "fitted",
                                            "swap_ab",  "small_m", "split_k",    "overlapped"};
constexpr const char* kLineOrder[kLines] = {"portable", "tma_mma", "persistent", "fitted",
                                            "swap_ab",  "small_m", "split_k",    "overlapped"};
using Table = std::array<std::array<Costs, kCostKinds>, kLines>;

std::size_t line_of(Variant variant) {
  return variant == Variant::overlapped_128x256 ? kLines - 1 : static_cast<std::size_t>(facts_of(variant).family);
}

struct Timed {
  Choice choice;
  Work work;
  double us;
};
struct Product {
  std::string kind;
  std::int64_t m, n, k;
  Scales scales;
  std::vector<Timed> timed;
  double best = 1e30, peer = 0, weight = 1;
};

Problem problem_of(const Product& product, const jit::DeviceInfo& device) {
  Problem p{};
  p.op = product.scales == Scales::none ? ops::tag_gemm : ops::tag_fp8_gemm;
  p.call.device = &device;
  p.call.sms = kSms;
  p.shape.scales = product.scales;
  p.shape.a = p.shape.b = product.scales == Scales::none ? ops::Dtype::bf16 : ops::Dtype::e4m3;
  p.shape.epilogue = &ops::expression::intern("acc");
  p.params.m = static_cast<std::int32_t>(product.m), p.params.n = static_cast<std::int32_t>(product.n);
  p.params.k = static_cast<std::int32_t>(product.k);
  p.params.groups = 1;
  p.params.a_row = p.params.b_row = product.k;
  p.params.out_row = product.n, p.params.out_vectors = 1;
  return p;
}

std::vector<Product> read(const char* path, const jit::DeviceInfo& device) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(std::string(path) + " cannot be read");
  std::vector<Product> all;
  for (std::string text; std::getline(file, text);) {
    if (text.empty() || text[0] == '#') continue;
    std::istringstream words(text);
    std::string name, wrong;
    if (text[0] != ' ') {
      Product product{};
      words >> product.kind >> product.m >> product.n >> product.k;
      words >> product.peer;
      product.scales = product.kind == "bf16"    ? Scales::none
                       : product.kind == "block" ? Scales::blocks
                                                 : Scales::vectors;
      // The shapes that gemm_peers.py names must not become slower.
      constexpr std::int64_t kNamed[][3] = {{16, 4096, 7168},   {64, 2112, 7168},    {64, 24576, 1536},
                                            {64, 7168, 16384},  {128, 4096, 7168},   {128, 7168, 16384},
                                            {4096, 2112, 7168}, {4096, 24576, 1536}, {4096, 7168, 16384},
                                            {4096, 4096, 7168}, {4096, 7168, 2048},  {8192, 8192, 8192}};
      for (const auto& [m, n, k] : kNamed) {
        if (product.m == m && product.n == n && product.k == k) product.weight = 400;
      }
      all.push_back(product);
      continue;
    }
    Timed timed{};
    words >> name >> timed.choice.parts >> timed.choice.peers >> timed.us;
    if (const std::size_t colon = name.find(':'); colon != std::string::npos) {
      std::sscanf(name.c_str() + colon, ":%d:%d", &timed.choice.tiles, &timed.choice.twins);
      name.resize(colon);
    }
    const std::optional<Variant> known = variant_named(name);
    if (!known || all.empty() || words >> wrong) continue;
    timed.choice.variant = *known;
    Product& product = all.back();
    const Problem problem = problem_of(product, device);
    std::optional<Tiling> t = tiling_of(problem, *known);
    if (!t) continue;
    t = fitted_to(*t, timed.choice, row_class(product.m));
    // Higher tiles than there are rows are no longer offered.
    if (is_a(Family::fitted, *known) && t->tile_m >= row_class(product.m) + 16) continue;
    product.best = std::min(product.best, timed.us);
    if (!offered(problem.shape, *known, device.limits)) continue;
    // Tuning looks at pairs of the persistent kernel, the model does not.
    if (is_a(Family::persistent, *known) && timed.choice.peers > 1) continue;
    timed.work = work_of(problem, *t, timed.choice, {row_class(product.m), 1}, kSms);
    product.timed.push_back(timed);
  }
  return all;
}

// Solves a x = b of kCostNumbers unknowns in place.
using Row = std::array<double, kCostNumbers + 1>;
void solve(std::array<Row, kCostNumbers>& a) {
  for (std::size_t i = 0; i < kCostNumbers; ++i) {
    std::size_t pivot = i;
    for (std::size_t j = i; j < kCostNumbers; ++j) {
      if (std::abs(a[j][i]) > std::abs(a[pivot][i])) pivot = j;
    }
    std::swap(a[i], a[pivot]);
    for (std::size_t j = 0; j < kCostNumbers; ++j) {
      if (j == i || a[i][i] == 0) continue;
      const double factor = a[j][i] / a[i][i];
      for (std::size_t c = i; c <= kCostNumbers; ++c) a[j][c] -= factor * a[i][c];
    }
  }
}

double* numbers(Costs& costs) { return reinterpret_cast<double*>(&costs); }

// No kernel reads faster than the memory gives: where few products of a family are bound by it the fit would not know.
constexpr double kMemory = 4.45e6 / kSms;
void clamp(Costs& costs) { costs.memory = std::min(costs.memory, kMemory); }

struct Sample {
  const Timed* timed;
  double weight;
};

double error_of(const Costs& costs, const std::vector<Sample>& samples) {
  double sum = 0;
  for (const Sample& s : samples) {
    const double log = std::log(microseconds(costs, s.timed->work) / s.timed->us);
    sum += s.weight * log * log;
  }
  return sum;
}

// Least squares of logarithms, the constants' logarithms being the unknowns.
void fit_line(Costs& costs, const std::vector<Sample>& samples) {
  if (samples.empty()) return;
  clamp(costs);
  double damping = 1e-2, error = error_of(costs, samples);
  for (int round = 0; round < 200; ++round) {
    std::array<Row, kCostNumbers> normal{};
    for (const Sample& s : samples) {
      Costs moved = costs;
      const double here = std::log(microseconds(costs, s.timed->work));
      std::array<double, kCostNumbers> slope;
      for (std::size_t i = 0; i < kCostNumbers; ++i) {
        constexpr double kStep = 1e-4;
        numbers(moved)[i] *= std::exp(kStep);
        slope[i] = (std::log(microseconds(moved, s.timed->work)) - here) / kStep;
        numbers(moved)[i] = numbers(costs)[i];
      }
      const double off = std::log(s.timed->us) - here;
      for (std::size_t i = 0; i < kCostNumbers; ++i) {
        for (std::size_t j = 0; j < kCostNumbers; ++j) normal[i][j] += s.weight * slope[i] * slope[j];
        normal[i][kCostNumbers] += s.weight * slope[i] * off;
      }
    }
    for (std::size_t i = 0; i < kCostNumbers; ++i) normal[i][i] += damping * (normal[i][i] + 1e-3);
    solve(normal);
    Costs next = costs;
    for (std::size_t i = 0; i < kCostNumbers; ++i) {
      const double step = normal[i][i] != 0 ? normal[i][kCostNumbers] / normal[i][i] : 0.0;
      numbers(next)[i] *= std::exp(std::clamp(step, -0.5, 0.5));
    }
    clamp(next);
    const double now = error_of(next, samples);
    if (now < error) {
      const bool done = now > 0.99999 * error;
      costs = next, error = now, damping = std::max(damping / 3, 1e-9);
      if (done) break;
    } else {
      damping *= 4;
      if (damping > 1e6) break;
    }
  }
}

const Timed& chosen(const Table& table, const Product& product) {
  const Timed* best = nullptr;
  double least = 1e30;
  for (const Timed& timed : product.timed) {
    const double cost = microseconds(table[line_of(timed.choice.variant)][cost_kind(product.scales)], timed.work);
    if (cost < least) best = &timed, least = cost;
  }
  return *best;
}

double loss_of(const Table& table, const std::vector<const Product*>& products, std::size_t kind) {
  double sum = 0, count = 0;
  for (const Product* product : products) {
    if (cost_kind(product->scales) != kind) continue;
    const double regret = std::log(chosen(table, *product).us / product->best);
    sum += product->weight * (regret + 2 * regret * regret);
    count += product->weight;
  }
  return count > 0 ? sum / count : 0.0;
}

Table fit(const std::vector<const Product*>& products, int steps) {
  Table table;
  for (std::size_t i = 0; i < kVariants.size(); ++i) {
    for (std::size_t kind = 0; kind < kCostKinds; ++kind)
      table[line_of(static_cast<Variant>(i))][kind] = costs_of(static_cast<Variant>(i), static_cast<Scales>(kind));
  }
  for (std::size_t kind = 0; kind < kCostKinds; ++kind) {
    std::array<std::vector<Sample>, kLines> samples;
    for (const Product* product : products) {
      if (cost_kind(product->scales) != kind) continue;
      for (const Timed& timed : product->timed) {
        const double over = timed.us / product->best - 1;
        samples[line_of(timed.choice.variant)].push_back({&timed, std::exp(-over / 0.15) + 0.01});
      }
    }
    for (std::size_t line = 0; line < kLines; ++line) {
      fit_line(table[line][kind], samples[line]);
    }
    // Random steps of a few constants at a time, kept where they make the chosen ones faster.
    std::mt19937 random(static_cast<unsigned>(7 + kind));
    std::normal_distribution<double> normal;
    double squares = 0;
    const auto error = [&] {
      squares = 0;
      double weight = 0;
      for (std::size_t line = 0; line < kLines; ++line) {
        squares += error_of(table[line][kind], samples[line]);
        for (const Sample& s : samples[line]) weight += s.weight;
      }
      return 0.15 * squares / std::max(weight, 1e-9);
    };
    double best = loss_of(table, products, kind) + error();
    for (int step = 0; step < steps; ++step) {
      Table before = table;
      const double size = std::exp(-1.5 - 2.5 * (step % 7) / 6.0);
      for (int change = 0; change < 1 + step % 3; ++change) {
        const std::size_t line = random() % kLines;
        if (samples[line].empty()) continue;
        numbers(table[line][kind])[random() % kCostNumbers] *= std::exp(size * normal(random));
        clamp(table[line][kind]);
      }
      const double now = loss_of(table, products, kind) + error();
      if (now < best) {
        best = now;
      } else {
        table = before;
      }
    }
  }
  return table;
}

// Returns the mean regret of the kind that has the most.
double report(const char* title, const Table& table, const std::vector<const Product*>& products) {
  std::printf("%s\n  %-6s %-12s %5s %8s %8s %8s %10s %10s %8s %8s\n", title, "kind", "M", "count", "mean", "95 %",
              "most", "peer/ours", "peer/best", "5 %", "least");
  double whole = 0;
  constexpr std::int64_t kClasses[] = {0, 32, 128, 512, 2048, 1 << 30};
  for (const char* kind : {"bf16", "row", "block"}) {
    for (std::size_t i = 0; i + 1 <= std::size(kClasses); ++i) {
      const bool all = i + 1 == std::size(kClasses);
      std::vector<double> regrets, ratios;
      double logs = 0, best_logs = 0;
      for (const Product* p : products) {
        if (p->kind != kind || (!all && (p->m <= kClasses[i] || p->m > kClasses[i + 1]))) continue;
        const double us = chosen(table, *p).us;
        regrets.push_back(us / p->best - 1);
        if (p->peer <= 0) continue;
        ratios.push_back(p->peer / us);
        logs += std::log(p->peer / us), best_logs += std::log(p->peer / p->best);
      }
      if (regrets.empty()) continue;
      std::sort(regrets.begin(), regrets.end());
      std::sort(ratios.begin(), ratios.end());
      double mean = 0;
      for (const double regret : regrets) mean += regret / static_cast<double>(regrets.size());
      if (all) whole = std::max(whole, mean);
      const std::string rows = all ? "all"
                                   : std::to_string(kClasses[i] + 1) + ".." +
                                         (kClasses[i + 1] < 1 << 29 ? std::to_string(kClasses[i + 1]) : "");
      std::printf("  %-6s %-12s %5zu %7.2f%% %7.2f%% %7.2f%%", kind, rows.c_str(), regrets.size(), 100 * mean,
                  100 * regrets[regrets.size() * 95 / 100], 100 * regrets.back());
      if (!ratios.empty()) {
        const double count = static_cast<double>(ratios.size());
        std::printf(" %10.3f %10.3f %8.3f %8.3f", std::exp(logs / count), std::exp(best_logs / count),
                    ratios[ratios.size() * 5 / 100], ratios[0]);
      }
      std::printf("\n");
    }
  }
  for (const Product* p : products) {
    if (p->weight > 1 && chosen(table, *p).us > 1.01 * p->best)
      std::printf("  named: %s %lld x %lld x %lld takes %.1f%% longer than the fastest\n", p->kind.c_str(),
                  static_cast<long long>(p->m), static_cast<long long>(p->n), static_cast<long long>(p->k),
                  100 * (chosen(table, *p).us / p->best - 1));
  }
  std::vector<const Product*> worst = products;
  const auto regret_of = [&](const Product* p) { return chosen(table, *p).us / p->best; };
  std::sort(worst.begin(), worst.end(),
            [&](const Product* a, const Product* b) { return regret_of(a) > regret_of(b); });
  for (std::size_t i = 0; i < std::min<std::size_t>(worst.size(), kWorst); ++i) {
    const Product& p = *worst[i];
    const Timed& took = chosen(table, p);
    const Timed& best =
        *std::min_element(p.timed.begin(), p.timed.end(), [](const Timed& a, const Timed& b) { return a.us < b.us; });
    const auto expected = [&](const Timed& t) {
      return microseconds(table[line_of(t.choice.variant)][cost_kind(p.scales)], t.work);
    };
    std::printf("  %s %lld x %lld x %lld: %s %d %d took %.1f us (expected %.1f), %s %d %d %.1f (%.1f)\n",
                p.kind.c_str(), static_cast<long long>(p.m), static_cast<long long>(p.n), static_cast<long long>(p.k),
                name_of(took.choice.variant), took.choice.parts, took.choice.peers, took.us, expected(took),
                name_of(best.choice.variant), best.choice.parts, best.choice.peers, best.us, expected(best));
  }
  return whole;
}

void write(const char* path, const Table& table) {
  std::ofstream file(path);
  file << "// The constants of plan/cost.h, fitted by `./dev fit-gemm` from tests/bench/results/h200_choices.txt.\n"
          "// QUERN_GEMM_COSTS(family, costs of 16 bits, of 8 bits with scales of rows and columns, of 8 bits with "
          "block\n"
          "// scales), in the order of the families in variants.def and of the numbers in cost.h. Those of families "
          "that an\n"
          "// H200 does not take are none of the fit's.\n"
          "// SPDX-License-Identifier: Apache-2.0\n";
  for (std::size_t line = 0; line < kLines; ++line) {
    file << "QUERN_GEMM_COSTS(" << kLineOrder[line];
    for (std::size_t kind = 0; kind < kCostKinds; ++kind) {
      file << ",\n                 {";
      Costs costs = table[line][kind];
      for (std::size_t i = 0; i < kCostNumbers; ++i) {
        char text[32];
        std::snprintf(text, sizeof(text), "%.3g", numbers(costs)[i]);
        file << (i > 0 ? ", " : "") << text;
      }
      file << "}";
    }
    file << ")\n";
  }
}

Table compiled() { return fit({}, 0); }

}  // namespace
}  // namespace quern::bench

int main(int count, char** arguments) {
  using namespace quern;
  using namespace quern::bench;
  const char *data = nullptr, *to = nullptr;
  bool check = false;
  int steps = 12000;
  for (int i = 1; i < count; ++i) {
    const std::string word = arguments[i];
    if (word == "--write" && i + 1 < count)
      to = arguments[++i];
    else if (word == "--steps" && i + 1 < count)
      steps = std::atoi(arguments[++i]);
    else if (word == "--worst" && i + 1 < count)
      kWorst = static_cast<std::size_t>(std::atoi(arguments[++i]));
    else if (word == "--check")
      check = true;
    else
      data = arguments[i];
  }
  if (data == nullptr) return std::fprintf(stderr, "usage: quern_gemm_fit [--write FILE] [--check] DATA\n"), 2;
  try {
    jit::DeviceInfo device;
    device.limits = jit::limits_of(jit::Target::parse("sm_90a"));
    device.sm_count = kSms;
    std::vector<Product> products = read(data, device);
    std::vector<const Product*> all, halves[2];
    for (std::size_t i = 0; i < products.size(); ++i) {
      if (products[i].timed.empty()) continue;
      all.push_back(&products[i]), halves[i / 10 % 2].push_back(&products[i]);
    }
    constexpr double kMostRegret = 0.03;
    if (check) return report("constants as compiled", compiled(), all) > kMostRegret ? 1 : 0;
    for (int half = 0; half < 2; ++half) report("held out", fit(halves[half], steps), halves[1 - half]);
    const Table table = fit(all, steps);
    report("fitted on all", table, all);
    if (to != nullptr) write(to, table);
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
  }
  return 0;
}
