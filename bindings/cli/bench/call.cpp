// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/bench/call.h"

#include <cstring>

#include "bindings/cli/bench/contents.h"
#include "bindings/cli/failure.h"

namespace quern::cli {
namespace {

// "The fields up to max_sms are the same in every op": quern.h.
constexpr std::size_t kStream = offsetof(quern_gemm_args, stream);
constexpr std::size_t kWorkspace = offsetof(quern_gemm_args, workspace);
constexpr std::size_t kWorkspaceSize = offsetof(quern_gemm_args, workspace_size);

}  // namespace

unsigned char* Call::struct_of(int part) {
  const auto index = static_cast<std::size_t>(part + 1);
  std::vector<unsigned char>& bytes = structs_[index];
  if (bytes.empty()) {
    const std::size_t size =
        part < 0 ? problem_.op->args_size : problem_.op->parts[static_cast<std::size_t>(part)].size;
    bytes.resize(size);
    const auto told = static_cast<std::uint32_t>(size);
    std::memcpy(bytes.data(), &told, sizeof(told));  // every struct begins with its size
    if (part >= 0)
      set<const void*>(-1, problem_.op->parts[static_cast<std::size_t>(part)].pointer_offset, bytes.data());
  }
  return bytes.data();
}

template <class T>
void Call::set(int part, std::size_t offset, T value) {
  std::memcpy(struct_of(part) + offset, &value, sizeof(value));
}

const DLTensor* Call::tensor(const ProblemTensor& given, const quern_device_info& device, Machine& machine,
                             std::uint64_t seed, const Call* like) {
  std::vector<std::int64_t>& extents = extents_.emplace_back(given.shape);
  const std::size_t rank = extents.size();
  std::uint64_t bytes = given.bytes();
  std::int64_t* strides = nullptr;
  if (given.transposed && rank >= 2) {
    // Rows of four and more, so that they can be read 16 bytes at a time.
    const std::int64_t rows = (extents[rank - 2] + 3) / 4 * 4;
    extents.resize(2 * rank, 1);
    strides = extents.data() + rank;
    strides[rank - 2] = 1;
    strides[rank - 1] = rows;
    for (std::size_t i = rank - 2; i-- > 0;)
      strides[i] = i + 3 == rank ? rows * extents[rank - 1] : strides[i + 1] * extents[i + 1];
    bytes = bytes / static_cast<std::uint64_t>(std::max<std::int64_t>(1, extents[rank - 2])) *
            static_cast<std::uint64_t>(rows);
  }
  memory_.push_back(machine.allocate(bytes));
  bytes_ += bytes;
  if (like == nullptr) {
    fill(machine, memory_.back().get(), bytes, given, seed);
  } else {
    machine.copy(memory_.back().get(), like->memory_[memory_.size() - 1].get(), bytes);
  }
  DLTensor& made = tensors_.emplace_back();
  made.data = memory_.back().get();
  made.device = {static_cast<decltype(made.device.device_type)>(device.device_type), device.device_id};
  made.ndim = static_cast<std::int32_t>(rank);
  made.dtype = given.type;
  made.shape = extents.data();
  made.strides = strides;
  return &made;
}

Call::Call(const Problem& problem, const Context& context, const quern_device_info& device, Machine& machine,
           std::uint64_t seed, const Call* like)
    : problem_(problem), context_(context), structs_(problem.op->parts.size() + 1) {
  auto error = sized<quern_error>();
  struct_of(-1);
  set(-1, kStream, machine.stream());
  for (const OpField& field : problem.op->fields) {
    if (const auto found = problem.tensors.find(field.name); found != problem.tensors.end()) {
      std::vector<const DLTensor*> made;
      for (const ProblemTensor& each : found->second) made.push_back(tensor(each, device, machine, ++seed, like));
      if (field.kind == FieldKind::kTensor) {
        set(field.part, field.offset, made.front());
      } else {
        set(field.part, field.count_offset, static_cast<std::uint32_t>(made.size()));
        set(field.part, field.offset, lists_.emplace_back(std::move(made)).data());
      }
    }
    if (const auto found = problem.floats.find(field.name); found != problem.floats.end()) {
      set(field.part, field.offset, found->second.data());
      set(field.part, field.count_offset, static_cast<std::uint32_t>(found->second.size()));
    }
    if (const auto found = problem.expressions.find(field.name); found != problem.expressions.end()) {
      const quern_expression* expression = nullptr;
      check(quern_expression_create(context.get(), found->second.c_str(), &expression, &error), error);
      set(field.part, field.offset, expression);
    }
    const auto number = problem.numbers.find(field.name);
    if (number == problem.numbers.end() || number->second == 0) continue;  // zeroed means the default
    switch (field.kind) {
      case FieldKind::kInt32:
        set(field.part, field.offset, static_cast<std::int32_t>(number->second));
        break;
      case FieldKind::kUint32:
        set(field.part, field.offset, static_cast<std::uint32_t>(number->second));
        break;
      case FieldKind::kInt64:
        set(field.part, field.offset, static_cast<std::int64_t>(number->second));
        break;
      case FieldKind::kUint64:
        set(field.part, field.offset, static_cast<std::uint64_t>(number->second));
        break;
      case FieldKind::kFloat:
        set(field.part, field.offset, static_cast<float>(number->second));
        break;
      default:
        set(field.part, field.offset, number->second);
    }
  }
  std::uint64_t workspace = 0;
  check(problem.op->workspace(context.get(), structs_[0].data(), &workspace, &error), error);
  if (workspace != 0) {
    memory_.push_back(machine.allocate(workspace));  // zeroed, as it is to be before the first launch
    set(-1, kWorkspace, memory_.back().get());
    set(-1, kWorkspaceSize, workspace);
  }
  machine.synchronise();
}

void Call::run() {
  auto error = sized<quern_error>();
  check(problem_.op->run(context_.get(), structs_[0].data(), &error), error);
}

}  // namespace quern::cli
