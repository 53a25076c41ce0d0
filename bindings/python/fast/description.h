// What the package tells of an op's args struct, as made of quern.h: where each argument goes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bindings/python/fast/limited.h"

namespace quern::python {

inline constexpr std::size_t kMaxParts = 4, kPartBytes = 1024;

// The package's compiled.py knows these numbers.
enum class Field : long {
  kFlag = 0,     // True or False: `bit`
  kTensor = 1,   // const DLTensor *
  kTensors = 2,  // const DLTensor *const *, with a count
  kInt32 = 3,
  kUint32 = 4,
  kInt64 = 5,
  kUint64 = 6,
  kFloat = 7,
  kDouble = 8,
  kFloats = 9,      // const float *, with a count
  kExpression = 10  // const quern_expression *
};

struct Argument {
  Owned name;  // interned
  Field field = Field::kFlag;
  std::size_t part = 0;    // 0: the args struct; else one that it points to
  std::size_t offset = 0;  // in its struct
  std::size_t count_offset = 0;
  std::uint32_t bit = 0;  // a flag's; of another field the one that says that it is set, or 0
  Owned enumerators;      // a dict from names to numbers, or empty
};

struct Part {
  std::uint32_t size = 0;
  std::size_t pointer = 0;  // where the args struct points to it; unused for itself
};

class Description {
 public:
  // From (parts, arguments): [(size, offset of the pointer)], [(name, field, part, offset, count_offset, bit,
  // enumerators or None)]. False with an exception.
  bool read(PyObject* told);

  [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }
  // NULL where there is none of this name.
  [[nodiscard]] const Argument* find(PyObject* name) const;

 private:
  static constexpr std::size_t kSlots = 256;
  static std::size_t slot_of(const PyObject* name) {
    const auto address = reinterpret_cast<std::uintptr_t>(name);
    return (address >> 4 ^ address >> 12) % kSlots;
  }

  std::vector<Part> parts_;
  std::vector<Argument> arguments_;
  std::array<std::uint8_t, kSlots> slots_ = {};  // index + 1 of an argument by its name's address; 0: none
};

}  // namespace quern::python
