// What families of models call the fields of their config.json, and which family a file is of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bindings/cli/config_reader.h"
#include "quern.h"

namespace quern::cli {

using Member = std::uint32_t quern_model::*;

// What holds where a field is missing or null.
enum class Absent : std::uint8_t { refused, number, as_heads, hidden_over_heads, four_times_hidden };

struct Field {
  Member member;
  const char* name;  // in config.json; "": never there
  Absent absent = Absent::refused;
  std::uint32_t most = 1u << 24;
  std::uint32_t least = 1;
  std::uint32_t number = 0;  // for Absent::number
};

enum class Window : std::uint8_t {
  none,
  stated,   // sliding_window, null for none
  switched  // the same, when use_sliding_window is true
};

inline constexpr std::uint32_t kMostPositions = 0x7fffffff;

struct Family {
  const char* model_type;
  const char* architecture;
  std::span<const Field> groups[4];
  std::uint32_t flags = QUERN_MODEL_GATED_MLP;
  Window window = Window::none;
  bool caps = false;  // of attention's logits and of those that tokens are chosen by, as Gemma-2's files name them
  const char* activation = "silu";  // where the file names none
  float rotary = 1;                 // likewise, the share of a head that turns
};

// The family as which the file is to be read: `asked` where that is not empty. Throws where there is none; `notes` say
// how it was found where that is not plain.
const Family& family_of(const ConfigReader& reader, const std::string& asked, std::vector<std::string>& notes);

// Whether the family's files state the width of all shared experts together.
bool states_shared_width(const Family& family);

}  // namespace quern::cli
