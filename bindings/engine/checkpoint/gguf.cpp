// SPDX-License-Identifier: Apache-2.0
#include "bindings/engine/checkpoint/gguf.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

namespace quern::engine {
namespace {

constexpr std::uint64_t kMostValues = 1u << 22;  // of all arrays together: what a header may make a reader allocate
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 40;  // of a tensor
constexpr int kMostNested = 4;                                   // arrays in arrays

enum ValueType : std::uint32_t { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 };

}  // namespace

// Goes through the header from its start.
class Gguf::Reader {
 public:
  explicit Reader(const Gguf& file) : file_(file) {}

  template <class T>
  T number(const char* what) {
    T value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }
  std::string string(const char* what) {
    const auto length = number<std::uint64_t>(what);
    return std::string(take(length, what));
  }
  // How many of something there are, each of at least `least` bytes.
  std::uint64_t count(std::uint64_t least, const char* what) {
    const auto count = number<std::uint64_t>(what);
    if (count > (file_.bytes_.size() - at_) / least)
      fail(std::string("the ") + what + " goes past the end of the file");
    return count;
  }
  Json value(std::uint32_t type, int depth) {
    switch (type) {
      case U8:
        return number<std::uint8_t>("value");
      case I8:
        return number<std::int8_t>("value");
      case U16:
        return number<std::uint16_t>("value");
      case I16:
        return number<std::int16_t>("value");
      case U32:
        return number<std::uint32_t>("value");
      case I32:
        return number<std::int32_t>("value");
      case F32:
        return number<float>("value");
      case BOOL:
        return number<std::uint8_t>("value") != 0;
      case STRING:
        return string("string");
      case ARRAY:
        return array(depth);
      case U64:
        return number<std::uint64_t>("value");
      case I64:
        return number<std::int64_t>("value");
      case F64:
        return number<double>("value");
      default:
        fail("there is no value type " + std::to_string(type));
    }
  }
  std::size_t at() const { return at_; }
  [[noreturn]] void fail(const std::string& what) const { file_.fail("byte " + std::to_string(at_) + ": " + what); }

 private:
  std::string_view take(std::uint64_t length, const char* what) {
    if (length > file_.bytes_.size() - at_) fail(std::string("the ") + what + " goes past the end of the file");
    const std::string_view taken = file_.bytes_.substr(at_, length);
    at_ += length;
    return taken;
  }
  Json array(int depth) {
    if (depth >= kMostNested) fail("more than " + std::to_string(kMostNested) + " arrays lie in each other");
    const auto type = number<std::uint32_t>("array's type");
    const std::uint64_t length = count(1, "array");
    values_ += length;
    if (values_ > kMostValues) fail("the arrays have more than " + std::to_string(kMostValues) + " values");
    std::vector<Json> items;
    items.reserve(length);
    for (std::uint64_t i = 0; i < length; ++i) items.push_back(value(type, depth + 1));
    return Json::array(std::move(items));
  }

  const Gguf& file_;
  std::size_t at_ = 0;
  std::uint64_t values_ = 0;
};

Gguf::Gguf(const std::string& path) : path_(path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat found{};
  if (file < 0 || fstat(file, &found) != 0 || !S_ISREG(found.st_mode)) {
    if (file >= 0) close(file);
    throw std::runtime_error("cannot read " + path);
  }
  const auto size = static_cast<std::size_t>(found.st_size);
  void* const mapped = size == 0 ? MAP_FAILED : mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (mapped == MAP_FAILED) fail(size == 0 ? "the file is empty" : "the file cannot be mapped");
  bytes_ = {static_cast<const char*>(mapped), size};
  try {
    read();
  } catch (...) {
    munmap(mapped, size);
    throw;
  }
}
Gguf::~Gguf() { munmap(const_cast<char*>(bytes_.data()), bytes_.size()); }

void Gguf::fail(const std::string& what) const { throw std::runtime_error(path_ + ": " + what); }

void Gguf::read() {
  Reader reader(*this);
  if (reader.number<std::uint32_t>("header") != 0x46554747) fail("it does not begin with GGUF");
  const auto version = reader.number<std::uint32_t>("version");
  if (version != 2 && version != 3) fail("the version is " + std::to_string(version) + "; allowed: 2, 3");
  const std::uint64_t tensors = reader.count(24, "number of tensors"), values = reader.count(12, "number of values");

  for (std::uint64_t i = 0; i < values; ++i) {
    const std::string name = reader.string("name of a value");
    const auto type = reader.number<std::uint32_t>("type of a value");
    if (!values_.emplace(name, reader.value(type, 0)).second) reader.fail("there are two values " + name);
  }
  const Json* aligned = find("general.alignment");
  const std::uint64_t alignment = aligned == nullptr ? 32 : aligned->is_unsigned() ? aligned->whole() : 0;
  if (alignment == 0 || alignment > 65536 || (alignment & (alignment - 1)) != 0)
    fail("general.alignment is " + aligned->dump() + "; allowed: powers of two to 65536");

  for (std::uint64_t i = 0; i < tensors; ++i) {
    const std::string name = reader.string("name of a tensor");
    Tensor tensor;
    const auto dimensions = reader.number<std::uint32_t>("number of dimensions");
    if (dimensions > 4) reader.fail(name + " has " + std::to_string(dimensions) + " dimensions; allowed: at most 4");
    std::uint64_t elements = 1;
    for (std::uint32_t d = 0; d < dimensions; ++d) {
      const auto extent = reader.number<std::uint64_t>("shape");
      if (extent == 0 || extent > kMostElements / elements) reader.fail("the shape of " + name + " is none");
      elements *= extent;
      tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(extent));
    }
    tensor.type = reader.number<std::uint32_t>("type of a tensor");
    tensor.begin = reader.number<std::uint64_t>("offset");  // of the data, until it is known where they begin
    if (tensor.begin % alignment != 0) reader.fail("the offset of " + name + " is not aligned");
    if (!tensors_.emplace(name, std::move(tensor)).second) reader.fail("there are two tensors " + name);
  }

  const std::uint64_t data = (reader.at() + alignment - 1) / alignment * alignment;
  for (auto& [name, tensor] : tensors_) {
    const BlockType* const type = find_block_type(tensor.type);
    std::int64_t elements = 1;
    for (const std::int64_t extent : tensor.shape) elements *= extent;
    const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
    if (type != nullptr && row % type->elements != 0)
      fail(name + " has rows of " + std::to_string(row) + " elements, which are no whole blocks of " + type->name);
    // A type that is not known here may stay in the file, so long as nobody asks for it.
    const std::uint64_t size =
        type == nullptr ? 0 : static_cast<std::uint64_t>(elements / type->elements * type->bytes);
    if (data > bytes_.size() || tensor.begin > bytes_.size() - data || size > bytes_.size() - data - tensor.begin)
      fail(name + " goes past the end of the file");
    tensor.begin += data;
  }
}

const Json* Gguf::find(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}
const Json& Gguf::at(const std::string& name) const {
  const Json* found = find(name);
  if (found == nullptr) fail("there is no " + name);
  return *found;
}

const Gguf::Tensor* Gguf::tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::string_view Gguf::bytes_of(const std::string& name, const BlockType** type) const {
  const Tensor* found = tensor(name);
  if (found == nullptr) fail("there is no tensor " + name);
  *type = find_block_type(found->type);
  if (*type == nullptr) {
    fail(name + " is of type " + std::to_string(found->type) +
         "; allowed: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K, Q6_K (0, 1, 30, 8, 2, 3, 12, 14)");
  }
  std::int64_t elements = 1;
  for (const std::int64_t extent : found->shape) elements *= extent;
  return bytes_.substr(found->begin, static_cast<std::size_t>(elements / (*type)->elements * (*type)->bytes));
}

std::vector<std::uint16_t> Gguf::bf16(const std::string& name) const {
  const BlockType* type = nullptr;
  const std::string_view bytes = bytes_of(name, &type);
  return bf16_of_blocks(*type, bytes);
}

std::vector<float> Gguf::f32(const std::string& name) const {
  const BlockType* type = nullptr;
  const std::string_view bytes = bytes_of(name, &type);
  if (type->number != 0) fail(name + " is " + type->name + "; allowed: F32");
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace quern::engine
