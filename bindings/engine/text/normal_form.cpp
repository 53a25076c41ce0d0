// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/text/normal_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <stdexcept>

namespace quern::engine {
namespace {

const utf8proc_uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

// How many bytes at the beginning are UTF-8.
std::size_t valid_size(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    utf8proc_int32_t point = 0;
    const std::string_view rest = text.substr(at);
    const utf8proc_ssize_t size = utf8proc_iterate(bytes_of(rest), static_cast<utf8proc_ssize_t>(rest.size()), &point);
    if (size <= 0) break;
    at += static_cast<std::size_t>(size);
  }
  return at;
}

struct Free {
  void operator()(utf8proc_uint8_t* bytes) const { std::free(bytes); }
};

std::string composed(std::string_view text) {
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(bytes_of(text), static_cast<utf8proc_ssize_t>(text.size()), &made,
                                             static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, Free> owned(made);
  if (size < 0) throw std::runtime_error(std::string("a text has no normal form C: ") + utf8proc_errmsg(size));
  return {reinterpret_cast<const char*>(made), static_cast<std::size_t>(size)};
}

}  // namespace

std::string normal_form_c(std::string_view text) {
  // The most usual texts are their own form.
  if (std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; })) return std::string(text);
  std::string result;
  while (!text.empty()) {
    const std::size_t valid = valid_size(text);
    if (valid > 0) result += composed(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) break;
    result += text[0];
    text.remove_prefix(1);
  }
  return result;
}

}  // namespace quern::engine
