// Every op of quern.h: its arguments by name, and its calls. Made of the list that the Node binding is made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quern.h"

namespace quern::cli {

enum class FieldKind : std::uint8_t {
  kTensor,
  kTensors,  // with a count beside it
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat,
  kDouble,
  kFloats,  // with a count beside it
  kExpression
};

struct OpField {
  std::string name;
  FieldKind kind;
  std::size_t offset;
  std::size_t count_offset;  // of lists
  int part;                  // which struct of the op's parts it lies in; -1: the args themselves
};

// A struct that the args point to: quern_epilogue, quern_rope_options.
struct OpPart {
  std::size_t pointer_offset;  // in the args
  std::size_t size;
};

struct OpTable {
  std::string name;
  std::size_t args_size;
  std::vector<OpField> fields;
  std::vector<OpPart> parts;
  std::int32_t (*workspace)(quern_context*, const void* args, std::uint64_t* bytes, quern_error*);
  std::int32_t (*run)(quern_context*, const void* args, quern_error*);

  const OpField* find(std::string_view field) const;
};

const std::vector<OpTable>& all_ops();
// Throws Failure(QUERN_INVALID) naming what there is.
const OpTable& op_named(std::string_view name);

}  // namespace quern::cli
