// A call to measure, read from a line in a manifest's form: OP [TARGET] NAME=VALUE ...
//
// What the line does not say the op's recipe does. A value is
//   an expression (names.h)         of a number among the op's arguments, or of a name that others are made of;
//   TYPE[EXTENT,EXTENT,...]ATTR...  of a tensor; several with ';' between them where the argument is a list. ATTR is
//       :transposed                 the last two dimensions lie in memory the other way round
//       :if(EXPRESSION)             not there where that is 0; the next of this name is then looked at
//       :off                        there only when the line says NAME=1 or NAME=TYPE
//       :value(x) :steps(x[,first]) :shares(total) :below(x) :shuffled :positive :probabilities :boxes
//                                   what it holds; otherwise floats are normally distributed and integers 0
//   TYPE, 1 or none                 of a tensor of the recipe: in this type, given, not given;
//   text                            of an expression among the arguments; blanks may be percent-encoded.
// `bytes` and `flops` are the work that is counted, bytes otherwise those of all tensors once; `rate` the type whose
// products are the ceiling. Constants of a manifest that no argument follows from (variant=decode) are kept as what was
// asked for: what runs is held against them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cli/bench/op_table.h"

namespace quern::cli {

enum class Filling : std::uint8_t { usual, value, steps, shares, below, shuffled, positive, probabilities, boxes };

struct ProblemTensor {
  DLDataType type;
  std::vector<std::int64_t> shape;
  bool transposed = false;
  Filling filling = Filling::usual;
  double numbers[2] = {0, 0};

  std::uint64_t elements() const;
  std::uint64_t bytes() const { return elements() * type.bits / 8; }
  std::string text() const;  // "bf16[64,4096]"
};

struct Problem {
  const OpTable* op = nullptr;
  std::string line;                                           // as it was given, without the target
  std::string target;                                         // "" or "*": any
  std::map<std::string, std::vector<ProblemTensor>> tensors;  // by argument; more than one in lists
  std::map<std::string, double> numbers;
  std::map<std::string, std::vector<float>> floats;
  std::map<std::string, std::string> expressions;
  std::map<std::string, std::string> asked;  // constants of a manifest, for what runs
  double bytes = 0, flops = 0;
  std::string rate;  // "bf16", "e4m3", "f32", ...; "" where nothing is multiplied
};

// Of the words of a command line. Throws Failure(QUERN_INVALID).
Problem read_problem(const std::vector<std::string>& words);
// Of a file's lines; empty ones and those that begin with '#' are passed over. `name` is the file's, for errors.
std::vector<Problem> read_problems(const std::string& text, const std::string& name);

}  // namespace quern::cli
