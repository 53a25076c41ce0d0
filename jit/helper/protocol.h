// What a process and its compile helper say to each other, over one stream socket:
//
//   asker -> helper   request
//   helper -> asker   opened        once the compiler is open: if it then dies, it can be named
//   helper -> asker   answer        always last
//
// A message is a frame: magic "QRNB", its type, the payload's length, the XXH3-128 of the payload (seeded with the
// type), the payload. Both ends are the same build on the same machine, so numbers are in the machine's own byte order;
// a helper of another version is told by the magic's last letter, raised whenever anything here changes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jit/backend.h"

namespace quern::jit::helper {

enum class Type : std::uint32_t { request = 1, opened = 2, answer = 3 };

inline constexpr std::size_t kMaxPayload = std::size_t{256} << 20;

struct Frame {
  Type type;
  std::string payload;
};

std::string make_frame(Type type, std::string_view payload);

// Takes the first frame out of *bytes; nothing while it is incomplete. Throws Error(QUERN_COMPILE) when the bytes are
// no frame: wrong magic, type, length or checksum.
std::optional<Frame> take_frame(std::string* bytes);

enum class Action : std::uint32_t { compile = 1, look = 2 };

struct Request {
  Action action = Action::compile;
  Family family = Family::none;
  CompileJob job;  // of a compile
  std::vector<std::string> search_dirs;
  std::string host_compiler;
  std::string folder;  // private to this request, absolute; the asker removes it
  std::uint32_t timeout_ms = 0;
};

struct Answer {
  std::int32_t status = 0;  // quern_status
  std::int64_t native = 0;
  std::string text;  // of an error
  Compiled compiled;
  std::string targets;  // of a look
};

std::string encode(const Request& request);
std::string encode(const CompilerIdentity& identity);
std::string encode(const Answer& answer);
// Throw Error(QUERN_COMPILE) when a payload is too short or too long.
Request decode_request(std::string_view payload);
CompilerIdentity decode_identity(std::string_view payload);
Answer decode_answer(std::string_view payload);

}  // namespace quern::jit::helper
