// Text to tokens and back: byte-level BPE (Sennrich, Haddow, Birch: "Neural machine
// translation of rare words with subword units", 2016; over bytes: Radford et al., 2019).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bindings/engine/vocabulary.h"

namespace quern::engine {

class Pattern;  // a regular expression

class Tokenizer {
 public:
  // Throws std::runtime_error naming the vocabulary's file and what in it cannot be.
  explicit Tokenizer(const Vocabulary& vocabulary);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Special tokens in the text, such as "<|begin|>", become themselves.
  std::vector<std::int32_t> encode(std::string_view text) const;
  // The bytes of a token; nothing for a special one. A character may be the bytes of several tokens.
  std::string bytes_of(std::int32_t token) const;
  std::string decode(const std::vector<std::int32_t>& tokens) const;
  // -1 where there is none.
  std::int32_t find(std::string_view special) const;
  // A special token's text; empty where it is none.
  std::string special_of(std::int64_t token) const;
  std::size_t size() const { return texts_.size(); }

 private:
  struct Merge {
    std::int32_t rank, token;
  };
  void encode_plain(std::string_view text, std::vector<std::int32_t>* tokens) const;
  void encode_piece(std::string_view piece, std::vector<std::int32_t>* tokens) const;

  std::vector<Pattern> splits_;                          // each cuts the pieces that the one before leaves
  std::array<std::int32_t, 256> byte_tokens_{};          // -1: none
  std::unordered_map<std::uint64_t, Merge> merges_;      // by both tokens
  std::unordered_map<std::string, std::int32_t> whole_;  // by bytes; empty where pieces are always put together
  std::vector<std::string> texts_;                       // of each token, in bytes
  std::map<std::string, std::int32_t, std::less<>> specials_;
};

}  // namespace quern::engine
