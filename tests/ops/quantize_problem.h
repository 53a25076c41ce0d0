// A quantisation with random input, and what it must give by its definition in fp64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/ops/device.h"
#include "tests/ops/element.h"
#include "tests/ops/random.h"
#include "tests/ops/tensor_box.h"

namespace quern::test {

// A matrix in memory of its own, its rows `pitch` elements apart: what was put there, and what was found there
// afterwards.
class Matrix {
 public:
  void set(Element element, std::int64_t rows, std::int64_t columns, std::int64_t pitch);
  bool given() const { return pitch_ > 0; }
  Element element() const { return element_; }
  std::int64_t pitch() const { return pitch_; }

  void put(std::int64_t row, std::int64_t column, double value) { element_.store(&put_[offset(row, column)], value); }
  double at(std::int64_t row, std::int64_t column) const { return element_.load(&put_[offset(row, column)]); }
  void poison();
  void upload();

  void download();
  double found(std::int64_t row, std::int64_t column) const { return element_.load(&found_[offset(row, column)]); }
  std::uint8_t code(std::int64_t row, std::int64_t column) const { return found_[offset(row, column)]; }
  const std::vector<unsigned char>& all_found() const { return found_; }
  // Bytes beside the columns that are not what was put there.
  std::int64_t spoilt() const;

  TensorBox box;

 private:
  std::size_t offset(std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>(row * pitch_ + column) * element_.bytes();
  }

  Element element_ = Element::f32;
  std::int64_t rows_ = 0, columns_ = 0, pitch_ = 0;
  std::vector<unsigned char> put_, found_;
  Buffer device_;
};

enum class Where { nowhere, own, x, residual };  // a result: not asked for, in memory of its own, or over an input
enum class Parameter { none, like_x, f32 };

struct QuantizeCase {
  std::string name;
  Element x = Element::bf16, out = Element::e4m3;
  std::int64_t rows = 4, n = 256;
  int front = QUERN_FRONT_NONE, kind = QUERN_SCALE_GROUP;
  std::uint32_t flags = 0;
  int alignment = 0;
  std::int64_t padding = 0;  // elements between rows
  Parameter weight = Parameter::none, bias = Parameter::none;
  bool residual = false;
  Where sum = Where::nowhere, dense = Where::nowhere;
  bool scale_columns_first = false;  // groups far apart, rows beside each other, as products read them
  bool bytes = false;                // out is uint8
  int max_sms = 0;
  float eps = 1e-6f;
  double given_scale = 0.37;
  bool odd_values = false;             // NaN, infinities, zeros, and numbers of many sizes among the input
  int size_least = -3, size_most = 3;  // a row's numbers are this power of two in size

  bool norm() const { return front == QUERN_FRONT_RMSNORM || front == QUERN_FRONT_LAYERNORM; }
  bool product() const { return front >= QUERN_FRONT_SILU_MUL; }
};
void PrintTo(const QuantizeCase& c, std::ostream* out);

class QuantizeProblem {
 public:
  QuantizeProblem(const QuantizeCase& c, Random random);

  // Workspace, prepare, and the call with nothing left to compile; twice, since what one leaves in the workspace the
  // next finds.
  void run(quern_context* context);
  // The call alone, between the next two.
  void call(quern_context* context);
  // Puts the inputs there and poisons the outputs.
  void put();
  // Takes back what lies there.
  void get();
  // Other inputs of the same kind; put() is still to come.
  void fill(Random& random);
  // Holds everything that was written against the definition.
  void check();
  // All that was written, as it lies there.
  std::vector<unsigned char> results() const;

  quern_quantize_args args;
  Matrix x, out, scale, residual, residual_out, dense, weight, bias;

 private:
  struct Exact {
    double value, error;  // what f32 arithmetic may be off by
  };
  using Row = std::vector<Exact>;

  Row exact_row(std::int64_t row) const;
  double scale_found(std::int64_t row, std::int64_t group) const;
  void check_scale(std::int64_t row, std::int64_t group, double largest_least, double largest_most);
  void check_scales(const std::vector<Row>& rows);
  void check_element(std::int64_t row, std::int64_t column, const Exact& y);
  void fail(const char* what, std::int64_t row, std::int64_t column, double given, double exact);

  const QuantizeCase c_;
  Matrix* const sum_;  // where x + residual goes, and y; null: nowhere
  Matrix* const dense_;
  Buffer workspace_;
  std::int64_t wrong_ = 0;
};

}  // namespace quern::test
