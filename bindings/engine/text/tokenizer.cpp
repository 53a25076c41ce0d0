// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "bindings/engine/text/tokenizer.h"

#include <pcre2.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

#include "bindings/engine/text/normal_form.h"

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

// The byte of "<0x0A>"; -1 where it is none.
int byte_of_entry(const std::string& entry) {
  if (entry.size() != 6 || !entry.starts_with("<0x") || entry[5] != '>') return -1;
  int byte = 0;
  const auto [end, failure] = std::from_chars(entry.data() + 3, entry.data() + 5, byte, 16);
  return failure == std::errc{} && end == entry.data() + 5 ? byte : -1;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (std::size_t at = 0;;) {
    const std::size_t found = text.find(from, at);
    result += text.substr(at, found - at);
    if (found == std::string_view::npos) return result;
    result += to;
    at = found + from.size();
  }
}

// Of the character that begins here; what is no UTF-8 goes byte by byte.
std::size_t character_size(std::string_view text) {
  const auto byte = static_cast<unsigned char>(text[0]);
  const std::size_t size = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
  if (size > text.size()) return 1;
  for (std::size_t i = 1; i < size; ++i) {
    if ((text[i] & 0xc0) != 0x80) return 1;
  }
  return size;
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

Tokenizer::Tokenizer(const Vocabulary& vocabulary)
    : by_characters_(vocabulary.by_characters),
      whole_pieces_(vocabulary.whole_pieces),
      drops_prefix_(vocabulary.drops_prefix),
      fuse_unknown_(vocabulary.fuse_unknown),
      nfc_(vocabulary.nfc),
      prefix_(vocabulary.prefix),
      unknown_(vocabulary.unknown),
      front_(vocabulary.front),
      behind_(vocabulary.behind) {
  const auto fail = [&](const std::string& what) { throw std::runtime_error(vocabulary.source + ": " + what); };
  const std::map<std::string, unsigned char> bytes = characters_of_bytes();
  byte_tokens_.fill(-1);
  for (const std::string& entry : vocabulary.entries) {
    const auto token = static_cast<std::int32_t>(texts_.size());
    const int byte = by_characters_ ? byte_of_entry(entry) : -1;
    if (byte >= 0) {
      texts_.emplace_back(1, static_cast<char>(byte));
      byte_tokens_[static_cast<std::size_t>(byte)] = token;
      continue;
    }
    if (by_characters_) {
      entries_.emplace(entry, token);
      texts_.push_back(replaced(entry, kSpace, " "));
      continue;
    }
    texts_.push_back(bytes_of_entry(bytes, entry));
    entries_.emplace(texts_.back(), token);
    if (const auto one = bytes.find(entry); one != bytes.end()) byte_tokens_[one->second] = token;
  }
  if (vocabulary.scores.empty()) {
    read_merges(vocabulary);
  } else {
    score_merges(vocabulary);
  }
  for (const Vocabulary::Special& special : vocabulary.specials) {
    const auto token = static_cast<std::size_t>(special.token);
    if (special.text.empty()) fail("the special token " + std::to_string(token) + " has no text");
    specials_[special.text] = special.token;
    begins_special_[static_cast<unsigned char>(special.text[0])] = true;
    if (texts_.size() <= token) texts_.resize(token + 1);
    texts_[token] = special.shown ? special.text : "";
  }
  if (by_characters_ && unknown_ >= 0 && static_cast<std::size_t>(unknown_) < texts_.size())
    texts_[static_cast<std::size_t>(unknown_)] = "";
  try {
    for (const std::string& pattern : vocabulary.patterns) splits_.emplace_back(pattern);
  } catch (const std::invalid_argument& error) {
    fail(error.what());
  }
}
Tokenizer::~Tokenizer() = default;

void Tokenizer::read_merges(const Vocabulary& vocabulary) {
  std::unordered_map<std::string_view, std::int32_t> tokens;
  for (std::size_t i = 0; i < vocabulary.entries.size(); ++i)
    tokens.emplace(vocabulary.entries[i], static_cast<std::int32_t>(i));
  std::int32_t rank = 0;
  for (const auto& [left, right] : vocabulary.merges) {
    const auto one = tokens.find(left), other = tokens.find(right), both = tokens.find(left + right);
    if (one == tokens.end() || other == tokens.end() || both == tokens.end())
      throw std::runtime_error(vocabulary.source + ": the merge of " + left + " and " + right +
                               " is not of the vocabulary");
    merges_.add(one->second, other->second, rank++, both->second);
  }
}

// A token may be put together from any two that make it up; equal scores are of one rank.
void Tokenizer::score_merges(const Vocabulary& vocabulary) {
  const std::vector<float>& scores = vocabulary.scores;
  std::vector<std::int32_t> order;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (!std::isnan(scores[i])) order.push_back(static_cast<std::int32_t>(i));
  }
  const auto score = [&](std::int32_t token) { return scores[static_cast<std::size_t>(token)]; };
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return score(a) > score(b); });
  std::int32_t rank = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && score(order[i]) < score(order[i - 1])) ++rank;
    const std::string& text = vocabulary.entries[static_cast<std::size_t>(order[i])];
    for (std::size_t at = character_size(text); at < text.size(); at += character_size(text.substr(at))) {
      const auto left = entries_.find(text.substr(0, at)), right = entries_.find(text.substr(at));
      if (left != entries_.end() && right != entries_.end()) merges_.add(left->second, right->second, rank, order[i]);
    }
  }
}

void Tokenizer::add_bytes(std::string_view piece, std::vector<std::int32_t>* parts) const {
  for (const char byte : piece) {
    const std::int32_t token = byte_tokens_[static_cast<unsigned char>(byte)];
    if (token < 0) throw std::runtime_error("the vocabulary has no token for a byte of the text");
    parts->push_back(token);
  }
}

void Tokenizer::add_characters(std::string_view piece, std::vector<std::int32_t>* parts) const {
  bool unknown_before = false;
  for (std::size_t at = 0; at < piece.size();) {
    const std::string_view character = piece.substr(at, character_size(piece.substr(at)));
    at += character.size();
    const auto entry = entries_.find(std::string(character));
    const bool falls_back = std::all_of(character.begin(), character.end(),
                                        [&](char byte) { return byte_tokens_[static_cast<unsigned char>(byte)] >= 0; });
    const bool is_unknown = entry == entries_.end() && !falls_back && unknown_ >= 0;
    if (entry != entries_.end()) {
      parts->push_back(entry->second);
    } else if (!is_unknown) {
      add_bytes(character, parts);
    } else if (!unknown_before || !fuse_unknown_) {
      parts->push_back(unknown_);
    }
    unknown_before = is_unknown;
  }
}

void Tokenizer::encode_piece(std::string_view piece, std::vector<std::int32_t>* tokens) const {
  if (whole_pieces_) {
    if (const auto whole = entries_.find(std::string(piece)); whole != entries_.end()) {
      tokens->push_back(whole->second);
      return;
    }
  }
  std::vector<std::int32_t> parts;
  if (by_characters_) {
    add_characters(piece, &parts);
  } else {
    add_bytes(piece, &parts);
  }
  merges_.apply(&parts);
  tokens->insert(tokens->end(), parts.begin(), parts.end());
}

// `first`: it begins the text.
void Tokenizer::encode_plain(std::string_view text, bool first, std::vector<std::int32_t>* tokens) const {
  std::string spaced, normal;
  if (nfc_) text = normal = normal_form_c(text);
  if (by_characters_) {
    using Prefix = Vocabulary::Prefix;
    spaced = replaced(text, " ", kSpace);
    const bool wanted = prefix_ == Prefix::each || (prefix_ == Prefix::first && first);
    if (prefix_ == Prefix::anyway || (wanted && !spaced.starts_with(kSpace))) spaced = kSpace + spaced;
    text = spaced;
  }
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
    if (!begins_special_[static_cast<unsigned char>(text[i])]) {
      ++i;
      continue;
    }
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
    if (i > plain) encode_plain(text.substr(plain, i - plain), plain == 0, &tokens);
    tokens.push_back(longest->second);
    plain = i += longest->first.size();
  }
  if (plain < text.size()) encode_plain(text.substr(plain), plain == 0, &tokens);
  return tokens;
}

std::vector<std::int32_t> Tokenizer::begun(std::vector<std::int32_t> tokens) const {
  const bool there = tokens.size() >= front_.size() && std::equal(front_.begin(), front_.end(), tokens.begin());
  if (!there) tokens.insert(tokens.begin(), front_.begin(), front_.end());
  return tokens;
}

std::vector<std::int32_t> Tokenizer::framed(std::vector<std::int32_t> tokens) const {
  tokens = begun(std::move(tokens));
  tokens.insert(tokens.end(), behind_.begin(), behind_.end());
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
  if (drops_prefix_ && text.starts_with(' ')) text.erase(0, 1);
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
