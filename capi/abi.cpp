// The parts of the border that are off the hot path.
// SPDX-License-Identifier: Apache-2.0
#include "capi/abi.h"

#include <cstring>
#include <new>
#include <system_error>

namespace quern::capi {
namespace {

// A text that does not fit loses its middle: a compiler's log begins with what was being done, and ends with what it
// came to.
void copy_both_ends(std::string_view text, char* buffer, std::size_t size) noexcept {
  constexpr std::string_view kCut = "\n[...]\n";
  if (text.size() < size || size < 8 * kCut.size()) return copy_text(text, buffer, size);
  copy_text(text, buffer, (size - kCut.size()) / 3);
  std::size_t length = std::strlen(buffer);
  std::memcpy(buffer + length, kCut.data(), kCut.size());
  length += kCut.size();
  std::size_t from = text.size() - (size - 1 - length);
  while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0) == 0x80) ++from;
  copy_text(text.substr(from), buffer + length, size - length);
}

std::int32_t report(quern_error* error, std::int32_t status, std::int64_t native, std::string_view text) noexcept {
  if (error == nullptr || error->size < ops::kSmallestStruct || error->size > ops::kLargestStruct) return status;
  error->status = status;
  if (error->size >= offsetof(quern_error, native) + sizeof(error->native)) error->native = native;
  if (error->size > offsetof(quern_error, text)) {
    const std::size_t room = error->size - offsetof(quern_error, text);
    copy_both_ends(text, error->text, std::min(room, sizeof(error->text)));
  }
  return status;
}

}  // namespace

std::int32_t report_current_exception(quern_error* error) noexcept {
  try {
    throw;
  } catch (const Error& failure) {
    return report(error, failure.status(), failure.native(), failure.text());
  } catch (const std::bad_alloc&) {
    return report(error, QUERN_NO_MEMORY, 0, "out of memory");
  } catch (const std::system_error& failure) {
    return report(error, QUERN_INTERNAL, failure.code().value(), failure.what());
  } catch (const std::exception& failure) {
    return report(error, QUERN_INTERNAL, 0, failure.what());
  } catch (...) {
    return report(error, QUERN_INTERNAL, 0, "an exception of an unknown type");
  }
}

void copy_text(std::string_view text, char* buffer, std::size_t size) noexcept {
  if (size == 0) return;
  std::size_t length = std::min(text.size(), size - 1);
  if (length < text.size()) {
    // Back over the continuation bytes to the start of the character that does not fit.
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
  }
  std::memcpy(buffer, text.data(), length);
  buffer[length] = '\0';
}

const char* path_parameter(const char* path, const char* name) {
  if (path == nullptr) fail_null(name);
  if (path[0] != '/')
    throw Error(QUERN_INVALID, std::string(name) + " is \"" + path + "\"; an absolute path is needed");
  return path;
}

void check_flags(const char* field, std::uint32_t given, std::uint32_t known) {
  if ((given & ~known) == 0) return;
  constexpr char kDigits[] = "0123456789abcdef";
  const auto hex = [&](std::uint32_t bits) {
    std::string digits;
    for (int shift = 28; shift >= 0; shift -= 4) {
      if (!digits.empty() || bits >> shift != 0 || shift == 0) digits += kDigits[(bits >> shift) & 15];
    }
    return "0x" + digits;
  };
  throw Error(QUERN_INVALID,
              std::string(field) + " has unknown bits " + hex(given & ~known) + "; known are " + hex(known));
}

}  // namespace quern::capi
