// What the host benchmarks do in processes of their own, because it can be measured only once in one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace quern::bench {

inline constexpr std::string_view kCompileChild = "--compile-once";  // prints the milliseconds of a first compilation
inline constexpr std::string_view kCallChild = "--call-marked";      // marks a region of hot calls

double compile_once();                       // compile_bench.cpp
void call_marked(const std::string& cache);  // call_bench.cpp

// This program's own file.
std::string own_path();

}  // namespace quern::bench
