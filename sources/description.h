// An op's compile-time constants, described once: what a Spec packs, what a manifest line says and how it is read back,
// and the macros that a kernel is compiled with all follow from the one description.
//
//   struct Shape { Dtype x = Dtype::bf16; int access = 16; bool tail = false; };
//   constexpr auto kConstants = describe<Shape>(tag_scale, "scale",
//       choice<&Shape::x>("dtype", "ELEMENT", kFloatDtypes),
//       number<&Shape::access>("access", "ACCESS", {4, 16, 4}).optional(),
//       flag<&Shape::tail>("tail", "TAIL").optional());
//
//   kConstants.to_spec(shape, target)    the Spec: a few shifts, since every hot call makes one
//   kConstants.to_shape(spec)            its inverse
//   kConstants.to_constants(shape)       as in a manifest line
//   kConstants.read(constants)           its inverse. Throws Error(QUERN_INVALID) naming the constant, what was given
//                                        and what is allowed. What is optional is as Shape{} has it where it is missing
//   kConstants.define(shape, &unit)      the macros of those that have one
//
// A constant with a condition, when(&applies), is there only where the ones before it make it apply; elsewhere it
// stands in the Spec as zero.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "sources/constants.h"
#include "sources/op.h"
#include "sources/tensor.h"

namespace quern::ops {

template <class T>
struct Named {
  const char* name;
  T value;
};
template <class T, std::size_t count>
using Names = std::array<Named<T>, count>;

inline constexpr Names<Dtype, 3> kFloatDtypes = {{{"f16", Dtype::f16}, {"bf16", Dtype::bf16}, {"f32", Dtype::f32}}};
inline constexpr Names<Dtype, 2> kFp8Dtypes = {{{"e4m3", Dtype::e4m3}, {"e5m2", Dtype::e5m2}}};

namespace description {

template <class Shape, class T>
Shape shape_of(T Shape::*);
template <class Shape, class T>
T type_of(T Shape::*);

// What every kind of constant has: its name, its macro (null: the op defines it itself), whether it may be missing,
// and when it applies.
template <auto member, class Kind>
struct Constant {
  using Shape = decltype(shape_of(member));
  using Value = decltype(type_of(member));

  const char* name;
  const char* macro;
  bool may_be_missing = false;
  bool (*applies)(const Shape&) = nullptr;

  constexpr Kind optional() const {
    Kind changed = static_cast<const Kind&>(*this);
    changed.may_be_missing = true;
    return changed;
  }
  constexpr Kind when(bool (*condition)(const Shape&)) const {
    Kind changed = static_cast<const Kind&>(*this);
    changed.applies = condition;
    return changed;
  }
  constexpr bool is_in(const Shape& shape) const { return applies == nullptr || applies(shape); }
  static constexpr std::uint32_t bits_of(const Shape& shape) { return static_cast<std::uint32_t>(shape.*member); }
  static constexpr void set(Shape& shape, std::uint32_t bits) { shape.*member = static_cast<Value>(bits); }
};

template <auto member, std::size_t count>
struct Choice : Constant<member, Choice<member, count>> {
  using Base = Constant<member, Choice<member, count>>;
  static constexpr int kBits = std::is_enum_v<typename Base::Value> ? 8 : 16;
  Names<typename Base::Value, count> names;

  std::string text(const typename Base::Shape& shape) const {
    for (const auto& each : names) {
      if (each.value == shape.*member) return each.name;
    }
    return "?";
  }
  void read(ConstantReader& reader, typename Base::Shape& shape) const {
    std::array<const char*, count> allowed;
    for (std::size_t i = 0; i < count; ++i) allowed[i] = names[i].name;
    const std::size_t found = reader.one_of(this->name, std::span<const char* const>(allowed),
                                            this->may_be_missing ? std::optional(count) : std::nullopt);
    if (found != count) shape.*member = names[found].value;
  }
};

struct Range {
  std::int64_t least, most, step = 1;
};

template <auto member>
struct Number : Constant<member, Number<member>> {
  using Base = Constant<member, Number<member>>;
  static constexpr int kBits = 32;
  Range range;

  std::string text(const typename Base::Shape& shape) const { return std::to_string(shape.*member); }
  void read(ConstantReader& reader, typename Base::Shape& shape) const {
    const std::int64_t initial = static_cast<std::int64_t>(shape.*member);
    shape.*member = static_cast<typename Base::Value>(reader.integer(
        this->name, range.least, range.most, range.step, this->may_be_missing ? std::optional(initial) : std::nullopt));
  }
};

template <auto member>
struct Flag : Constant<member, Flag<member>> {
  using Base = Constant<member, Flag<member>>;
  static constexpr int kBits = 8;

  std::string text(const typename Base::Shape& shape) const { return shape.*member ? "1" : "0"; }
  void read(ConstantReader& reader, typename Base::Shape& shape) const {
    const std::int64_t initial = shape.*member;
    shape.*member =
        reader.integer(this->name, 0, 1, 1, this->may_be_missing ? std::optional(initial) : std::nullopt) != 0;
  }
};

// Where each constant lies in Spec::words: none is in two words.
struct Place {
  std::uint32_t word, shift;
};
template <std::size_t count>
constexpr std::array<Place, count> places(const std::array<int, count>& bits) {
  std::array<Place, count> all{};
  std::uint32_t word = 0, used = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto wanted = static_cast<std::uint32_t>(bits[i]);
    if (used + wanted > 32) ++word, used = 0;
    all[i] = {word, used};
    used += wanted;
  }
  return all;
}

}  // namespace description

template <auto member, std::size_t count>
constexpr auto choice(const char* name, const char* macro,
                      const Names<decltype(description::type_of(member)), count>& names) {
  return description::Choice<member, count>{{name, macro}, names};
}
template <auto member>
constexpr auto number(const char* name, const char* macro, description::Range range) {
  return description::Number<member>{{name, macro}, range};
}
template <auto member>
constexpr auto flag(const char* name, const char* macro) {
  return description::Flag<member>{{name, macro}};
}

template <class Shape, class... Constant>
class Description {
 public:
  constexpr Description(Tag op, const char* name, const Constant&... constants)
      : op_(op), name_(name), constants_(constants...) {}

  jit::Spec to_spec(const Shape& shape, jit::Target target) const {
    jit::Spec spec;
    spec.op = op_;
    spec.target = target.tag();
    each([&](const auto& constant, description::Place place) {
      if (constant.is_in(shape)) spec.words[place.word] |= constant.bits_of(shape) << place.shift;
    });
    return spec;
  }
  Shape to_shape(const jit::Spec& spec) const {
    Shape shape{};
    each([&](const auto& constant, description::Place place) {
      constexpr int kBits = std::decay_t<decltype(constant)>::kBits;
      const std::uint32_t bits = spec.words[place.word] >> place.shift;
      if (constant.is_in(shape)) constant.set(shape, kBits == 32 ? bits : bits & ((1u << kBits % 32) - 1));
    });
    return shape;
  }
  Constants to_constants(const Shape& shape) const {
    Constants all;
    each([&](const auto& constant, description::Place) {
      if (constant.is_in(shape)) all.push_back({constant.name, constant.text(shape)});
    });
    return all;
  }
  // What is missing is as in `shape`.
  Shape read(const Constants& given, Shape shape = {}) const {
    ConstantReader reader(name_, given);
    each([&](const auto& constant, description::Place) {
      if (constant.is_in(shape)) constant.read(reader, shape);
    });
    reader.finish();
    return shape;
  }
  void define(const Shape& shape, jit::Unit* unit) const {
    each([&](const auto& constant, description::Place) {
      if (constant.macro != nullptr && constant.is_in(shape))
        unit->constants.push_back({constant.macro, constant.text(shape)});
    });
  }

 private:
  static constexpr auto kPlaces = description::places<sizeof...(Constant)>({Constant::kBits...});
  static_assert(kPlaces.back().word < std::tuple_size_v<decltype(jit::Spec::words)>);

  template <class Visit>
  void each(const Visit& visit) const {
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      (visit(std::get<i>(constants_), kPlaces[i]), ...);
    }(std::make_index_sequence<sizeof...(Constant)>());
  }

  Tag op_;
  const char* name_;
  std::tuple<Constant...> constants_;
};

template <class Shape, class... Constant>
constexpr auto describe(Tag op, const char* name, const Constant&... constants) {
  return Description<Shape, Constant...>(op, name, constants...);
}

}  // namespace quern::ops
