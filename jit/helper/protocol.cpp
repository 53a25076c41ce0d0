// Frames and payloads between a process and its compile helper.
// SPDX-License-Identifier: Apache-2.0
#include "jit/helper/protocol.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "jit/error.h"

namespace quern::jit::helper {
namespace {

constexpr char kMagic[4] = {'Q', 'R', 'N', 'B'};

struct Header {
  char magic[4];
  std::uint32_t type;
  std::uint64_t length;
  std::uint64_t checksum[2];
};
static_assert(sizeof(Header) == 32 && std::is_trivially_copyable_v<Header>);

Header header_of(Type type, std::string_view payload) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.type = static_cast<std::uint32_t>(type);
  header.length = payload.size();
  const XXH128_hash_t hash = XXH3_128bits_withSeed(payload.data(), payload.size(), header.type);
  header.checksum[0] = hash.low64;
  header.checksum[1] = hash.high64;
  return header;
}

[[noreturn]] void damaged(const char* what) {
  throw Error(QUERN_COMPILE, std::string("a message of the compile helper is damaged: ") + what);
}

class Writer {
 public:
  template <class Number>
  void number(const Number& value) {
    static_assert(std::is_arithmetic_v<Number> || std::is_enum_v<Number>);
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    out_.append(bytes, sizeof value);
  }
  void text(const std::string& value) {
    number(static_cast<std::uint64_t>(value.size()));
    out_ += value;
  }
  void texts(const std::vector<std::string>& values) {
    number(static_cast<std::uint64_t>(values.size()));
    for (const std::string& value : values) text(value);
  }
  void target(const Target& value) { number(value.tag()); }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  template <class Number>
  void number(Number& value) {
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
  }
  void text(std::string& value) {
    std::uint64_t size = 0;
    number(size);
    value = take(size);
  }
  void texts(std::vector<std::string>& values) {
    std::uint64_t count = 0;
    number(count);
    if (count > rest_.size()) damaged("a list is longer than its message");
    values.resize(count);
    for (std::string& value : values) text(value);
  }
  void target(Target& value) {
    std::uint32_t tag = 0;
    number(tag);
    value = Target::from_tag(tag);
  }
  void end() const {
    if (!rest_.empty()) damaged("it is too long");
  }

 private:
  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) damaged("it is too short");
    const std::string_view part = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return part;
  }

  std::string_view rest_;
};

// The fields of each message, in order, for writing and reading alike.
template <class Archive, class Message>
void request_fields(Archive& archive, Message& request) {
  archive.number(request.action);
  archive.number(request.family);
  archive.target(request.job.target);
  archive.text(request.job.source);
  archive.text(request.job.entry);
  archive.texts(request.job.options);
  archive.number(request.job.keep_operands);
  archive.texts(request.search_dirs);
  archive.text(request.host_compiler);
  archive.text(request.folder);
  archive.number(request.timeout_ms);
}

template <class Archive, class Message>
void identity_fields(Archive& archive, Message& identity) {
  archive.text(identity.kind);
  archive.text(identity.build);
  archive.text(identity.path);
}

template <class Archive, class Message>
void answer_fields(Archive& archive, Message& answer) {
  archive.number(answer.status);
  archive.number(answer.native);
  archive.text(answer.text);
  archive.text(answer.compiled.image);
  archive.text(answer.compiled.log);
  archive.text(answer.compiled.compiler_kind);
  archive.text(answer.compiled.compiler_build);
  archive.number(answer.compiled.registers);
  archive.number(answer.compiled.shared_bytes);
  archive.number(answer.compiled.local_bytes);
  archive.text(answer.targets);
}

}  // namespace

std::string make_frame(Type type, std::string_view payload) {
  const Header header = header_of(type, payload);
  std::string frame(reinterpret_cast<const char*>(&header), sizeof header);
  frame += payload;
  return frame;
}

std::optional<Frame> take_frame(std::string* bytes) {
  Header header{};
  const std::size_t magic = std::min(bytes->size(), sizeof kMagic);
  if (std::memcmp(bytes->data(), kMagic, magic) != 0)
    damaged("it begins with other bytes (a helper of another version?)");
  if (bytes->size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes->data(), sizeof header);
  if (header.type < 1 || header.type > 3) damaged("its type is unknown");
  if (header.length > kMaxPayload) damaged("it is longer than 256 MiB");
  if (bytes->size() - sizeof header < header.length) return std::nullopt;
  Frame frame{static_cast<Type>(header.type), bytes->substr(sizeof header, header.length)};
  const Header right = header_of(frame.type, frame.payload);
  if (std::memcmp(&header, &right, sizeof header) != 0) damaged("its checksum is wrong");
  bytes->erase(0, sizeof header + header.length);
  return frame;
}

std::string encode(const Request& request) {
  Writer writer;
  request_fields(writer, request);
  return writer.take();
}

Request decode_request(std::string_view payload) {
  Reader reader(payload);
  Request request;
  request_fields(reader, request);
  reader.end();
  return request;
}

std::string encode(const CompilerIdentity& identity) {
  Writer writer;
  identity_fields(writer, identity);
  return writer.take();
}

CompilerIdentity decode_identity(std::string_view payload) {
  Reader reader(payload);
  CompilerIdentity identity;
  identity_fields(reader, identity);
  reader.end();
  return identity;
}

std::string encode(const Answer& answer) {
  Writer writer;
  answer_fields(writer, answer);
  return writer.take();
}

Answer decode_answer(std::string_view payload) {
  Reader reader(payload);
  Answer answer;
  answer_fields(reader, answer);
  reader.end();
  return answer;
}

}  // namespace quern::jit::helper
