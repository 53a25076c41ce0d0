// Text to tokens and back: byte-level BPE as a tokenizer.json describes it (Sennrich, Haddow, Birch: "Neural machine
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

namespace quern {
class Json;
}

namespace quern::engine {

class Pattern;  // a regular expression

class Tokenizer {
 public:
  // Reads FILE. Throws std::runtime_error naming it and what in it is not known here.
  explicit Tokenizer(const std::string& file);
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
  std::size_t size() const { return texts_.size(); }

 private:
  struct Merge {
    std::int32_t rank, token;
  };
  void read_model(const Json& model);
  void read_splits(const Json& step);
  void encode_plain(std::string_view text, std::vector<std::int32_t>* tokens) const;
  void encode_piece(std::string_view piece, std::vector<std::int32_t>* tokens) const;

  std::vector<Pattern> splits_;                      // each cuts the pieces that the one before leaves
  std::array<std::int32_t, 256> byte_tokens_{};      // -1: none
  std::unordered_map<std::uint64_t, Merge> merges_;  // by both tokens
  std::vector<std::string> texts_;                   // of each token, in bytes
  std::map<std::string, std::int32_t, std::less<>> specials_;
};

}  // namespace quern::engine
