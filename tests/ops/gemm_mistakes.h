// Mistakes in the arguments of a matrix product, each refused by name with its outputs untouched.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "tests/ops/gemm_problem.h"

namespace quern::test {

// Where a mistake shows: data and the workspace are only looked at by the call itself.
enum class SeenBy { all_three, the_call };

struct GemmMistake {
  const char* what;
  std::vector<std::string_view> words;  // of the error's text
  std::function<void(GemmProblem&)> make;
  SeenBy seen_by = SeenBy::all_three;
};

void expect_mistakes_refused(const GemmCase& c, const std::vector<GemmMistake>& mistakes);

using PickTensor = TensorBox& (*)(GemmTensors&);

// What is wrong with a tensor whatever it is for.
std::vector<GemmMistake> mistakes_in_any_tensor(std::string_view name, PickTensor pick);

// A product in which every mistake can be made: lines are padded, so that every tensor has strides to spoil.
GemmCase product_to_refuse(Product product);

}  // namespace quern::test
