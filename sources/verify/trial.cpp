// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "jit/error.h"

namespace quern::ops::verify {
namespace {

DLDataType type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f16:
      return {kDLFloat, 16, 1};
    case Dtype::bf16:
      return {kDLBfloat, 16, 1};
    case Dtype::f32:
      return {kDLFloat, 32, 1};
    case Dtype::e4m3:
      return {kDLFloat8_e4m3fn, 8, 1};
    case Dtype::e5m2:
      return {kDLFloat8_e5m2, 8, 1};
    case Dtype::i8:
      return {kDLInt, 8, 1};
    case Dtype::u8:
      return {kDLUInt, 8, 1};
    case Dtype::i64:
      return {kDLInt, 64, 1};
    default:
      return {kDLInt, 32, 1};
  }
}

bool is_float(Dtype dtype) { return dtype == Dtype::f16 || dtype == Dtype::bf16 || dtype == Dtype::f32; }

// Half a unit in the last place of a number of the binade from 1 on, and so what rounding may cost, relatively.
double rounding_of(Dtype dtype) { return dtype == Dtype::bf16 ? 0x1p-8 : dtype == Dtype::f16 ? 0x1p-11 : 0x1p-24; }

// The distance between subnormal numbers, which is the least that rounding may cost.
double smallest_step_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f16:
      return 0x1p-24;
    case Dtype::bf16:
      return 0x1p-133;
    case Dtype::f32:
      return 0x1p-149;
    case Dtype::e4m3:
      return 0x1p-9;
    case Dtype::e5m2:
      return 0x1p-16;
    default:
      return 0;
  }
}

// A number with so many bits of mantissa and such a bias; infinities where the format has them.
double decode(std::uint32_t magnitude, int mantissa_bits, int bias) {
  const std::uint32_t exponent = magnitude >> mantissa_bits, mantissa = magnitude & ((1u << mantissa_bits) - 1);
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  if (exponent == 0) return std::ldexp(fraction, 1 - bias);
  return std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
}

double load(Dtype dtype, const unsigned char* at) {
  const auto as = [&]<class T>(T value) {
    std::memcpy(&value, at, sizeof(value));
    return value;
  };
  switch (dtype) {
    case Dtype::f32:
      return as(float{});
    case Dtype::bf16:
      return std::bit_cast<float>(std::uint32_t{as(std::uint16_t{})} << 16);
    case Dtype::f16: {
      const std::uint16_t bits = as(std::uint16_t{});
      const std::uint32_t magnitude = bits & 0x7fffu;
      double value = magnitude < 0x7c00u    ? decode(magnitude, 10, 15)
                     : magnitude == 0x7c00u ? std::numeric_limits<double>::infinity()
                                            : std::numeric_limits<double>::quiet_NaN();
      return (bits & 0x8000u) != 0 ? -value : value;
    }
    case Dtype::e4m3:
    case Dtype::e5m2: {
      const std::uint8_t bits = as(std::uint8_t{});
      const double value = dtype == Dtype::e4m3 ? decode(bits & 0x7fu, 3, 7) : decode(bits & 0x7fu, 2, 15);
      return (bits & 0x80u) != 0 ? -value : value;
    }
    case Dtype::i64:
      return static_cast<double>(as(std::int64_t{}));
    case Dtype::i8:
      return as(std::int8_t{});
    case Dtype::u8:
      return as(std::uint8_t{});
    default:
      return as(std::int32_t{});
  }
}

std::uint16_t to_f16(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  value = std::abs(value);
  if (!(value < 65520)) return sign | (std::isnan(value) ? 0x7fff : 0x7c00);
  int exponent = 0;
  if (value != 0) std::frexp(value, &exponent);
  exponent = std::max(exponent - 1, -14);
  const auto mantissa = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(value, 10 - exponent)));
  return static_cast<std::uint16_t>(sign + ((exponent + 14u) << 10) + mantissa);
}

std::uint16_t to_bf16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

}  // namespace

Field::Field(Dtype of, std::vector<std::int64_t> extents) : dtype(of), shape(std::move(extents)) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  bytes.assign(static_cast<std::size_t>(elements * bytes_of(dtype)), 0);
  tensor_.ndim = static_cast<std::int32_t>(shape.size());
  tensor_.dtype = type_of(dtype);
  tensor_.shape = shape.data();
}

double Field::get(std::int64_t i) const { return load(dtype, bytes.data() + i * bytes_of(dtype)); }

void Field::set(std::int64_t i, double value) {
  unsigned char* const at = bytes.data() + i * bytes_of(dtype);
  const auto put = [&](auto stored) { std::memcpy(at, &stored, sizeof(stored)); };
  switch (dtype) {
    case Dtype::f32:
      return put(static_cast<float>(value));
    case Dtype::f16:
      return put(to_f16(value));
    case Dtype::bf16:
      return put(to_bf16(value));
    case Dtype::i64:
      return put(static_cast<std::int64_t>(value));
    case Dtype::i32:
      return put(static_cast<std::int32_t>(value));
    default:
      throw Error(QUERN_INTERNAL, "a trial sets a number of 8 bits");
  }
}

Field& Trial::given(Dtype dtype, std::vector<std::int64_t> shape) {
  Field& field = *fields_.emplace_back(std::make_unique<Field>(dtype, std::move(shape)));
  std::normal_distribution<double> normal;
  for (std::int64_t i = 0; i < field.count(); ++i) {
    if (is_float(dtype)) {
      field.set(i, normal(random_));
    } else {
      // Up to 2, of either sign; an int8 up to 31.
      const std::uint64_t bits = random_();
      const auto small = static_cast<int>(bits >> 8 & (dtype == Dtype::i8 ? 0x1f : 0x3f));
      const bool negative = (bits & 1) != 0;
      field.bytes[static_cast<std::size_t>(i)] =
          static_cast<unsigned char>(dtype == Dtype::i8 ? (negative ? -small : small) : small | (negative ? 0x80 : 0));
    }
  }
  return field;
}

Field& Trial::integers(std::vector<std::int64_t> shape, const std::vector<std::int64_t>& values) {
  Field& field = *fields_.emplace_back(std::make_unique<Field>(Dtype::i32, std::move(shape)));
  for (std::size_t i = 0; i < values.size(); ++i)
    field.set(static_cast<std::int64_t>(i), static_cast<double>(values[i]));
  return field;
}

Field& Trial::result(Dtype dtype, std::vector<std::int64_t> shape, double slack) {
  Field& field = *fields_.emplace_back(std::make_unique<Field>(dtype, std::move(shape)));
  field.compared = true;
  field.slack = slack;
  std::fill(field.bytes.begin(), field.bytes.end(), static_cast<unsigned char>(0xff));
  return field;
}

std::vector<std::vector<unsigned char>> Trial::run(const Runtime& runtime, jit::Bench& bench) {
  const jit::DeviceInfo& device = runtime.driver->device();
  const DLDevice where{static_cast<decltype(DLDevice::device_type)>(device.device_type), device.device_id};
  std::vector<void*> memory;
  void* workspace = nullptr;
  const auto release = [&] {
    for (void* each : memory) bench.release(each);
    bench.release(workspace);
  };
  std::vector<std::vector<unsigned char>> results;
  try {
    bench.start();
    for (const auto& field : fields_) {
      memory.push_back(bench.allocate(std::max<std::size_t>(field->bytes.size(), 1)));
      bench.write(memory.back(), field->bytes.data(), field->bytes.size());
      field->place(memory.back(), where);
    }
    call_(runtime, bench, &workspace);
    bench.stop();
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (!fields_[i]->compared) continue;
      results.emplace_back(fields_[i]->bytes.size());
      bench.read(results.back().data(), memory[i], results.back().size());
    }
  } catch (...) {
    release();
    throw;
  }
  release();
  return results;
}

Trial::Verdict Trial::compare(const std::vector<std::vector<unsigned char>>& results,
                              const std::vector<std::vector<unsigned char>>& reference) const {
  Verdict verdict;
  std::size_t which = 0;
  for (const auto& field : fields_) {
    if (!field->compared) continue;
    const unsigned char *got = results[which].data(), *expected = reference[which].data();
    ++which;
    const std::int64_t count = field->count(), size = bytes_of(field->dtype);
    double squares = 0;
    std::int64_t finite = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = load(field->dtype, expected + i * size);
      if (std::isfinite(value)) squares += value * value, ++finite;
    }
    const double mean = finite != 0 ? std::sqrt(squares / static_cast<double>(finite)) : 0;
    const auto error_of = [&](double a, double b) {
      if (a == b || (std::isnan(a) && std::isnan(b))) return 0.0;
      if (!is_float(field->dtype) || !std::isfinite(a) || !std::isfinite(b))
        return std::numeric_limits<double>::infinity();
      return std::abs(a - b) / (2 * rounding_of(field->dtype) * std::max(std::abs(a), std::abs(b)) +
                                field->slack * mean + smallest_step_of(field->dtype) + 1e-30);
    };
    for (std::int64_t i = 0; i < count; ++i) {
      const double mine = load(field->dtype, got + i * size), other = load(field->dtype, expected + i * size);
      const double error = error_of(mine, other);
      if (error > verdict.error) {
        verdict.error = error;
        verdict.where = "element " + std::to_string(i) + " of a result is " + std::to_string(mine) + ", on host " +
                        std::to_string(other) + "; " + what;
      }
      if (field->truth.empty() || std::isnan(field->truth[static_cast<std::size_t>(i)])) continue;
      verdict.truth_error = std::max(verdict.truth_error, error_of(mine, field->truth[static_cast<std::size_t>(i)]));
    }
  }
  return verdict;
}

std::string Given::text(const char* name, const char* otherwise) const {
  for (const jit::Constant& constant : constants_)
    if (constant.name == name) return constant.value;
  return otherwise;
}

std::int64_t Given::integer(const char* name, std::int64_t otherwise) const {
  const std::string found = text(name);
  return found.empty() ? otherwise : std::strtoll(found.c_str(), nullptr, 10);
}

Dtype Given::dtype(const char* name, Dtype otherwise) const {
  const std::string found = text(name);
  for (const Dtype each :
       {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::e4m3, Dtype::e5m2, Dtype::i8, Dtype::u8, Dtype::i32, Dtype::i64}) {
    if (found == name_of(each)) return each;
  }
  return otherwise;
}

const OpTrials* trials_of(std::string_view op) {
  for (const OpTrials* each :
       {&kMergeState, &kRmsnorm, &kSoftmax, &kArgmax, &kGather, &kMoeCombine, &kRope, &kGemm, &kAttention}) {
    if (op == each->op) return each;
  }
  return nullptr;
}

}  // namespace quern::ops::verify
