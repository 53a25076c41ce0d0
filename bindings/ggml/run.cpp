// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include <algorithm>
#include <cstring>

namespace quern::ggml {

constexpr std::size_t kNumbersBytes = std::size_t{1} << 18;

DLDataType type_of(const ggml_tensor* tensor) {
  switch (tensor->type) {
    case GGML_TYPE_F32:
      return kF32;
    case GGML_TYPE_F16:
      return kF16;
    case GGML_TYPE_BF16:
      return kBf16;
    case GGML_TYPE_I32:
      return kI32;
    case GGML_TYPE_I64:
      return kI64;
    default:
      return {};
  }
}

bool is_even(const ggml_tensor* tensor) {
  const std::size_t size = type_of(tensor).bits / 8;
  if (size == 0) return false;
  return std::all_of(tensor->nb, tensor->nb + GGML_MAX_DIMS, [&](std::size_t stride) { return stride % size == 0; });
}

View View::at(std::int64_t place) const {
  View part = *this;
  part.data = static_cast<char*>(data) + place * strides.front() * type.bits / 8;
  part.shape.erase(part.shape.begin());
  part.strides.erase(part.strides.begin());
  return part;
}

View View::turned(std::initializer_list<int> order) const {
  View made = *this;
  std::size_t next = 0;
  for (const int dimension : order) {
    made.shape[next] = shape[static_cast<std::size_t>(dimension)];
    made.strides[next++] = strides[static_cast<std::size_t>(dimension)];
  }
  return made;
}

std::int64_t View::count() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

View view_of(const ggml_tensor* tensor) {
  View view;
  view.data = tensor->data;
  view.type = type_of(tensor);
  const std::size_t size = view.type.bits / 8;
  for (int i = GGML_MAX_DIMS; i-- > 0;) {
    view.shape.push_back(tensor->ne[i]);
    view.strides.push_back(size == 0 ? 0 : static_cast<std::int64_t>(tensor->nb[i] / size));
  }
  return view;
}

Run::~Run() {
  for (const Chunk& chunk : chunks_) memory_.free(chunk.memory);
  if (workspace_ != nullptr) memory_.free(workspace_);
  if (numbers_memory_ != nullptr) memory_.free(numbers_memory_);
}

const DLTensor* Run::tensor(const View& view) {
  Held& held = *tensors_.emplace_back(std::make_unique<Held>());
  const std::size_t dimensions = view.shape.size();
  std::copy(view.shape.begin(), view.shape.end(), held.extents.begin());
  std::copy(view.strides.begin(), view.strides.end(), held.extents.begin() + 6);
  held.tensor = {view.data, memory_.device(),    static_cast<std::int32_t>(dimensions),
                 view.type, held.extents.data(), held.extents.data() + 6,
                 0};
  places_ |= reinterpret_cast<std::uintptr_t>(view.data);
  const std::uint64_t size = view.type.bits / 8;
  for (std::size_t i = 0; i < dimensions; ++i) {
    if (view.shape[i] > 1 && view.strides[i] != 1) places_ |= static_cast<std::uint64_t>(view.strides[i]) * size;
    // A row alone is read as wide as its length allows.
    if (dimensions > 1 && view.strides[i] == 1) places_ |= static_cast<std::uint64_t>(view.shape[i]) * size;
  }
  return &held.tensor;
}

View Run::scratch(DLDataType type, std::vector<std::int64_t> shape) {
  View view;
  view.type = type;
  view.shape = std::move(shape);
  view.strides.assign(view.shape.size(), 1);
  for (std::size_t i = view.shape.size(); i-- > 1;) view.strides[i - 1] = view.strides[i] * view.shape[i];
  const std::size_t bytes = (static_cast<std::size_t>(view.count()) * type.bits / 8 + 255) / 256 * 256;
  for (std::size_t i = kept_chunks_; i < chunks_.size(); ++i) {
    Chunk& chunk = chunks_[i];
    if (chunk.bytes - chunk.used >= bytes) {
      view.data = chunk.memory + chunk.used;
      chunk.used += bytes;
      return view;
    }
  }
  constexpr std::size_t kLeast = std::size_t{1} << 20;
  Chunk made = {nullptr, std::max(bytes, kLeast), bytes};
  made.memory = static_cast<char*>(memory_.allocate(made.bytes));
  if (made.memory == nullptr) throw Failed("no memory for " + std::to_string(bytes) + " bytes between two launches");
  view.data = made.memory;
  chunks_.push_back(made);
  return view;
}

// Lengths and offsets that a graph's layers have alike, and the next graph too. To put them is to wait for the device.
View Run::numbers(const std::vector<std::int32_t>& values) {
  const std::size_t bytes = values.size() * sizeof values[0];
  View view = {nullptr, kI32, {static_cast<std::int64_t>(values.size())}, {1}};
  if (const auto found = numbers_.find(values); found != numbers_.end()) {
    view.data = found->second;
    return view;
  }
  if (numbers_memory_ == nullptr) numbers_memory_ = static_cast<char*>(memory_.allocate(kNumbersBytes));
  const bool kept = numbers_memory_ != nullptr && bytes <= kNumbersBytes - numbers_used_;
  if (kept) {
    view.data = numbers_memory_ + numbers_used_;
  } else {
    view = scratch(kI32, view.shape);
  }
  memory_.put(view.data, values.data(), bytes);
  // Only what has been put is found again.
  if (kept) {
    numbers_used_ += (bytes + 255) / 256 * 256;
    numbers_.emplace(values, view.data);
  }
  return view;
}

View Run::factors(const std::vector<float>& values) {
  std::vector<std::int32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof values[0]);
  View view = numbers(bits);
  view.type = kF32;
  return view;
}

const quern_expression* Run::expression(const char* formula) {
  const quern_expression* made = nullptr;
  quern_error error = {};
  error.size = sizeof error;
  check(quern_expression_create(context_, formula, &made, &error), error);
  return made;
}

void Run::pointwise(const char* formula, const std::vector<View>& operands, const View& out,
                    const std::vector<float>& scalars) {
  std::vector<const DLTensor*> given;
  given.reserve(operands.size());
  for (const View& operand : operands) given.push_back(tensor(operand));
  quern_pointwise_args args = {};
  args.operands = given.data();
  args.operand_count = static_cast<std::uint32_t>(given.size());
  args.out = tensor(out);
  args.expression = expression(formula);
  args.scalars = scalars.data();
  args.scalar_count = static_cast<std::uint32_t>(scalars.size());
  QUERN_LAUNCH(*this, pointwise, args);
}

void Run::copy(const View& from, const View& to) {
  const DLTensor *input = tensor(from), *output = tensor(to);
  quern_copy_args args = {};
  args.inputs = &input;
  args.outputs = &output;
  args.input_count = args.output_count = 1;
  QUERN_LAUNCH(*this, copy, args);
}

void Run::check(std::int32_t status, const quern_error& error) {
  if (status == QUERN_OK) return;
  forget_tensors();
  throw Failed(std::string(quern_status_name(status)) + ": " + error.text);
}

std::int32_t Run::alignment() const { return static_cast<std::int32_t>(places_ & -places_); }

void Run::forget_tensors() {
  tensors_.clear();
  places_ = 16;
}

void* Run::workspace_of(std::uint64_t bytes) {
  if (workspace_bytes_ < bytes) {
    memory_.synchronise();
    if (workspace_ != nullptr) memory_.free(workspace_);
    workspace_bytes_ = 0;
    workspace_ = memory_.allocate(bytes);
    if (workspace_ == nullptr) throw Failed("no memory for a workspace of " + std::to_string(bytes) + " bytes");
    memory_.fill(workspace_, 0, bytes);
    workspace_bytes_ = bytes;
  }
  return workspace_;
}

void Run::drop_workspace() {
  if (workspace_ != nullptr) memory_.free(workspace_);
  workspace_ = nullptr;
  workspace_bytes_ = 0;
}

void Run::keep_scratch() { kept_chunks_ = chunks_.size(); }

// Launches are on one stream: what a later node writes there is behind what an earlier one reads.
void Run::end_node() {
  for (std::size_t i = kept_chunks_; i < chunks_.size(); ++i) chunks_[i].used = 0;
}

void Run::end_graph() {
  memory_.synchronise();
  masks_.clear();
  angles_.clear();
  // Nothing reads them now.
  if (numbers_used_ > kNumbersBytes / 2) {
    numbers_.clear();
    numbers_used_ = 0;
  }
  kept_chunks_ = 0;
  end_node();
}

}  // namespace quern::ggml
