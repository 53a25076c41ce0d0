// Chat templates: how messages become a prompt. A template is a program in the language of Jinja; this is the part of
// it that models' templates are written in: for with its loop variables, break and continue, if, set, macro,
// expressions with the usual operators, filters, tests and methods, raise_exception, namespace, range. Calls with a
// body, imports and inheritance are refused by name, and lists and mappings are written by join and tojson alone.
// Newlines behind a block and blanks before one go, as transformers has it (trim_blocks, lstrip_blocks).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "bindings/json/json.h"

namespace quern::engine {

class Template {
 public:
  // Throws std::runtime_error naming the line and what is not known there.
  explicit Template(std::string_view text);
  ~Template();
  Template(const Template&) = delete;
  Template& operator=(const Template&) = delete;

  // With these variables, an object's members: messages [{"role": ..., "content": ...}], add_generation_prompt,
  // bos_token, eos_token. Throws std::runtime_error where the template refuses them or does what it may not; it may run
  // a million steps and write 16 MiB.
  std::string render(const Json& variables) const;

  struct Node;

 private:
  std::unique_ptr<Node> root_;
};

}  // namespace quern::engine
