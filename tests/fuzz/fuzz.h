// What is fed with bytes that somebody else has made. A target may refuse them in the ways that it documents; whatever
// else it throws, and what a sanitizer finds, is a bug.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::fuzz {

struct Target {
  const char* name;
  void (*run)(std::string_view input);
  std::vector<std::string> (*seeds)();  // good inputs, from which others are made
};

extern const Target bundle, cache_file, manifest, config, texts, images, protocol, structs, requests, key_texts;

inline std::span<const Target* const> targets() {
  static const Target* const all[] = {&bundle, &cache_file, &manifest, &config,   &texts,
                                      &images, &protocol,   &structs,  &requests, &key_texts};
  return all;
}

// The input's bytes one after the other; zeros behind its end.
class Bytes {
 public:
  explicit Bytes(std::string_view input) : input_(input) {}
  template <class T>
  T take() {
    T value{};
    const std::size_t count = std::min(sizeof(T), input_.size());
    input_.copy(reinterpret_cast<char*>(&value), count);
    input_.remove_prefix(count);
    return value;
  }
  unsigned below(unsigned bound) { return take<unsigned char>() % bound; }
  std::string_view rest() const { return input_; }

 private:
  std::string_view input_;
};

}  // namespace quern::fuzz
