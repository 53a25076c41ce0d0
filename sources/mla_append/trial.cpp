// Random calls of mla_append for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "sources/ops.h"
#include "sources/verify/sequences.h"

namespace quern::ops::mla_append {
namespace {

using namespace verify;

constexpr double kEps = 0x1p-17;

// The code of a number as it stands in a row of bytes.
void put_code(Field& bytes, std::int64_t at, double value) {
  Field code(Dtype::e4m3, {1});
  code.set(0, std::clamp(value, -448.0, 448.0));
  bytes.truth[static_cast<std::size_t>(at)] = code.bytes[0];
}

void make(const Given& given, int which, Trial& trial) {
  constexpr std::int64_t kTokens = 13, kHeads = 3, kPages = 7, kPageSize = 4;
  const Dtype dtype = given.dtype("dtype"), norm = given.dtype("norm");
  const std::string kind = given.text("cache", "plain");
  const std::int64_t latent = given.integer("d_latent", 512), rope = given.integer("d_rope", 64),
                     columns = latent + rope;
  const bool rows656 = kind == "rows656", tokens = kind == "e4m3_token", plain = kind == "plain";
  quern_mla_append_args args{};
  Turning turning;
  args.rope = turning_of(given, given.integer("rotary_dim"), trial, &turning);
  const Field& kv = trial.given(dtype, {kTokens, columns});
  const Field* const weight = norm != Dtype::other ? &trial.given(norm, {latent}) : nullptr;
  const std::int64_t width = rows656 ? 656 : columns;
  Field& cache = trial.result(plain ? dtype : rows656 ? Dtype::u8 : Dtype::e4m3, {kPages, kPageSize, width}, 0x1p-14);
  cache.unknown();
  Field* scale = nullptr;
  if (tokens) {
    scale = &trial.result(Dtype::f32, {kPages, kPageSize}, 0x1p-14);
    scale->unknown();
  } else if (!plain && !rows656) {
    scale = &trial.uniform(Dtype::f32, {1}, 0.01, 0.02);
  }
  const Field* q = nullptr;
  Field* q_out = nullptr;
  if (given.flag("queries")) {
    q = &trial.given(dtype, {kTokens, kHeads, rope}), q_out = &trial.result(dtype, {kTokens, kHeads, rope}, 0x1p-14);
    q_out->unknown();
    args.q_rope = q->tensor(), args.q_rope_out = q_out->tensor();
  }
  const std::vector<std::int64_t> slots = random_slots(trial, kTokens, kPages * kPageSize);
  std::vector<std::int64_t> positions;
  for (std::int64_t t = 0; t < kTokens; ++t) positions.push_back(trial.below(1000));
  trial.later([=, &kv, &cache] {
    for (std::int64_t t = 0; t < kTokens; ++t) {
      const std::int64_t slot = slots[static_cast<std::size_t>(t)], position = positions[static_cast<std::size_t>(t)];
      if (slot < 0) continue;
      std::vector<double> row;
      double squares = 0, most = 0;
      for (std::int64_t d = 0; d < columns; ++d) row.push_back(kv.get(t * columns + d));
      for (std::int64_t d = 0; d < latent; ++d)
        squares += row[static_cast<std::size_t>(d)] * row[static_cast<std::size_t>(d)];
      const double by = 1 / std::sqrt(squares / static_cast<double>(latent) + kEps);
      for (std::int64_t d = 0; weight != nullptr && d < latent; ++d)
        row[static_cast<std::size_t>(d)] *= by * weight->get(d);
      turning.apply(row.data() + latent, position);
      for (const double value : row) most = std::max(most, std::abs(value));
      // A row of 656 bytes: codes stand as bytes, one step apart where rounding decides; its scales and its rope part
      // are held against the host's alone.
      if (rows656) {
        for (std::int64_t part = 0; part < 4; ++part) {
          double largest = 0;
          for (std::int64_t d = 0; d < 128; ++d)
            largest = std::max(largest, std::abs(row[static_cast<std::size_t>(part * 128 + d)]));
          for (std::int64_t d = part * 128; d < part * 128 + 128; ++d)
            put_code(cache, slot * width + d, row[static_cast<std::size_t>(d)] / found_scale(largest, Dtype::e4m3));
        }
        continue;
      }
      double divisor = 1;
      if (tokens) scale->truth[static_cast<std::size_t>(slot)] = divisor = found_scale(most, Dtype::e4m3);
      if (!plain && !tokens) divisor = scale->get(0);
      for (std::int64_t d = 0; d < columns; ++d) {
        const double value = row[static_cast<std::size_t>(d)] / divisor;
        cache.truth[static_cast<std::size_t>(slot * width + d)] = plain ? value : std::clamp(value, -448.0, 448.0);
      }
      for (std::int64_t h = 0; q != nullptr && h < kHeads; ++h) {
        std::vector<double> head;
        for (std::int64_t d = 0; d < rope; ++d) head.push_back(q->get((t * kHeads + h) * rope + d));
        turning.apply(head.data(), position);
        for (std::int64_t d = 0; d < rope; ++d)
          q_out->truth[static_cast<std::size_t>((t * kHeads + h) * rope + d)] = head[static_cast<std::size_t>(d)];
      }
    }
  });
  if (rows656) cache.rounded();
  args.kv = kv.tensor(), args.cache = cache.tensor(), args.d_rope = static_cast<std::int32_t>(rope);
  if (weight != nullptr) args.weight = weight->tensor();
  if (scale != nullptr) args.cache_scale = scale->tensor();
  if (rows656) args.cache_type = QUERN_MLA_CACHE_ROWS_656;
  args.slots = trial.integers({kTokens}, slots).tensor();
  args.positions = trial.integers({kTokens}, positions).tensor();
  args.eps = kEps, args.alignment = static_cast<std::int32_t>(given.integer("alignment", 16));
  trial.what = "13 tokens, try " + std::to_string(which);
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, 2};

}  // namespace quern::ops::mla_append
