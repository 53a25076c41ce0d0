// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/gemm_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>

namespace quern::test {
namespace {

constexpr unsigned char kPoison = 0xff;  // NaN in every element type
constexpr std::uint64_t kCounterBytes = 256 * 1024;

// Normal numbers 2^exponent large in an element's memory format, drawn once: inputs are drawn from it.
class Numbers {
 public:
  static constexpr std::size_t kCount = 65536;

  Numbers(Element element, int exponent, bool short_numbers) : bytes_(kCount * element.bytes()) {
    Random random("numbers of a product");
    const Element digits = short_numbers ? Element(Element::bf16) : element;
    for (std::size_t i = 0; i < kCount; ++i) {
      element.store(&bytes_[i * element.bytes()], digits.rounded(std::ldexp(random.normal(), exponent)));
    }
  }
  const unsigned char* operator[](std::size_t i) const { return &bytes_[i * (bytes_.size() / kCount)]; }

  static const Numbers& of(Element element, int exponent, bool short_numbers) {
    static std::map<std::array<int, 3>, std::unique_ptr<const Numbers>> known;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    std::unique_ptr<const Numbers>& numbers = known[{int{element.kind()}, exponent, short_numbers}];
    if (numbers == nullptr) numbers = std::make_unique<const Numbers>(element, exponent, short_numbers);
    return *numbers;
  }

 private:
  std::vector<unsigned char> bytes_;
};

// Streams of numbers, of which each row has one for each tensor.
constexpr std::uint64_t kStreams = 32;
enum Stream : std::uint64_t { of_a, of_b, of_scale_a, of_scale_b, of_bias, of_c, of_operands };

}  // namespace

GemmProblem::GemmProblem(const GemmCase& c, Random random) : case_(c), tensors_(case_) {
  GemmTensors& t = tensors_;
  for (GemmTensor* tensor : {&t.a, &t.b, &t.out, &t.scale_a, &t.scale_b, &t.bias, &t.c, &t.out_scale})
    allocate(*tensor);
  for (GemmTensor& operand : t.operands) allocate(operand);
  const auto ints = [](std::int64_t count) { return Buffer(static_cast<std::size_t>(count) * 4); };
  offsets_buffer_ = ints(case_.experts() + 1);
  counts_buffer_ = ints(case_.experts());
  indices_buffer_ = ints(case_.m);
  status_buffer_ = ints(1);
  place();
  fill(random);
}

void GemmProblem::allocate(GemmTensor& tensor) {
  if (!tensor.used()) return;
  Memory& memory = memory_[&tensor];
  memory.mirror.assign(static_cast<std::size_t>(tensor.elements) * tensor.element.bytes(), kPoison);
  const bool elsewhere = &tensor == &tensors_.c && case_.c_is_out;
  if (!elsewhere) memory.buffer = Buffer(memory.mirror.size(), kPoison);
}

void GemmProblem::place() {
  for (auto& [tensor, memory] : memory_) {
    const bool elsewhere = tensor == &tensors_.c && case_.c_is_out;
    auto* box = const_cast<TensorBox*>(&tensor->box);
    box->place(elsewhere ? memory_.at(&tensors_.out).buffer.data() : memory.buffer.data(),
               tensor->box.tensor.byte_offset);
  }
  tensors_.offsets.place(offsets_buffer_.data());
  tensors_.counts.place(counts_buffer_.data());
  tensors_.indices.place(indices_buffer_.data());
  tensors_.status.place(status_buffer_.data());
}

std::uint64_t GemmProblem::number_of(std::int64_t group, std::int64_t row) const {
  const auto i = static_cast<std::size_t>(group * case_.rows_of_a() + row);
  return case_.numbers.empty() ? i : static_cast<std::uint64_t>(case_.numbers[i]);
}

void GemmProblem::fill_line(const GemmTensor& tensor, std::int64_t group, std::int64_t row, std::uint64_t seed,
                            int exponent) {
  const Numbers& numbers = Numbers::of(tensor.element, exponent, case_.short_numbers);
  const std::size_t bytes = tensor.element.bytes();
  unsigned char* mirror = memory_.at(&tensor).mirror.data();
  Random random(seed);
  std::uint64_t drawn = 0;
  for (std::int64_t c = 0; c < tensor.columns; ++c, drawn >>= 16) {
    if (c % 4 == 0) drawn = random.next();
    std::memcpy(mirror + tensor.at(group, row, c) * bytes, numbers[drawn & 0xffff], bytes);
  }
}

void GemmProblem::fill(Random random) {
  const std::uint64_t seed = random.next();
  GemmTensors& t = tensors_;
  for (std::int64_t g = 0; g < t.a.groups; ++g) {
    for (std::int64_t r = 0; r < t.a.rows; ++r) fill_line(t.a, g, r, seed + kStreams * number_of(g, r) + of_a);
  }
  // Results are about as large as one, whatever k.
  const int exponent =
      case_.is_fp8() ? 0 : -static_cast<int>(std::lround(std::log2(case_.k) / 2.0 - std::log2(case_.gain)));
  const std::int64_t weights = case_.shared_b ? 1 : t.b.groups;
  for (std::int64_t g = 0; g < weights; ++g) {
    for (std::int64_t r = 0; r < t.b.rows; ++r)
      fill_line(t.b, g, r, seed + kStreams * static_cast<std::uint64_t>(g * t.b.rows + r) + of_b, exponent);
  }
  if (case_.is_fp8()) fill_scales(seed);
  fill_epilogue(seed);
  indices_.resize(static_cast<std::size_t>(case_.m));
  for (std::int32_t& index : indices_)
    index = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(std::max(t.a.rows, std::int64_t{1}))));
  finite_ = true;
  upload();
  if (case_.grouped()) set_counts(case_.counts);
  poison_outputs();
}

void GemmProblem::fill_scales(std::uint64_t seed) {
  const auto fill = [&](const GemmTensor& tensor, Stream stream, double about, auto number) {
    unsigned char* mirror = memory_.at(&tensor).mirror.data();
    for (std::int64_t g = 0; g < (tensor.group == 0 ? 1 : tensor.groups); ++g) {
      for (std::int64_t r = 0; r < tensor.rows; ++r) {
        Random random(seed + kStreams * number(g, r) + stream);
        for (std::int64_t c = 0; c < tensor.columns; ++c)
          tensor.element.store(mirror + tensor.at(g, r, c) * 4, about * std::exp2(2.0 * random.uniform() - 1.0));
      }
    }
  };
  const GemmTensor &a = tensors_.scale_a, &b = tensors_.scale_b;
  fill(a, of_scale_a, 1.0,
       [&](std::int64_t g, std::int64_t r) { return case_.scale_a == Scaling::tensor ? 0 : number_of(g, r); });
  fill(b, of_scale_b, case_.gain / std::sqrt(case_.k),
       [&](std::int64_t g, std::int64_t r) { return static_cast<std::uint64_t>(g * b.rows + r); });
}

void GemmProblem::fill_epilogue(std::uint64_t seed) {
  const auto fill = [&](const GemmTensor& tensor, std::uint64_t stream) {
    if (!tensor.used()) return;
    for (std::int64_t g = 0; g < (tensor.group == 0 ? 1 : tensor.groups); ++g) {
      // A vector over columns has one line.
      const bool by_row = tensor.row != 0 || tensor.rows == 0;
      for (std::int64_t r = 0; r < (by_row ? tensor.rows : 1); ++r) {
        const std::uint64_t number = !by_row || case_.product == Product::contiguous
                                         ? static_cast<std::uint64_t>(g * tensor.rows + r)
                                         : number_of(g, r);
        fill_line(tensor, g, r, seed + kStreams * number + stream);
      }
    }
  };
  fill(tensors_.bias, of_bias);
  fill(tensors_.c, of_c);
  for (std::size_t i = 0; i < tensors_.operands.size(); ++i) fill(tensors_.operands[i], of_operands + i);
}

void GemmProblem::upload() {
  for (auto& [tensor, memory] : memory_) {
    const bool written = tensor == &tensors_.out || tensor == &tensors_.out_scale;
    const bool elsewhere = tensor == &tensors_.c && case_.c_is_out;
    if (!written && !elsewhere) memory.buffer.write(memory.mirror);
  }
  indices_buffer_.write(indices_);
}

void GemmProblem::set_counts(const std::vector<int>& counts) {
  counts_.assign(counts.begin(), counts.end());
  counts_buffer_.write(counts_);
  std::vector<std::int32_t> offsets(1, case_.first_offset);
  for (const int count : counts) offsets.push_back(offsets.back() + count);
  set_offsets(offsets);
}
void GemmProblem::set_offsets(const std::vector<std::int32_t>& offsets) {
  offsets_ = offsets;
  offsets_buffer_.write(offsets_);
}
void GemmProblem::set_indices(const std::vector<std::int32_t>& indices) {
  indices_ = indices;
  indices_buffer_.write(indices_);
}

void GemmProblem::put(const GemmTensor& tensor, std::int64_t group, std::int64_t row, std::int64_t column,
                      double value) {
  unsigned char memory[4] = {};
  tensor.element.store(memory, value);
  put_bytes(tensor, group, row, column, memory);
}
void GemmProblem::put_code(const GemmTensor& tensor, std::int64_t group, std::int64_t row, std::int64_t column,
                           unsigned code) {
  const unsigned char memory[4] = {static_cast<unsigned char>(code)};
  put_bytes(tensor, group, row, column, memory);
}
void GemmProblem::put_bytes(const GemmTensor& tensor, std::int64_t group, std::int64_t row, std::int64_t column,
                            const unsigned char* bytes) {
  Memory& memory = memory_.at(&tensor);
  const std::size_t size = tensor.element.bytes(), at = tensor.at(group, row, column) * size;
  std::memcpy(&memory.mirror[at], bytes, size);
  finite_ &= std::isfinite(tensor.element.load(bytes));
  memory.buffer.write(bytes, size, at);
}

void GemmProblem::poison_outputs() {
  Memory& out = memory_.at(&tensors_.out);
  out.buffer.fill(kPoison);
  if (case_.c_is_out) out.buffer.write(memory_of(tensors_.c).mirror);
  if (tensors_.out_scale.used()) memory_.at(&tensors_.out_scale).buffer.fill(kPoison);
  status_buffer_.fill(0);
}

void GemmProblem::make_workspace(quern_context* context) {
  auto error = sized<quern_error>();
  ASSERT_EQ(tensors_.workspace_of(context, &workspace_bytes_, &error), QUERN_OK) << error.text;
  // As it is after a call: the counters zero, whatever else behind them.
  workspace_ = Buffer(workspace_bytes_, kPoison);
  workspace_.write(std::vector<char>(std::min(workspace_bytes_, kCounterBytes)));
  tensors_.with_args([&](auto& args) {
    args.workspace = workspace_.data();
    args.workspace_size = workspace_bytes_;
  });
}

void GemmProblem::call(quern_context* context, void* stream) {
  auto error = sized<quern_error>();
  tensors_.with_args([&](auto& args) { args.stream = stream; });
  ASSERT_EQ(tensors_.run(context, &error), QUERN_OK) << error.text;
}

void GemmProblem::run(quern_context* context) {
  ASSERT_NO_FATAL_FAILURE(make_workspace(context));
  ASSERT_NO_FATAL_FAILURE(call(context));
  expect_counters_zero();
}

void GemmProblem::expect_counters_zero() const {
  std::vector<std::uint32_t> counters(std::min<std::size_t>(workspace_.size(), kCounterBytes) / 4);
  workspace_.read(counters.data(), counters.size() * 4);
  EXPECT_EQ(std::count(counters.begin(), counters.end(), 0u), static_cast<std::ptrdiff_t>(counters.size()))
      << "counters are left behind in the workspace";
}

GemmOutput GemmProblem::output() const {
  GemmOutput output;
  output.out = memory_of(tensors_.out).buffer.read();
  if (tensors_.out_scale.used()) output.out_scale = memory_of(tensors_.out_scale).buffer.read();
  return output;
}

std::vector<unsigned char> GemmProblem::bits_of(const GemmOutput& output, std::int64_t group, std::int64_t row) const {
  std::vector<unsigned char> bits;
  const auto take = [&](const GemmTensor& tensor, const std::vector<unsigned char>& from) {
    const std::size_t bytes = tensor.element.bytes();
    for (std::int64_t c = 0; c < tensor.columns && tensor.used(); ++c) {
      const auto at = from.begin() + static_cast<std::ptrdiff_t>(tensor.at(group, row, c) * bytes);
      bits.insert(bits.end(), at, at + static_cast<std::ptrdiff_t>(bytes));
    }
  };
  take(tensors_.out, output.out);
  take(tensors_.out_scale, output.out_scale);
  return bits;
}

std::int32_t GemmProblem::status() const {
  std::int32_t status = 0;
  status_buffer_.read(&status, 4);
  return status;
}

double GemmProblem::value(const GemmTensor& tensor, std::int64_t group, std::int64_t row, std::int64_t column) const {
  return tensor.element.load(&memory_of(tensor).mirror[tensor.at(group, row, column) * tensor.element.bytes()]);
}

void GemmProblem::line(const GemmTensor& tensor, std::int64_t group, std::int64_t row, std::vector<float>* to) const {
  const Element element = tensor.element;
  const std::size_t bytes = element.bytes();
  const unsigned char* mirror = memory_of(tensor).mirror.data();
  // Every code of the 8-bit kinds, once.
  float codes[256] = {};
  if (bytes == 1) {
    for (int code = 0; code < 256; ++code) {
      const unsigned char memory[4] = {static_cast<unsigned char>(code)};
      codes[code] = static_cast<float>(element.load(memory));
    }
  }
  to->resize(static_cast<std::size_t>(tensor.columns));
  for (std::int64_t c = 0; c < tensor.columns; ++c) {
    const unsigned char* from = mirror + tensor.at(group, row, c) * bytes;
    (*to)[static_cast<std::size_t>(c)] = bytes == 1 ? codes[*from] : static_cast<float>(element.load(from));
  }
}

std::vector<GemmRow> GemmProblem::rows() const {
  std::vector<GemmRow> rows;
  if (case_.product != Product::contiguous) {
    for (std::int64_t g = 0; g < case_.groups(); ++g) {
      const std::int64_t there = case_.product == Product::masked
                                     ? std::min<std::int64_t>(counts_[static_cast<std::size_t>(g)], case_.m)
                                     : case_.m;
      for (std::int64_t r = 0; r < there; ++r) rows.push_back({g, r, g, r});
    }
    return rows;
  }
  // An offset that falls is read as if it stayed the same; nothing lies outside of the tensor.
  std::int64_t reached = 0;
  for (std::size_t e = 0; e + 1 < offsets_.size(); ++e) {
    reached = std::max<std::int64_t>(reached, offsets_[e]);
    const std::int64_t end = std::min<std::int64_t>(offsets_[e + 1], case_.m);
    for (std::int64_t r = reached; r < end; ++r) {
      const std::int64_t source = case_.gathered ? indices_[static_cast<std::size_t>(r)] : r;
      if (source >= 0 && source < tensors_.a.rows) rows.push_back({0, r, static_cast<std::int64_t>(e), source});
    }
  }
  return rows;
}

}  // namespace quern::test
