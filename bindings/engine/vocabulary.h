// What a tokenizer is made of, whatever file it came from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace quern {
class Json;
}

namespace quern::engine {

struct Vocabulary {
  std::string source;                // the file, for messages
  std::vector<std::string> entries;  // by token; each byte is written as a character that can be seen
  // Both halves' entries; the first in the list comes first.
  std::vector<std::pair<std::string, std::string>> merges;
  struct Special {
    std::string text;
    std::int32_t token;
    bool shown;  // its text is part of what a model says
  };
  std::vector<Special> specials;  // found in a text before anything else is
  // Regular expressions that cut a text into pieces, one after the other; merges stay within a piece.
  std::vector<std::string> patterns;
  bool whole_pieces = false;  // a piece that is an entry is not put together from smaller ones
};

// How GPT-2 cuts text into words.
inline constexpr const char* kWords = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Of a tokenizer.json. Throws JsonError naming what in it is not known here.
Vocabulary vocabulary_of_json(const Json& json);

}  // namespace quern::engine
