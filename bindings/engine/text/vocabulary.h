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
  std::string source;  // the file, for messages
  // Byte-level: each byte is written as a character that can be seen. By characters (SentencePiece): as they are, a
  // space as U+2581, and "<0x0A>" for a byte of a character that is no entry.
  bool by_characters = false;
  std::vector<std::string> entries;  // by token
  // Both halves' entries; the first in the list comes first.
  std::vector<std::pair<std::string, std::string>> merges;
  struct Special {
    std::string text;
    std::int32_t token;
    bool shown;  // its text is part of what a model says
  };
  std::vector<Special> specials;            // found in a text before anything else is
  std::int32_t begin = -1, end = -1;        // what templates call bos_token and eos_token; -1: none
  std::vector<std::int32_t> front, behind;  // what a text of its own has in front of it and behind it
  bool nfc = false;                         // a text is brought into Unicode's normal form C before it is cut
  // Regular expressions that cut a text into pieces, one after the other; merges stay within a piece.
  std::vector<std::string> patterns;
  bool whole_pieces = false;  // a piece that is an entry is not put together from smaller ones
  // Where a space is put in front, by characters alone: nowhere, at a text's beginning, or behind each special token
  // too, there where is none yet or anyway.
  enum class Prefix { none, first, each, anyway };
  Prefix prefix = Prefix::none;
  bool drops_prefix = false;  // a text that is put together from tokens is without it
  std::int32_t unknown = -1;  // stands for what is no entry in any way
  bool fuse_unknown = false;  // one for neighbours
  // Instead of merges: of each token, the highest is put together first; NaN where it is not put together at all.
  std::vector<float> scores;
};

// What stands for a space in entries of characters.
inline constexpr const char* kSpace = "\u2581";

// How GPT-2 cuts text into words.
inline constexpr const char* kWords = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Of a tokenizer.json. Throws JsonError naming what in it is not known here.
Vocabulary vocabulary_of_json(const Json& json);
// What a tokenizer_config.json says besides: which tokens begin and end texts, and whether they are put there whatever
// the tokenizer.json says.
void read_tokenizer_config(const Json& json, Vocabulary* vocabulary);

}  // namespace quern::engine
