// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "jit/error.h"
#include "jit/lazy.h"

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
    case Dtype::i16:
      return {kDLInt, 16, 1};
    case Dtype::boolean:
      return {kDLBool, 8, 1};
    case Dtype::u8:
      return {kDLUInt, 8, 1};
    case Dtype::i64:
      return {kDLInt, 64, 1};
    default:
      return {kDLInt, 32, 1};
  }
}

bool is_code(Dtype dtype) { return dtype == Dtype::e4m3 || dtype == Dtype::e5m2; }
bool is_float(Dtype dtype) { return dtype == Dtype::f16 || dtype == Dtype::bf16 || dtype == Dtype::f32; }

// Half a unit in the last place of a number of the binade from 1 on, and so what rounding may cost, relatively.
double rounding_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16:
      return 0x1p-8;
    case Dtype::f16:
      return 0x1p-11;
    case Dtype::f32:
      return 0x1p-24;
    case Dtype::e4m3:
      return 0x1p-4;
    case Dtype::e5m2:
      return 0x1p-3;
    default:
      return 0;
  }
}

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

// A number with so many bits of mantissa and such a bias; infinities where the format has them. By its bits: results
// are read by the million.
double decode(std::uint32_t magnitude, int mantissa_bits, int bias) {
  const std::uint64_t exponent = magnitude >> mantissa_bits, mantissa = magnitude & ((1u << mantissa_bits) - 1);
  const auto power = [](int of) { return static_cast<std::uint64_t>(of + 1023) << 52; };
  if (exponent == 0) return static_cast<double>(mantissa) * std::bit_cast<double>(power(1 - bias - mantissa_bits));
  return std::bit_cast<double>(power(static_cast<int>(exponent) - bias) | mantissa << (52 - mantissa_bits));
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
      double value = dtype == Dtype::e4m3 ? decode(bits & 0x7fu, 3, 7) : decode(bits & 0x7fu, 2, 15);
      if ((bits & 0x7fu) > (dtype == Dtype::e4m3 ? 0x7eu : 0x7cu)) value = kUnknown;
      if (dtype == Dtype::e5m2 && (bits & 0x7fu) == 0x7cu) value = std::numeric_limits<double>::infinity();
      return (bits & 0x80u) != 0 ? -value : value;
    }
    case Dtype::i64:
      return static_cast<double>(as(std::int64_t{}));
    case Dtype::i8:
      return as(std::int8_t{});
    case Dtype::u8:
      return as(std::uint8_t{});
    case Dtype::boolean:
      return as(std::uint8_t{}) != 0;
    case Dtype::i16:
      return as(std::int16_t{});
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

// The nearest code, of two as near the one whose last bit is 0; magnitudes beyond the largest become that.
std::uint8_t to_code(Dtype dtype, double value) {
  const unsigned char sign = std::signbit(value) ? 0x80 : 0;
  const unsigned char largest = dtype == Dtype::e4m3 ? 0x7e : 0x7b;
  value = std::abs(value);
  if (std::isnan(value)) return sign | 0x7f;
  unsigned char below = 0;  // the largest code that is not above it
  for (unsigned char bit = 0x40; bit != 0; bit >>= 1) {
    const unsigned char tried = below | bit;
    if (tried <= largest && load(dtype, &tried) <= value) below = tried;
  }
  if (below == largest) return sign | below;
  const auto above = static_cast<unsigned char>(below + 1);
  const double down = value - load(dtype, &below), up = load(dtype, &above) - value;
  return sign | (up < down || (up == down && (below & 1) != 0) ? above : below);
}

// Numbers as of a normal distribution, of which there are 2^24: the sum of two that were drawn once and for all. Its
// own draws take several times as long, and trials want millions.
class Normal {
 public:
  double operator()(Random& random) {
    if (left_ == 0) bits_ = random(), left_ = 2;
    const auto& drawn = kept->numbers;
    const double sum = drawn[bits_ & kMask] + drawn[bits_ >> kBits & kMask];
    bits_ >>= 2 * kBits, --left_;
    return sum;
  }

 private:
  static constexpr int kBits = 12;
  static constexpr std::uint64_t kMask = (1u << kBits) - 1;
  struct Drawn {
    Drawn() {
      Random random(1);
      std::normal_distribution<double> normal(0, std::sqrt(0.5));
      for (double& each : numbers) each = normal(random);
    }
    std::array<double, kMask + 1> numbers;
  };
  static jit::Lazy<Drawn> kept;
  std::uint64_t bits_ = 0;
  int left_ = 0;
};
jit::Lazy<Normal::Drawn> Normal::kept;

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
    case Dtype::i16:
      return put(static_cast<std::int16_t>(value));
    case Dtype::i8:
      return put(static_cast<std::int8_t>(value));
    case Dtype::u8:
      return put(static_cast<std::uint8_t>(value));
    case Dtype::boolean:
      return put(static_cast<std::uint8_t>(value != 0));
    default:
      return put(to_code(dtype, value));
  }
}

Field& Field::view(std::vector<std::int64_t> extents, std::vector<std::int64_t> steps) {
  shape = std::move(extents), strides = std::move(steps);
  tensor_.ndim = static_cast<std::int32_t>(shape.size());
  tensor_.shape = shape.data(), tensor_.strides = strides.data();
  return *this;
}

Field& Field::updated(double may_err) {
  compared = true, slack = may_err;
  return *this;
}

Field& Field::rounded(double steps) {
  step = steps;
  return *this;
}

Field& Trial::given(Dtype dtype, std::vector<std::int64_t> shape) {
  Field& field = *fields_.emplace_back(std::make_unique<Field>(dtype, std::move(shape)));
  Normal normal;
  for (std::int64_t i = 0; i < field.count(); ++i) {
    if (is_float(dtype)) {
      field.set(i, normal(random_));
    } else if (is_code(dtype)) {
      // Up to 2 (e5m2: 1), of either sign.
      const std::uint64_t bits = random_();
      field.bytes[static_cast<std::size_t>(i)] =
          static_cast<unsigned char>((bits >> 8 & 0x3f) | ((bits & 1) != 0 ? 0x80 : 0));
    } else if (dtype == Dtype::boolean) {
      field.set(i, static_cast<double>(random_() & 1));
    } else {
      field.set(i, static_cast<double>(below(63)) - (dtype == Dtype::u8 ? 0 : 31));
    }
  }
  return field;
}

Field& Trial::uniform(Dtype dtype, std::vector<std::int64_t> shape, double low, double high) {
  Field& field = *fields_.emplace_back(std::make_unique<Field>(dtype, std::move(shape)));
  std::uniform_real_distribution<double> numbers(low, high);
  for (std::int64_t i = 0; i < field.count(); ++i) field.set(i, numbers(random_));
  return field;
}

Field& Trial::integers(std::vector<std::int64_t> shape, const std::vector<std::int64_t>& values, Dtype dtype) {
  Field& field = *fields_.emplace_back(std::make_unique<Field>(dtype, std::move(shape)));
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
                              const std::vector<std::vector<unsigned char>>& reference) {
  Verdict verdict;
  if (later_) later_();
  later_ = nullptr;
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
      const bool exact = !is_float(field->dtype) && !is_code(field->dtype) && field->step == 0;
      if (exact || !std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
      return std::abs(a - b) / (2 * rounding_of(field->dtype) * std::max(std::abs(a), std::abs(b)) +
                                field->slack * mean + field->step + smallest_step_of(field->dtype) + 1e-30);
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
  for (const Dtype each : {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::e4m3, Dtype::e5m2, Dtype::i8, Dtype::u8,
                           Dtype::i16, Dtype::i32, Dtype::i64, Dtype::boolean}) {
    if (found == name_of(each)) return each;
  }
  return otherwise;
}

const OpTrials* trials_of(std::string_view op) {
#define QUERN_OP(name, ...) \
  if (op == #name) return &ops::name::trials;
#include "sources/ops.def"
#undef QUERN_OP
  return nullptr;
}

}  // namespace quern::ops::verify
