// Random calls of kv_copy_pages for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <algorithm>
#include <utility>

#include "sources/ops.h"

namespace quern::ops::kv_copy_pages {
namespace {

using namespace verify;

void make(const Given& given, int, Trial& trial) {
  // Rows of as many bytes as a chunk has, or of a multiple.
  const std::int64_t chunk = given.integer("chunk_bytes", 16), dim = std::max<std::int64_t>(chunk, 8) * 3;
  constexpr std::int64_t kPages = 9, kPageSize = 4, kHeads = 2, kPairs = 4;
  quern_kv_copy_pages_args args{};
  const Field &k = trial.given(Dtype::u8, {kPages, kPageSize, kHeads, dim}),
              &v = trial.given(Dtype::u8, {kPages, kPageSize, kHeads, dim});
  Field &k_to = trial.given(Dtype::u8, {kPages, kPageSize, kHeads, dim}).updated(),
        &v_to = trial.given(Dtype::u8, {kPages, kPageSize, kHeads, dim}).updated();
  constexpr std::int64_t kFrom[kPairs] = {8, 0, 3, -1}, kTo[kPairs] = {2, 7, 0, 4};
  const std::int64_t page = kPageSize * kHeads * dim;
  for (const auto& [from, to] : {std::pair<const Field&, Field&>{k, k_to}, {v, v_to}}) {
    for (std::int64_t i = 0; i < to.count(); ++i) to.truth.push_back(to.get(i));
    for (std::int64_t pair = 0; pair < kPairs; ++pair) {
      for (std::int64_t i = 0; kFrom[pair] >= 0 && i < page; ++i)
        to.truth[static_cast<std::size_t>(kTo[pair] * page + i)] = from.get(kFrom[pair] * page + i);
    }
  }
  args.k = k.tensor(), args.v = v.tensor(), args.k_to = k_to.tensor(), args.v_to = v_to.tensor();
  args.sources = trial.integers({kPairs}, {kFrom, kFrom + kPairs}).tensor();
  args.destinations = trial.integers({kPairs}, {kTo, kTo + kPairs}).tensor();
  args.alignment = static_cast<std::int32_t>(chunk);
  trial.what = "3 of 9 pages";
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make};

}  // namespace quern::ops::kv_copy_pages
