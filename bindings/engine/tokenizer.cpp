// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "bindings/engine/tokenizer.h"

#include <pcre2.h>

#include <map>
#include <stdexcept>
#include <utility>

namespace quern::engine {
namespace {

// A vocabulary writes each byte as a character that can be seen: those of Latin-1 that can be seen are themselves, the
// others follow from U+0100 on.
std::map<std::string, unsigned char> characters_of_bytes() {
  std::map<std::string, unsigned char> bytes;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool seen = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    const int point = seen ? byte : next++;
    std::string character;
    if (point < 0x80) {
      character = static_cast<char>(point);
    } else {
      character = {static_cast<char>(0xc0 | point >> 6), static_cast<char>(0x80 | (point & 0x3f))};
    }
    bytes[character] = static_cast<unsigned char>(byte);
  }
  return bytes;
}

// The bytes that a vocabulary's entry stands for; the entry itself where it has other characters.
std::string bytes_of_entry(const std::map<std::string, unsigned char>& bytes, const std::string& entry) {
  std::string result;
  for (std::size_t i = 0; i < entry.size();) {
    const std::size_t length = (entry[i] & 0x80) == 0 ? 1 : 2;
    const auto found = bytes.find(entry.substr(i, length));
    if (found == bytes.end()) return entry;
    result += static_cast<char>(found->second);
    i += length;
  }
  return result;
}

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

// Cuts text where it matches: matches are pieces, and so is what lies between them.
class Pattern {
 public:
  explicit Pattern(const std::string& text) {
    int code = 0;
    PCRE2_SIZE at = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &code, &at, nullptr));
    if (code_ == nullptr) throw std::invalid_argument("the pattern " + text + " is no regular expression");
  }

  template <class Take>
  void cut(std::string_view text, const Take& take) const {
    const std::unique_ptr<pcre2_match_data, Free> match(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    std::size_t done = 0, from = 0;
    while (from < text.size() && pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                             0, match.get(), nullptr) > 0) {
      const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match.get());
      if (ends[1] == ends[0]) {
        from = ends[1] + 1;
        continue;
      }
      if (ends[0] > done) take(text.substr(done, ends[0] - done));
      take(text.substr(ends[0], ends[1] - ends[0]));
      done = from = ends[1];
    }
    if (done < text.size()) take(text.substr(done));
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
};

Tokenizer::Tokenizer(const Vocabulary& vocabulary) {
  const auto fail = [&](const std::string& what) { throw std::runtime_error(vocabulary.source + ": " + what); };
  const std::map<std::string, unsigned char> bytes = characters_of_bytes();
  std::unordered_map<std::string_view, std::int32_t> tokens;
  byte_tokens_.fill(-1);
  for (const std::string& entry : vocabulary.entries) {
    const auto token = static_cast<std::int32_t>(texts_.size());
    tokens.emplace(entry, token);
    texts_.push_back(bytes_of_entry(bytes, entry));
    if (vocabulary.whole_pieces) whole_.emplace(texts_.back(), token);
    if (const auto byte = bytes.find(entry); byte != bytes.end()) byte_tokens_[byte->second] = token;
  }
  std::int32_t rank = 0;
  for (const auto& [left, right] : vocabulary.merges) {
    const auto one = tokens.find(left), other = tokens.find(right), both = tokens.find(left + right);
    if (one == tokens.end() || other == tokens.end() || both == tokens.end())
      fail("the merge of " + left + " and " + right + " is not of the vocabulary");
    merges_.emplace(pair_of(one->second, other->second), Merge{rank++, both->second});
  }
  for (const Vocabulary::Special& special : vocabulary.specials) {
    const auto token = static_cast<std::size_t>(special.token);
    if (special.text.empty()) fail("the special token " + std::to_string(token) + " has no text");
    specials_[special.text] = special.token;
    if (texts_.size() <= token) texts_.resize(token + 1);
    texts_[token] = special.shown ? special.text : "";
  }
  try {
    for (const std::string& pattern : vocabulary.patterns) splits_.emplace_back(pattern);
  } catch (const std::invalid_argument& error) {
    fail(error.what());
  }
}
Tokenizer::~Tokenizer() = default;

// Merges neighbours, the merge of the lowest rank first, the leftmost of equals.
void Tokenizer::encode_piece(std::string_view piece, std::vector<std::int32_t>* tokens) const {
  if (const auto whole = whole_.find(std::string(piece)); whole != whole_.end()) {
    tokens->push_back(whole->second);
    return;
  }
  std::vector<std::int32_t> parts;
  for (const char byte : piece) {
    const std::int32_t token = byte_tokens_[static_cast<unsigned char>(byte)];
    if (token < 0) throw std::runtime_error("the vocabulary has no token for a byte of the text");
    parts.push_back(token);
  }
  while (parts.size() > 1) {
    const Merge* best = nullptr;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto merge = merges_.find(pair_of(parts[i], parts[i + 1]));
      if (merge != merges_.end() && (best == nullptr || merge->second.rank < best->rank)) best = &merge->second, at = i;
    }
    if (best == nullptr) break;
    parts[at] = best->token;
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  tokens->insert(tokens->end(), parts.begin(), parts.end());
}

void Tokenizer::encode_plain(std::string_view text, std::vector<std::int32_t>* tokens) const {
  std::vector<std::string_view> pieces = {text};
  for (const Pattern& split : splits_) {
    std::vector<std::string_view> smaller;
    for (const std::string_view piece : pieces)
      split.cut(piece, [&](std::string_view part) { smaller.push_back(part); });
    pieces = std::move(smaller);
  }
  for (const std::string_view piece : pieces) encode_piece(piece, tokens);
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  std::size_t plain = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::pair<const std::string, std::int32_t>* longest = nullptr;
    for (const auto& special : specials_) {
      if (text.substr(i).starts_with(special.first) &&
          (longest == nullptr || special.first.size() > longest->first.size()))
        longest = &special;
    }
    if (longest == nullptr) {
      ++i;
      continue;
    }
    if (i > plain) encode_plain(text.substr(plain, i - plain), &tokens);
    tokens.push_back(longest->second);
    plain = i += longest->first.size();
  }
  if (plain < text.size()) encode_plain(text.substr(plain), &tokens);
  return tokens;
}

std::string Tokenizer::bytes_of(std::int32_t token) const {
  if (token < 0 || static_cast<std::size_t>(token) >= texts_.size())
    throw std::runtime_error("token " + std::to_string(token) + " is not of the vocabulary");
  return texts_[static_cast<std::size_t>(token)];
}

std::string Tokenizer::decode(const std::vector<std::int32_t>& tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) text += bytes_of(token);
  return text;
}

std::int32_t Tokenizer::find(std::string_view special) const {
  const auto found = specials_.find(special);
  return found == specials_.end() ? -1 : found->second;
}

std::string Tokenizer::special_of(std::int64_t token) const {
  for (const auto& [text, special] : specials_) {
    if (special == token) return text;
  }
  return "";
}

}  // namespace quern::engine
