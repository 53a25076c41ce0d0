// The epilogue of a product among the constants of its kernel: of every op that ends in one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "sources/description.h"
#include "sources/gemm/plan/shape.h"

namespace quern::ops::gemm {

// What results and operands of epilogues are stored as.
inline constexpr Names<Dtype, 5> kStored = {
    {{"f16", Dtype::f16}, {"bf16", Dtype::bf16}, {"f32", Dtype::f32}, {"e4m3", Dtype::e4m3}, {"e5m2", Dtype::e5m2}}};

// The formula of the epilogue: its interned number in a Spec, its text in a manifest line. Without one results are
// stored as they are, or gated.
struct EpilogueConstant {
  static constexpr int kBits = 32;
  const char* name = "epilogue";
  const char* macro = nullptr;

  constexpr bool is_in(const Shape&) const { return true; }
  static std::uint32_t bits_of(const Shape& shape) { return shape.epilogue->number; }
  static void set(Shape& shape, std::uint32_t bits) { shape.epilogue = &expression::interned(bits); }
  std::string text(const Shape& shape) const { return shape.epilogue->text; }
  void read(ConstantReader& reader, Shape& shape) const {
    shape.epilogue = &expression::intern(reader.text(name, shape.gate ? "silu(gate)*up" : "acc"));
  }
};

// The dtype of one of the epilogue's operands, where it has this one.
template <std::size_t number>
struct OperandConstant {
  static constexpr int kBits = 8;
  static constexpr const char* kNames[] = {"operand0", "operand1", "operand2", "operand3",
                                           "operand4", "operand5", "operand6", "operand7"};
  static_assert(std::size(kNames) == expression::kOperands);
  const char* name = kNames[number];
  const char* macro = nullptr;

  static bool is_in(const Shape& shape) { return shape.epilogue->operands[number] != expression::OperandKind::unused; }
  static std::uint32_t bits_of(const Shape& shape) { return static_cast<std::uint32_t>(shape.operands[number]); }
  static void set(Shape& shape, std::uint32_t bits) { shape.operands[number] = static_cast<Dtype>(bits); }
  std::string text(const Shape& shape) const { return name_of(shape.operands[number]); }
  void read(ConstantReader& reader, Shape& shape) const {
    std::array<const char*, kStored.size()> allowed;
    for (std::size_t i = 0; i < allowed.size(); ++i) allowed[i] = kStored[i].name;
    constexpr std::size_t kF32 = 2;
    shape.operands[number] = kStored[reader.one_of(name, std::span<const char* const>(allowed), kF32)].value;
  }
};

// Refuses an epilogue that cannot be stored so. Throws Error(QUERN_INVALID) naming the constant.
void check_epilogue(const Shape& shape, const std::string& op);
// The macros of sources/gemm/kernels/shared/epilogue.cuh.
void define_epilogue(const Shape& shape, jit::Unit* unit);

}  // namespace quern::ops::gemm
