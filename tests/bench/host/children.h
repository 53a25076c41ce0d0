// What the host benchmarks do in processes of their own, because it can be measured only once in one, and what they
// register when the program runs, because it takes the ops to know it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace quern::bench {

inline constexpr std::string_view kCompileChild = "--compile-once";  // prints the milliseconds of a first compilation
inline constexpr std::string_view kCallChild = "--call-marked";      // marks a region of hot calls

double compile_once();                       // compile_bench.cpp
void call_marked(const std::string& cache);  // call_bench.cpp

// One benchmark for each kernel of Llama-3-8B.
void register_compilations();  // compile_bench.cpp

// This program's own file.
std::string own_path();

}  // namespace quern::bench
