// Calls of sample: an input's parameter arrays as tensors, and the results read back.
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/sample_problem.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace quern::test {
namespace {

constexpr DLDataType kInt64{kDLInt, 64, 1};

}  // namespace

template <class T>
const DLTensor* SampleCall::vector(const std::vector<T>& values, DLDataType type) {
  if (values.empty()) return nullptr;
  buffers.emplace_back(values.size() * sizeof(T));
  buffers.back().write(values);
  TensorBox& box = boxes.emplace_back();
  box.set(type, {static_cast<std::int64_t>(values.size())});
  box.place(buffers.back().data());
  return box.get();
}
template <class T>
const DLTensor* SampleCall::matrix(const std::vector<std::vector<T>>& rows, DLDataType type, T fill,
                                   std::int64_t columns) {
  std::vector<T> flat(rows.size() * static_cast<std::size_t>(columns), fill);
  for (std::size_t r = 0; r < rows.size(); ++r)
    std::copy(rows[r].begin(), rows[r].end(), flat.begin() + static_cast<std::ptrdiff_t>(r) * columns);
  if (flat.empty()) flat.resize(1);
  const DLTensor* tensor = vector(flat, type);
  boxes.back().set(type, {static_cast<std::int64_t>(rows.size()), columns});
  boxes.back().place(buffers.back().data());
  return tensor;
}

void SampleCall::lists() {
  const auto n = static_cast<std::int64_t>(in_.count());
  const std::int64_t words = (in_.vocab + 31) / 32;
  const auto longest = [](const std::vector<std::vector<std::int32_t>>& rows) {
    std::size_t most = 0;
    for (const auto& r : rows) most = std::max(most, r.size());
    return static_cast<std::int64_t>(most);
  };
  const auto lengths = [&](const std::vector<std::vector<std::int32_t>>& rows) {
    std::vector<std::int32_t> all;
    for (const auto& r : rows) all.push_back(static_cast<std::int32_t>(r.size()));
    return vector(all, kInt32);
  };
  if (!in_.prompt.empty() && in_.prompt_as_mask) {
    std::vector<std::vector<std::int32_t>> mask(static_cast<std::size_t>(n),
                                                std::vector<std::int32_t>(static_cast<std::size_t>(words)));
    for (std::size_t i = 0; i < mask.size(); ++i) {
      for (const auto t : in_.prompt[i])
        mask[i][static_cast<std::size_t>(t / 32)] |= static_cast<std::int32_t>(1u << t % 32);
    }
    args.prompt_mask = matrix(mask, kInt32, 0, words);
  } else if (!in_.prompt.empty()) {
    args.prompt_tokens = matrix(in_.prompt, kInt32, 5, longest(in_.prompt) + 1);
    args.prompt_lengths = lengths(in_.prompt);
  }
  if (!in_.output.empty() && in_.output_as_counts) {
    std::vector<std::vector<std::int32_t>> counts(static_cast<std::size_t>(n),
                                                  std::vector<std::int32_t>(static_cast<std::size_t>(in_.vocab)));
    for (std::size_t i = 0; i < counts.size(); ++i)
      for (const auto t : in_.output[i]) ++counts[i][static_cast<std::size_t>(t)];
    args.output_counts = matrix(counts, kInt32, 0, in_.vocab);
  } else if (!in_.output.empty()) {
    args.output_tokens = matrix(in_.output, kInt32, 3, longest(in_.output) + 2);
    args.output_lengths = lengths(in_.output);
  }
  if (!in_.banned.empty()) args.banned = matrix(in_.banned, kInt32, -1, longest(in_.banned) + 1);
  if (!in_.allowed.empty()) {
    std::vector<std::vector<std::int32_t>> mask(static_cast<std::size_t>(n),
                                                std::vector<std::int32_t>(static_cast<std::size_t>(words)));
    for (std::size_t i = 0; i < mask.size(); ++i) {
      for (std::size_t t = 0; t < in_.allowed[i].size(); ++t)
        if (in_.allowed[i][t] != 0) mask[i][t / 32] |= static_cast<std::int32_t>(1u << t % 32);
    }
    args.allowed = matrix(mask, kInt32, 0, words);
  }
  if (!in_.bias.empty()) {
    std::vector<std::int32_t> begins = {0}, ids;
    std::vector<float> values;
    for (const auto& row : in_.bias) {
      for (const auto& [t, v] : row) ids.push_back(t), values.push_back(v);
      begins.push_back(static_cast<std::int32_t>(ids.size()));
      args.max_bias = std::max(args.max_bias, static_cast<std::int32_t>(row.size()));
    }
    if (ids.empty()) ids.push_back(0), values.push_back(0.0f);
    args.bias_offsets = vector(begins, kInt32), args.bias_ids = vector(ids, kInt32),
    args.bias_values = vector(values, kFloat32);
  }
}

SampleCall::SampleCall(const SampleInput& input) : args(sized<quern_sample_args>()), in_(input) {
  const auto n = static_cast<std::int64_t>(in_.count());
  const std::int64_t pitch = in_.vocab + in_.padding;
  std::vector<unsigned char> logits(in_.logits.size() * static_cast<std::size_t>(pitch) * in_.element.bytes(), 0x7f);
  for (std::size_t r = 0; r < in_.logits.size(); ++r) {
    for (std::size_t t = 0; t < in_.logits[r].size(); ++t) {
      in_.element.store(&logits[(r * static_cast<std::size_t>(pitch) + t) * in_.element.bytes()],
                        double{in_.logits[r][t]});
    }
  }
  if (logits.empty()) logits.resize(4);
  args.logits = vector(logits, in_.element.type());
  boxes.back().set(in_.element.type(), {static_cast<std::int64_t>(in_.logits.size()), in_.vocab}, {pitch, 1});
  boxes.back().place(buffers.back().data());
  args.rows = vector(in_.rows, kInt32);
  const auto per_row = [&](const std::vector<float>& values) { return vector(values, kFloat32); };
  args.temperatures = per_row(in_.temperature), args.top_ps = per_row(in_.top_p), args.min_ps = per_row(in_.min_p);
  args.typical_ps = per_row(in_.typical_p), args.n_sigmas = per_row(in_.n_sigma),
  args.xtc_probabilities = per_row(in_.xtc_probability);
  args.xtc_thresholds = per_row(in_.xtc_threshold), args.dynamic_ranges = per_row(in_.dynamic_range),
  args.dynamic_exponents = per_row(in_.dynamic_exponent);
  args.repetitions = per_row(in_.repetition), args.presences = per_row(in_.presence),
  args.frequencies = per_row(in_.frequency);
  args.top_ks = vector(in_.top_k, kInt32), args.seeds = vector(in_.seeds, kInt64),
  args.offsets = vector(in_.offsets, kInt64);
  args.seed = in_.seed, args.offset = in_.offset, args.flags = in_.flags, args.max_sms = in_.max_sms;
  lists();
  const auto made = [&](std::size_t each, DLDataType type, std::int64_t columns) {
    buffers.emplace_back(
        std::max<std::size_t>(static_cast<std::size_t>(n * std::max<std::int64_t>(columns, 1)) * each, 1), 0x7b);
    TensorBox& box = boxes.emplace_back();
    if (columns == 0) {
      box.set(type, {n});
    } else {
      box.set(type, {n, columns});
    }
    box.place(buffers.back().data());
    return box.get();
  };
  args.ids = in_.wide_ids ? made(8, kInt64, 0) : made(4, kInt32, 0);
  args.status = made(4, kInt32, 0);
  if (in_.logprobs) args.logprobs = made(4, kFloat32, 0);
  if (in_.top_n > 0) args.top_ids = made(4, kInt32, in_.top_n), args.top_logprobs = made(4, kFloat32, in_.top_n);
  made_ = args;
}

void SampleCall::prepare() {
  auto error = sized<quern_error>();
  std::uint64_t bytes = 0;
  ASSERT_EQ(quern_sample_workspace(context(), &args, &bytes, &error), QUERN_OK) << error.text;
  ASSERT_EQ(quern_sample_prepare(context(), &args, &error), QUERN_OK) << error.text;
  workspace_ = Buffer(static_cast<std::size_t>(bytes), 0xcd);
  workspace_.write(std::vector<unsigned char>(256 * 1024, 0));
  args.workspace = workspace_.data(), args.workspace_size = bytes;
}
void SampleCall::launch(void* stream) {
  auto error = sized<quern_error>();
  args.stream = stream;
  args.flags |= QUERN_CALL_CACHED_ONLY;
  ASSERT_EQ(quern_sample(context(), &args, &error), QUERN_OK) << error.text;
}
SampleOutput SampleCall::run() {
  prepare();
  if (testing::Test::HasFatalFailure()) return {};
  launch();
  synchronize();
  std::vector<unsigned char> counters(256 * 1024);
  workspace_.read(counters.data(), counters.size());
  EXPECT_TRUE(std::all_of(counters.begin(), counters.end(), [](unsigned char c) { return c == 0; }))
      << "the counters are not zero";
  return read();
}
Buffer& SampleCall::buffer_of(const DLTensor* tensor) {
  return *std::find_if(buffers.begin(), buffers.end(), [&](const Buffer& b) { return b.data() == tensor->data; });
}
SampleOutput SampleCall::read() {
  SampleOutput out;
  const std::size_t n = in_.count();
  const auto take = [&]<class T>(const DLTensor* tensor, std::vector<T>* to, std::size_t count) {
    to->resize(count);
    if (count != 0) buffer_of(tensor).read(to->data(), count * sizeof(T));
  };
  if (in_.wide_ids) {
    take(made_.ids, &out.ids, n);
  } else {
    std::vector<std::int32_t> ids;
    take(made_.ids, &ids, n);
    out.ids.assign(ids.begin(), ids.end());
  }
  take(made_.status, &out.status, n);
  if (in_.logprobs) take(made_.logprobs, &out.logprobs, n);
  const auto rows_of = [&]<class T>(const DLTensor* tensor, std::vector<std::vector<T>>* to, std::size_t columns) {
    std::vector<T> flat;
    take(tensor, &flat, n * columns);
    for (std::size_t i = 0; i < n; ++i)
      to->emplace_back(flat.begin() + static_cast<std::ptrdiff_t>(i * columns),
                       flat.begin() + static_cast<std::ptrdiff_t>((i + 1) * columns));
  };
  if (in_.top_n > 0) {
    rows_of(made_.top_ids, &out.top_ids, static_cast<std::size_t>(in_.top_n));
    rows_of(made_.top_logprobs, &out.top_logprobs, static_cast<std::size_t>(in_.top_n));
  }
  if (!in_.offsets.empty()) take(made_.offsets, &out.offsets, n);
  if (made_.output_counts != nullptr) rows_of(made_.output_counts, &out.counts, static_cast<std::size_t>(in_.vocab));
  return out;
}

}  // namespace quern::test
