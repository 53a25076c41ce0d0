// What the demo shows, and what it holds the runs to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bindings/demo/run_result.h"

namespace quern::demo {

// The most that an answer may be off: twice what the same maths loses when it is done straightforwardly in bf16.
// Rounding the output costs up to 2^-9 where it lies between 1/2 and 1; rounding the softmax's weights to bf16, as
// tensor cores want them, up to 2^-9 of the largest value that they weigh, which is about 1 here. The LSE is summed in
// f32.
inline constexpr double kOutBound = 1.0 / 128;
inline constexpr double kLseBound = 1e-4;

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
