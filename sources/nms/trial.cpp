// Random calls of nms for `quern verify --run`, and what they come to in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "sources/verify/trial.h"

#include <algorithm>
#include <numeric>

#include "sources/ops.h"

namespace quern::ops::nms {
namespace {

using namespace verify;

void make(const Given&, int which, Trial& trial) {
  const std::int64_t images = 2, n = which == 0 ? 300 : 3000, most = 200;
  constexpr double kThreshold = 0.5;
  quern_nms_args args{};
  Field &boxes = trial.given(Dtype::f32, {images, n, 4}), &scores = trial.uniform(Dtype::f32, {images, n}, 0, 1);
  // Corners are whole numbers of few bits: an overlap is exact, and beside the threshold or far from it.
  for (std::int64_t i = 0; i < images * n; ++i) {
    const std::int64_t x = trial.below(60), y = trial.below(60);
    const std::int64_t corners[] = {x, y, x + 8 + trial.below(16), y + 8 + trial.below(16)};
    for (std::int64_t c = 0; c < 4; ++c) boxes.set(i * 4 + c, static_cast<double>(corners[c]));
  }
  Field &ids = trial.result(Dtype::i32, {images, most}), &counts = trial.result(Dtype::i32, {images});
  trial.later([=, &boxes, &scores, &ids, &counts] {
    std::vector<std::int64_t> order(static_cast<std::size_t>(n));
    for (std::int64_t image = 0; image < images; ++image) {
      const auto corner = [&](std::int64_t i, std::int64_t c) { return boxes.get((image * n + i) * 4 + c); };
      const auto area = [&](std::int64_t i) { return (corner(i, 2) - corner(i, 0)) * (corner(i, 3) - corner(i, 1)); };
      const auto overlaps = [&](std::int64_t a, std::int64_t b) {
        const double across = std::min(corner(a, 2), corner(b, 2)) - std::max(corner(a, 0), corner(b, 0));
        const double down = std::min(corner(a, 3), corner(b, 3)) - std::max(corner(a, 1), corner(b, 1));
        const double inter = std::max(across, 0.0) * std::max(down, 0.0);
        return inter > kThreshold * (area(a) + area(b) - inter);
      };
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return scores.get(image * n + a) > scores.get(image * n + b);
      });
      std::vector<std::int64_t> kept;
      for (const std::int64_t i : order) {
        if (std::none_of(kept.begin(), kept.end(), [&](std::int64_t other) { return overlaps(i, other); }))
          kept.push_back(i);
      }
      counts.truth.push_back(static_cast<double>(std::min<std::int64_t>(most, static_cast<std::int64_t>(kept.size()))));
      for (std::size_t i = 0; i < static_cast<std::size_t>(most); ++i)
        ids.truth.push_back(i < kept.size() ? static_cast<double>(kept[i]) : -1);
    }
  });
  args.boxes = boxes.tensor(), args.scores = scores.tensor(), args.ids = ids.tensor(), args.counts = counts.tensor();
  args.iou_threshold = kThreshold;
  trial.what = "2 images of " + std::to_string(n) + " boxes";
  trial.call(workspace, run, args);
}

}  // namespace

const OpTrials trials{make, 2};

}  // namespace quern::ops::nms
