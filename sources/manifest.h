// Manifest lines: a specialisation as text,  OP TARGET NAME=VALUE ...  (the grammar is in capi/quern.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "jit/spec.h"
#include "jit/target.h"
#include "sources/op.h"

namespace quern::ops {

// A line taken apart; the constants are the op's to judge.
struct ManifestLine {
  const Op* op = nullptr;
  std::optional<jit::Target> target;  // none: '*', every target of the call
  Constants constants;
};

// None for an empty line or a comment. Throws Error(QUERN_INVALID) naming what is wrong; the caller knows the line's
// number.
std::optional<ManifestLine> parse_line(std::string_view line);

// The Spec of a line on one target. Throws what the op's parse throws.
jit::Spec to_spec(const ManifestLine& line, jit::Target target);

// "HEAD_DIM=128 PAGE_SIZE=16", percent-encoded; of a Spec, all its constants.
std::string constants_text(const Constants& constants);
std::string constants_text(const jit::Spec& spec);

// "attention sm_90a HEAD_DIM=128 PAGE_SIZE=16", which parse_line and to_spec turn into the same Spec.
std::string to_line(const jit::Spec& spec);

// '%', '=', space and control characters become %XX. decode throws Error(QUERN_INVALID) for a '%' without two
// hexadecimal digits after it.
std::string percent_encode(std::string_view text);
std::string percent_decode(std::string_view text);

}  // namespace quern::ops
