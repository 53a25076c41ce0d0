// SPDX-License-Identifier: Apache-2.0
#include "described.h"

#include <cstring>
#include <limits>
#include <utility>

namespace quern::described {
namespace {

// A call of quern.h with its args struct as any struct.
template <auto Call, typename Args>
std::int32_t by_address(quern_context* context, const void* args, quern_error* error) {
  return Call(context, static_cast<const Args*>(args), error);
}
template <auto Call, typename Args>
std::int32_t size_by_address(quern_context* context, const void* args, std::uint64_t* bytes, quern_error* error) {
  return Call(context, static_cast<const Args*>(args), bytes, error);
}

template <typename Value>
void put(const Arguments::Place& place, Value value) {
  std::memcpy(place.memory + place.field->offset, &value, sizeof value);
}

[[noreturn]] void refuse(const std::string& text) { throw Refused(QUERN_INVALID, text); }

void want(const Arguments::Place& place, bool fits, const char* given) {
  static constexpr std::array<const char*, 11> kWanted = {"a tensor",
                                                          "a list of tensors",
                                                          "an integer",
                                                          "an integer",
                                                          "an integer",
                                                          "an integer",
                                                          "a number",
                                                          "a number",
                                                          "a list of numbers",
                                                          "a formula",
                                                          ""};
  if (fits) return;
  refuse(std::string(place.field->name) + ": " + given + " given; allowed is " + kWanted.at(place.field->kind));
}

template <typename Integer>
void put_integer(const Arguments::Place& place, std::int64_t value) {
  const bool fits = std::is_signed_v<Integer> || value >= 0;
  if (!fits || static_cast<std::int64_t>(static_cast<Integer>(value)) != value) {
    refuse(std::string(place.field->name) + ": " + std::to_string(value) + " given; allowed is " +
           (std::is_signed_v<Integer> ? "an integer of " : "one from 0 on, of ") +
           std::to_string(std::numeric_limits<Integer>::digits + (std::is_signed_v<Integer> ? 1 : 0)) + " bits");
  }
  put(place, static_cast<Integer>(value));
}

}  // namespace

const std::vector<Op>& ops() {
#define QUERN_OP(op)                                                          \
  {#op, sizeof(quern_##op##_args), by_address<quern_##op, quern_##op##_args>, \
   by_address<quern_##op##_prepare, quern_##op##_args>, size_by_address<quern_##op##_workspace, quern_##op##_args>, {
#define QUERN_FIELD(type, field, name, kind) {name, kind, offsetof(type, field), 0},
#define QUERN_LIST(type, field, name, kind, count) {name, kind, offsetof(type, field), offsetof(type, count)},
// The fields that follow are the part's.
#define QUERN_PART(type, field, part) {"", kPart, offsetof(type, field), sizeof(part)},
#define QUERN_END() \
  }                 \
  }                 \
  ,
  static const std::vector<Op> kOps = {
#include "ops.inc"
  };
#undef QUERN_OP
#undef QUERN_FIELD
#undef QUERN_LIST
#undef QUERN_PART
#undef QUERN_END
  return kOps;
}

const std::vector<Constant>& constants() {
#define QUERN_CONSTANT(name) {#name, static_cast<std::int64_t>(name)},
  static const std::vector<Constant> kConstants = {
#include "ops.inc"
  };
#undef QUERN_CONSTANT
  return kConstants;
}

quern_error blank() {
  quern_error error;
  error.size = sizeof error;
  error.native = 0;
  error.text[0] = '\0';
  return error;
}

void check(std::int32_t status, const quern_error& error) {
  if (status != QUERN_OK) throw Refused(status, error.text);
}

Arguments::Arguments(const Op& op) : op_(op) {
  const auto size = static_cast<std::uint32_t>(op.size);
  std::memcpy(memory_.data(), &size, sizeof size);
}

Arguments::Place Arguments::place(std::string_view name) {
  const Field* part = nullptr;
  for (const Field& field : op_.fields) {
    if (field.kind == kPart) part = &field;
    if (field.kind != kPart && name == field.name) return {&field, struct_of(part)};
  }
  std::string known;
  for (const Field& field : op_.fields) {
    if (field.kind != kPart) known += (known.empty() ? "" : ", ") + std::string(field.name);
  }
  refuse(std::string(op_.name) + " has no argument '" + std::string(name) + "'; there are " + known);
}

// The memory of the args struct, or of a part, which the args struct points to from its first use on.
std::byte* Arguments::struct_of(const Field* part) {
  if (part == nullptr) return memory_.data();
  std::byte* start = nullptr;
  std::memcpy(&start, memory_.data() + part->offset, sizeof start);
  if (start == nullptr) {
    auto& made = parts_.emplace_back(std::make_unique<std::vector<std::uint64_t>>(part->count / 8 + 1));
    start = reinterpret_cast<std::byte*>(made->data());
    const auto size = static_cast<std::uint32_t>(part->count);
    std::memcpy(start, &size, sizeof size);
    std::memcpy(memory_.data() + part->offset, &start, sizeof start);
  }
  return start;
}

void Arguments::tensor(const Place& place, const DLTensor* tensor) {
  want(place, place.field->kind == kTensor, "a tensor");
  put(place, tensor);
}

void Arguments::tensors(const Place& place, std::vector<const DLTensor*> tensors) {
  want(place, place.field->kind == kTensors, "a list of tensors");
  put(Place{place.field, place.memory + place.field->count - place.field->offset},
      static_cast<std::uint32_t>(tensors.size()));
  put(place, static_cast<const DLTensor* const*>(lists_.emplace_back(std::move(tensors)).data()));
}

void Arguments::floats(const Place& place, std::vector<float> values) {
  want(place, place.field->kind == kFloats, "a list of numbers");
  put(Place{place.field, place.memory + place.field->count - place.field->offset},
      static_cast<std::uint32_t>(values.size()));
  put(place, static_cast<const float*>(numbers_.emplace_back(std::move(values)).data()));
}

void Arguments::integer(const Place& place, std::int64_t value) {
  switch (place.field->kind) {
    case kInt32:
      return put_integer<std::int32_t>(place, value);
    case kUint32:
      return put_integer<std::uint32_t>(place, value);
    case kInt64:
      return put_integer<std::int64_t>(place, value);
    case kUint64:  // the bits of a negative one: callers have no wider integers
      return put(place, static_cast<std::uint64_t>(value));
    case kFloat:
    case kDouble:
      return number(place, static_cast<double>(value));
    default:
      want(place, false, "an integer");
  }
}

void Arguments::number(const Place& place, double value) {
  want(place, place.field->kind == kFloat || place.field->kind == kDouble, "a number with a fraction");
  if (place.field->kind == kFloat) return put(place, static_cast<float>(value));
  put(place, value);
}

void Arguments::expression(const Place& place, quern_context* context, const std::string& formula) {
  want(place, place.field->kind == kExpression, "a string");
  const quern_expression* made = nullptr;
  quern_error error = blank();
  check(quern_expression_create(context, formula.c_str(), &made, &error), error);
  put(place, made);
}

const DLTensor* Arguments::own(void* data, DLDevice device, DLDataType type, const std::int64_t* shape,
                               std::size_t dimensions) {
  Tensor& made = *owned_.emplace_back(std::make_unique<Tensor>());
  made.shape.assign(shape, shape + dimensions);
  made.tensor.data = data;
  made.tensor.device = device;
  made.tensor.ndim = static_cast<std::int32_t>(dimensions);
  made.tensor.dtype = type;
  made.tensor.shape = made.shape.data();
  return &made.tensor;
}

}  // namespace quern::described
