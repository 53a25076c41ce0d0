// What the demo shows.
// SPDX-License-Identifier: Apache-2.0
#include "bindings/demo/report.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace quern::demo {
namespace {

bool coloured() {
  static const bool yes = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  return yes;
}
std::string styled(const char* code, const std::string& text) {
  return coloured() ? std::string("\033[") + code + "m" + text + "\033[0m" : text;
}
std::string bold(const std::string& text) { return styled("1", text); }
std::string dim(const std::string& text) { return styled("2", text); }

// Written at once, so that what other processes write stands in the right place.
void line(const std::string& text) {
  std::puts(text.c_str());
  std::fflush(stdout);
}

template <class... Values>
std::string formatted(const char* format, Values... values) {
  const int length = std::snprintf(nullptr, 0, format, values...);
  std::string text(static_cast<std::size_t>(length) + 1, '\0');
  std::snprintf(text.data(), text.size(), format, values...);
  text.pop_back();
  return text;
}

std::string duration(double milliseconds) {
  if (milliseconds >= 1000) return formatted("%.2f s", milliseconds / 1000);
  return milliseconds >= 10 ? formatted("%.1f ms", milliseconds) : formatted("%.2f ms", milliseconds);
}

// NaN comes as the largest number there is.
std::string error_text(double error) { return error < 1e30 ? formatted("%.2g", error) : "not a number"; }

void row(const std::string& what, const std::string& first, const std::string& second) {
  line(formatted("   %-34s %14s %14s", what.c_str(), first.c_str(), second.c_str()));
}

constexpr const char* kPhaseFormat = "   %-24s %6s %7s %10s %10s %11s %11s";

void phase_row(const char* what, const Phase& phase) {
  line(formatted(kPhaseFormat, what, std::to_string(phase.calls).c_str(), std::to_string(phase.tokens).c_str(),
                 duration(phase.milliseconds).c_str(),
                 duration(phase.milliseconds / static_cast<double>(phase.calls)).c_str(),
                 error_text(phase.out_error).c_str(), error_text(phase.lse_error).c_str()));
}

}  // namespace

void show_heading(int number, const std::string& text) { line("\n" + bold(std::to_string(number) + "  " + text)); }
void show_command(const std::string& command) { line("   " + dim("$ ") + command + "\n"); }
void show_note(const std::string& text) { line("   " + text); }

void show_warmed(double cold_ms, double again_ms) {
  line("\n   " + duration(cold_ms) + " with an empty cache; the same command again: " + duration(again_ms));
}

void show_run(const RunResult& run) {
  line("   on " + bold(run.device));
  if (!run.why_no_gpu.empty()) line(dim("   (" + run.why_no_gpu + ": the CPU runs the same kernel sources)"));
  line("   layers 0 and 3; sequences of 512, 317 and 64 tokens; keys and values in shuffled pages of 16\n");
  line(dim(formatted(kPhaseFormat, "", "calls", "tokens", "in all", "a call", "out is off", "LSE is off")));
  phase_row("prefill, chunks of 128", run.prefill);
  phase_row("decode, token by token", run.decode);
  line(dim(formatted(kPhaseFormat, "at most allowed", "", "", "", "", formatted("%.2g", kOutBound).c_str(),
                     formatted("%.2g", kLseBound).c_str())));
}

void show_comparison(const RunResult& first, const RunResult& second) {
  const auto count = [](std::uint64_t number) { return std::to_string(number); };
  const auto process = [](const RunResult& run) { return "process " + std::to_string(run.process); };
  row("", process(first), process(second));
  row("kernels compiled", count(first.compiled), count(second.compiled));
  row("kernels taken from the cache", count(first.from_cache), count(second.from_cache));
  row("opening the device and the cache", duration(first.context_ms), duration(second.context_ms));
  row("kernels ready after", duration(first.ready_ms), duration(second.ready_ms));
  row("prefill", duration(first.prefill.milliseconds), duration(second.prefill.milliseconds));
  row("decode", duration(first.decode.milliseconds), duration(second.decode.milliseconds));
  const auto off = [](double prefill, double decode) { return error_text(std::max(prefill, decode)); };
  row("out is off by", off(first.prefill.out_error, first.decode.out_error),
      off(second.prefill.out_error, second.decode.out_error));
  row("LSE is off by", off(first.prefill.lse_error, first.decode.lse_error),
      off(second.prefill.lse_error, second.decode.lse_error));
}

std::vector<std::string> judge(const RunResult& first, const RunResult& second) {
  std::vector<std::string> failures;
  for (const auto& [name, run] : {std::pair{"first", &first}, std::pair{"second", &second}}) {
    for (const auto& [kind, phase] : {std::pair{"prefill", &run->prefill}, std::pair{"decode", &run->decode}}) {
      const std::string where = std::string(kind) + " of the " + name + " process: ";
      if (!(phase->out_error <= kOutBound)) {
        failures.push_back(where + "out is off by " + error_text(phase->out_error) + ", allowed " +
                           error_text(kOutBound));
      }
      if (!(phase->lse_error <= kLseBound)) {
        failures.push_back(where + "LSE is off by " + error_text(phase->lse_error) + ", allowed " +
                           error_text(kLseBound));
      }
    }
  }
  if (first.compiled == 0) failures.push_back("the first process compiled nothing: its cache was not empty");
  if (second.compiled != 0) {
    failures.push_back("the second process compiled " + std::to_string(second.compiled) +
                       " kernels, and should have found them in the cache");
  }
  return failures;
}

void show_verdict(const std::vector<std::string>& failures) {
  line("");
  for (const std::string& failure : failures) line(styled("31;1", "wrong: ") + failure);
  if (failures.empty())
    line(styled("32;1", "All as it should be.") + " The demo's cache is demo/cache in the build folder.");
}

}  // namespace quern::demo
