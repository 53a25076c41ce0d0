// Text to tokens and back: byte-pair encoding over bytes (Radford et al., 2019) or over characters, of which those
// that are no entry fall back to bytes (Kudo, Richardson: "SentencePiece", 2018).
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

#include "bindings/engine/text/merges.h"
#include "bindings/engine/text/vocabulary.h"

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
  // With what a text of its own has in front and behind; not twice where those in front are there already.
  std::vector<std::int32_t> framed(std::vector<std::int32_t> tokens) const;
  // With those in front alone: what is begun goes on.
  std::vector<std::int32_t> begun(std::vector<std::int32_t> tokens) const;
  // The bytes of a token; nothing for a special one. A character may be the bytes of several tokens.
  std::string bytes_of(std::int32_t token) const;
  std::string decode(const std::vector<std::int32_t>& tokens) const;
  // -1 where there is none.
  std::int32_t find(std::string_view special) const;
  // A special token's text; empty where it is none.
  std::string special_of(std::int64_t token) const;
  std::size_t size() const { return texts_.size(); }

 private:
  void read_merges(const Vocabulary& vocabulary);
  void score_merges(const Vocabulary& vocabulary);
  void encode_plain(std::string_view text, bool first, std::vector<std::int32_t>* tokens) const;
  void encode_piece(std::string_view piece, std::vector<std::int32_t>* tokens) const;
  void add_bytes(std::string_view piece, std::vector<std::int32_t>* parts) const;
  void add_characters(std::string_view piece, std::vector<std::int32_t>* parts) const;

  std::vector<Pattern> splits_;                  // each cuts the pieces that the one before leaves
  std::array<std::int32_t, 256> byte_tokens_{};  // -1: none
  Merges merges_;
  std::unordered_map<std::string, std::int32_t> entries_;  // by bytes
  bool by_characters_, whole_pieces_, drops_prefix_, fuse_unknown_, nfc_;
  Vocabulary::Prefix prefix_;
  std::int32_t unknown_;
  std::vector<std::int32_t> front_, behind_;
  std::vector<std::string> texts_;  // of each token, in bytes
  std::map<std::string, std::int32_t, std::less<>> specials_;
  std::array<bool, 256> begins_special_{};  // a byte may
};

}  // namespace quern::engine
