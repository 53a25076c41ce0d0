// What the demo shows, and what it holds the runs to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bindings/demo/run_result.h"

namespace quern::demo {

// The most that an answer may be off. The inputs and the output are bf16: rounding the output costs up to half a unit in
// its last place, 2^-9 of it, and rounding the softmax's weights to bf16 for the tensor cores as much again of the values
// that they weigh; |v| stays below 2 here. The LSE is summed in f32.
inline constexpr double kOutBound = 1.0 / 128;
inline constexpr double kLseBound = 1e-3;

void show_heading(int number, const std::string& text);
void show_command(const std::string& command);
void show_note(const std::string& text);
void show_warmed(double cold_ms, double again_ms);
void show_run(const RunResult& run);
void show_comparison(const RunResult& first, const RunResult& second);

// What is wrong, a sentence each.
std::vector<std::string> judge(const RunResult& first, const RunResult& second);
void show_verdict(const std::vector<std::string>& failures);

}  // namespace quern::demo
