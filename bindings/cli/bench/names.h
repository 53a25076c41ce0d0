// The names of a problem and what they stand for: "m=64 k=4096 tokens=batch*queries". A value is an expression of other
// names, evaluated when it is asked for, so that their order does not matter.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace quern::cli {

class Names {
 public:
  // `op` is whose constants of quern.h need not be written out: for "norm", RMS is QUERN_NORM_RMS.
  explicit Names(std::string op) : op_(std::move(op)) {}

  // The last text of a name holds.
  void set(const std::string& name, const std::string& text) { texts_[name] = text; }
  bool has(const std::string& name) const { return texts_.count(name) != 0; }

  // The number that an expression is: + - * / % |, comparisons (1 or 0), parentheses, names, constants of quern.h and
  // ceil(x) floor(x) min(x,y) max(x,y) if(x,then,else) has(flags,flag) is(name,word) size(TYPE). `where` is
  // the name whose value it is, for errors and for constants (with `front`, rmsnorm is QUERN_FRONT_RMSNORM). Throws
  // Failure(QUERN_INVALID).
  double number(std::string_view expression, const std::string& where) const;
  // The word that a name stands for, followed from name to name: "bf16" for kv_dtype=dtype dtype=bf16. A word that is
  // no name is itself.
  std::string word(const std::string& name) const;

 private:
  friend class Evaluation;
  std::string op_;
  std::map<std::string, std::string> texts_;
};

}  // namespace quern::cli
