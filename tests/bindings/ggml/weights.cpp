// Weights that the backend widens once and keeps: products are right when the weights change, by any of ggml's ways,
// and the kept copy is what they are computed with. Runs on `host`, where the weights' memory can be written behind the
// backend's back.
// SPDX-License-Identifier: Apache-2.0
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace {

constexpr std::int64_t kColumns = 96, kRows = 40, kTokens = 3;
std::mt19937 random_bits{1234};
int failures = 0;

std::vector<float> numbers(std::int64_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> made(static_cast<std::size_t>(count));
  for (float& one : made) one = normal(random_bits);
  return made;
}

std::vector<char> quantised(const std::vector<float>& values) {
  const std::int64_t rows = static_cast<std::int64_t>(values.size()) / kColumns;
  std::vector<char> made(ggml_row_size(GGML_TYPE_Q8_0, kColumns) * static_cast<std::size_t>(rows));
  ggml_quantize_chunk(GGML_TYPE_Q8_0, values.data(), made.data(), 0, rows, kColumns, nullptr);
  return made;
}

struct Graph {
  ggml_context* context;
  ggml_tensor *x, *out;
  ggml_cgraph* graph;
  ggml_backend_buffer_t buffer;
};

// x times `weights`, which has memory already.
Graph product_of(ggml_backend_t backend, const ggml_tensor* weights, std::int64_t first, std::int64_t rows) {
  Graph made = {};
  made.context = ggml_init({ggml_tensor_overhead() * 8 + ggml_graph_overhead(), nullptr, true});
  made.x = ggml_new_tensor_2d(made.context, GGML_TYPE_F32, kColumns, kTokens);
  auto* whole = const_cast<ggml_tensor*>(weights);
  const std::size_t row = whole->nb[1];
  ggml_tensor* some = ggml_view_2d(made.context, whole, kColumns, rows, row, static_cast<std::size_t>(first) * row);
  made.out = ggml_mul_mat(made.context, rows == kRows ? whole : some, made.x);
  made.graph = ggml_new_graph(made.context);
  ggml_build_forward_expand(made.graph, made.out);
  made.buffer = ggml_backend_alloc_ctx_tensors(made.context, backend);
  return made;
}

void expect(ggml_backend_t backend, const ggml_tensor* weights, const std::vector<char>& bytes, const char* what,
            std::int64_t first = 0, std::int64_t rows = kRows) {
  const Graph graph = product_of(backend, weights, first, rows);
  const std::vector<float> x = numbers(kColumns * kTokens);
  ggml_backend_tensor_set(graph.x, x.data(), 0, ggml_nbytes(graph.x));
  const bool done = ggml_backend_graph_compute(backend, graph.graph) == GGML_STATUS_SUCCESS;
  std::vector<float> out(static_cast<std::size_t>(rows * kTokens)), wide(static_cast<std::size_t>(kColumns * kRows));
  ggml_backend_tensor_get(graph.out, out.data(), 0, ggml_nbytes(graph.out));
  ggml_get_type_traits(GGML_TYPE_Q8_0)->to_float(bytes.data(), wide.data(), kColumns * kRows);
  double worst = 0;
  for (std::int64_t t = 0; t < kTokens; ++t) {
    for (std::int64_t n = 0; n < rows; ++n) {
      double sum = 0;
      for (std::int64_t k = 0; k < kColumns; ++k) {
        sum += static_cast<double>(wide[static_cast<std::size_t>((first + n) * kColumns + k)]) *
               static_cast<double>(x[static_cast<std::size_t>(t * kColumns + k)]);
      }
      worst = std::max(worst, std::abs(sum - static_cast<double>(out[static_cast<std::size_t>(t * rows + n)])));
    }
  }
  // Both operands are rounded to f16 and 96 products summed.
  const bool right = done && worst < 0.05;
  std::printf("%s: off by %.4f%s\n", what, worst, right ? "" : ", WRONG");
  failures += right ? 0 : 1;
  ggml_backend_buffer_free(graph.buffer);
  ggml_free(graph.context);
}

}  // namespace

int main() {
  ggml_backend_load_all();
  ggml_backend_dev_t device = ggml_backend_dev_by_name("QUERN0");
  if (device == nullptr) return std::printf("no QUERN0\n"), 1;
  ggml_backend_t backend = ggml_backend_dev_init(device, nullptr);
  ggml_context* context = ggml_init({ggml_tensor_overhead() * 4, nullptr, true});
  ggml_tensor* weights = ggml_new_tensor_2d(context, GGML_TYPE_Q8_0, kColumns, kRows);
  ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context, backend);
  ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);

  std::vector<char> bytes = quantised(numbers(kColumns * kRows));
  const std::size_t row = weights->nb[1];
  const auto set = [&](std::size_t from, std::size_t count) {
    ggml_backend_tensor_set(weights, bytes.data() + from * row, from * row, count * row);
  };
  set(0, kRows);
  expect(backend, weights, bytes, "weights that were set");
  // Nobody tells the backend of this: it goes on with what it keeps.
  std::memset(weights->data, 0, ggml_nbytes(weights));
  expect(backend, weights, bytes, "weights that are kept");
  std::memcpy(weights->data, bytes.data(), bytes.size());
  expect(backend, weights, bytes, "some rows of them", 8, 24);
  const std::vector<char> other = quantised(numbers(kColumns * kRows));
  std::memcpy(bytes.data() + 8 * row, other.data() + 8 * row, 5 * row);
  set(8, 5);
  expect(backend, weights, bytes, "weights of which a part was set");
  bytes = other;
  ggml_context* beside = ggml_init({ggml_tensor_overhead() * 4, nullptr, true});
  ggml_tensor* source = ggml_new_tensor_2d(beside, GGML_TYPE_Q8_0, kColumns, kRows);
  ggml_backend_buffer_t source_buffer = ggml_backend_alloc_ctx_tensors(beside, backend);
  ggml_backend_tensor_set(source, bytes.data(), 0, bytes.size());
  ggml_backend_tensor_copy(source, weights);
  expect(backend, weights, bytes, "weights that were copied");
  std::memset(bytes.data(), 0, bytes.size());
  ggml_backend_buffer_clear(buffer, 0);
  expect(backend, weights, bytes, "weights that were cleared");
  // No weights, and so nothing is kept.
  bytes = other;
  expect(backend, source, bytes, "a matrix that is no weight");
  std::memset(bytes.data(), 0, bytes.size());
  std::memset(source->data, 0, bytes.size());
  expect(backend, source, bytes, "the same with other numbers");

  ggml_backend_buffer_free(source_buffer);
  ggml_backend_buffer_free(buffer);
  ggml_free(beside);
  ggml_free(context);
  ggml_backend_free(backend);
  if (failures == 0) std::printf("weights: all products are right\n");
  return failures == 0 ? 0 : 1;
}
