// nms against a loop: the very boxes, by descending score, for boxes whose areas are exact in f32; ties, NaN, classes,
// lengths, thresholds; and its refusals.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "tests/ops/array.h"
#include "tests/ops/compiled.h"
#include "tests/ops/rows.h"
#include "tests/ops/used_workspace.h"

namespace quern::test {
namespace {

const ForEveryTarget kTemplates = {"nms * stage=overlaps", "nms * stage=keep"};
constexpr ThreeCalls<quern_nms_args> kNms{quern_nms, quern_nms_workspace, quern_nms_prepare};

struct NmsCase {
  std::string name;
  std::int64_t images = 2, n = 33, most = 33, gap = 0;
  int classes = 3;  // 0: none are given
  int spread = 60;  // of the boxes' corners
  bool lengths = false, counts = true, specials = false;
  float iou_threshold = 0.25f;
  double score_threshold = std::numeric_limits<double>::quiet_NaN();
  int max_sms = 0;
};

class Suppressing {
 public:
  explicit Suppressing(const NmsCase& c)
      : args(sized<quern_nms_args>()),
        boxes(Element::f32, {c.images, c.n, 4}, {c.n * (4 + c.gap), 4 + c.gap, 1}),
        scores(Element::f32, {c.images, c.n}, {c.n + c.gap, 1}),
        classes(IntegerBits{32}, {c.images, c.n}),
        lengths(IntegerBits{32}, {c.images}),
        ids(IntegerBits{32}, {c.images, c.most}, {c.most + c.gap, 1}),
        counts(IntegerBits{32}, {c.images}),
        c_(c) {
    Random random(c.name);
    for (std::int64_t m = 0; m < c.images; ++m) {
      for (std::int64_t i = 0; i < c.n; ++i) {
        for (int d = 0; d < 2; ++d) {
          // Some have no area, some have sides below 0.
          const int low = random.between(-c.spread, c.spread), side = random.between(c.specials ? -4 : 1, 30);
          boxes.set(low, m, i, d), boxes.set(low + side, m, i, 2 + d);
        }
        scores.set(random.between(-20, 40) / 8.0, m, i);
        classes.set_integer(random.between(-1, std::max(c.classes - 2, -1)), m, i);
        if (!c.specials) continue;
        constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = HUGE_VAL;
        const double odd[] = {kNan, kInfinity, -kInfinity, -0.0, 0.0};
        if (random.below(3) == 0) scores.set(odd[random.below(5)], m, i);
        if (random.below(6) == 0) boxes.set(kNan, m, i, static_cast<std::int64_t>(random.below(4)));
      }
      lengths.set_integer(m % 2 == 0 ? c.n / 2 : c.n, m);
    }
    args.boxes = boxes.tensor(), args.scores = scores.tensor(), args.ids = ids.tensor(), args.max_sms = c.max_sms;
    if (c.classes > 0) args.classes = classes.tensor();
    if (c.lengths) args.lengths = lengths.tensor();
    if (c.counts) args.counts = counts.tensor();
    args.iou_threshold = c.iou_threshold;
    if (!std::isnan(c.score_threshold)) {
      args.score_threshold = static_cast<float>(c.score_threshold), args.flags |= QUERN_NMS_SCORE_THRESHOLD;
    }
    upload();
  }
  void upload() {
    for (Array* a : {&boxes, &scores, &classes, &lengths, &ids, &counts}) a->upload();
  }
  void run(quern_context* context) {
    ASSERT_NO_FATAL_FAILURE(run_in_used_workspace(context, kNms, args));
    ids.download(), counts.download();
  }
  void check() const {
    std::int64_t wrong = 0;
    for (std::int64_t m = 0; m < c_.images; ++m) {
      const std::vector<std::int64_t> kept = kept_of(m);
      for (std::int64_t i = 0; i < c_.most; ++i) {
        const auto at = static_cast<std::size_t>(i);
        wrong += ids.integer(m, i) != (at < kept.size() ? kept[at] : -1);
      }
      const auto many = std::min(static_cast<std::int64_t>(kept.size()), c_.most);
      wrong += c_.counts ? counts.integer(m) != many : !counts.is_untouched(m);
    }
    EXPECT_EQ(wrong, 0) << c_.name << "; QUERN_TEST_SEED=" << run_seed();
  }

  quern_nms_args args;
  Array boxes, scores, classes, lengths, ids, counts;

 private:
  double area(std::int64_t m, std::int64_t i) const {
    return std::max(boxes.get(m, i, 2) - boxes.get(m, i, 0), 0.0) *
           std::max(boxes.get(m, i, 3) - boxes.get(m, i, 1), 0.0);
  }
  bool overlap(std::int64_t m, std::int64_t i, std::int64_t j) const {
    double inter = 1;
    for (int d = 0; d < 2; ++d) {
      for (const std::int64_t box : {i, j}) {
        if (std::isnan(boxes.get(m, box, d)) || std::isnan(boxes.get(m, box, 2 + d))) return false;
      }
      inter *= std::max(
          std::min(boxes.get(m, i, 2 + d), boxes.get(m, j, 2 + d)) - std::max(boxes.get(m, i, d), boxes.get(m, j, d)),
          0.0);
    }
    return inter > static_cast<double>(c_.iou_threshold) * (area(m, i) + area(m, j) - inter);
  }
  std::vector<std::int64_t> kept_of(std::int64_t m) const {
    std::vector<std::int64_t> order, kept;
    for (std::int64_t i = 0; i < (c_.lengths ? lengths.integer(m) : c_.n); ++i) {
      const double score = scores.get(m, i);
      if (!std::isnan(score) && !(score <= c_.score_threshold)) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return scores.get(m, a) > scores.get(m, b); });
    for (const std::int64_t i : order) {
      const bool struck = std::any_of(kept.begin(), kept.end(), [&](std::int64_t j) {
        return (c_.classes == 0 || classes.integer(m, i) == classes.integer(m, j)) && overlap(m, j, i);
      });
      if (!struck) kept.push_back(i);
    }
    return kept;
  }

  NmsCase c_;
};

std::vector<NmsCase> nms_cases() {
  std::vector<NmsCase> cases;
  const auto add = [&](const std::string& name, const std::function<void(NmsCase&)>& change) {
    NmsCase c;
    c.name = name;
    change(c);
    cases.push_back(c);
  };
  for (const std::int64_t n : {0, 1, 7, 33, 64, 65, 128, 701})
    add("n" + std::to_string(n), [&](NmsCase& c) { c.n = c.most = n; });
  add("dense", [](NmsCase& c) { c.n = c.most = 300, c.spread = 8, c.classes = 0; });
  add("sparse", [](NmsCase& c) { c.n = 300, c.most = 350, c.spread = 4000; });
  add("few_wanted", [](NmsCase& c) { c.n = 300, c.most = 5, c.spread = 500; });
  add("none_wanted", [](NmsCase& c) { c.most = 0; });
  add("lengths", [](NmsCase& c) { c.n = c.most = 150, c.lengths = true, c.images = 3; });
  add("specials", [](NmsCase& c) { c.n = c.most = 200, c.specials = true, c.images = 3; });
  add("threshold", [](NmsCase& c) { c.n = c.most = 100, c.score_threshold = 1.5; });
  add("threshold_above_all", [](NmsCase& c) { c.score_threshold = 100; });
  add("threshold_0", [](NmsCase& c) { c.score_threshold = 0, c.specials = true; });
  add("touching", [](NmsCase& c) { c.iou_threshold = 0.0f, c.n = c.most = 90; });
  add("all_kept", [](NmsCase& c) { c.iou_threshold = 1.0f, c.n = c.most = 90, c.spread = 3; });
  add("gap", [](NmsCase& c) { c.gap = 3, c.counts = false; });
  add("many_images", [](NmsCase& c) { c.images = 40, c.n = c.most = 12, c.max_sms = 1; });
  add("no_images", [](NmsCase& c) { c.images = 0; });
  return cases;
}

TEST(Nms, KeepsWhatNoBetterBoxOverlaps) {
  for (const NmsCase& c : nms_cases()) {
    Suppressing suppressing(c);
    ASSERT_NO_FATAL_FAILURE(suppressing.run(context())) << c.name;
    suppressing.check();
  }
}

TEST(NmsScheduling, ChangesNothing) {
  if (on_cuda()) GTEST_SKIP() << "the GPU has a schedule of its own";
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    const Context unfair = unfair_context(seed);
    NmsCase c;
    c.name = "unfair", c.n = c.most = 200, c.max_sms = seed == 0 ? 1 : 0;
    Suppressing suppressing(c);
    ASSERT_NO_FATAL_FAILURE(suppressing.run(unfair.get()));
    suppressing.check();
  }
}

TEST(NmsRefuses, EveryWrongArgument) {
  using S = Suppressing&;
  const std::vector<Mistake<Suppressing>> mistakes = {
      {"boxes NULL", {"boxes", "NULL"}, [](S s) { s.args.boxes = nullptr; }},
      {"scores NULL", {"scores", "NULL"}, [](S s) { s.args.scores = nullptr; }},
      {"ids NULL", {"ids", "NULL"}, [](S s) { s.args.ids = nullptr; }},
      {"boxes' dtype", {"boxes", "int32", "f32"}, [](S s) { s.boxes.box().tensor.dtype = kInt32; }},
      {"scores' dtype", {"scores", "int32", "f32"}, [](S s) { s.scores.box().tensor.dtype = kInt32; }},
      {"classes' dtype", {"classes", "f32", "int32"}, [](S s) { s.classes.box().tensor.dtype = kFloat32; }},
      {"ids' dtype", {"ids", "f32", "int32"}, [](S s) { s.ids.box().tensor.dtype = kFloat32; }},
      {"boxes' rank", {"boxes", "dimensions"}, [](S s) { s.boxes.box().tensor.ndim = 2; }},
      {"boxes' corners", {"boxes.shape[2]", "4"}, [](S s) { s.boxes.box().shape[2] = 5; }},
      {"too many boxes", {"boxes.shape[1]", "32768"}, [](S s) { s.boxes.box().shape[1] = 32769; }},
      {"scores' number", {"scores.shape[1]", "33"}, [](S s) { s.scores.box().shape[1] = 32; }},
      {"classes' images", {"classes.shape[0]", "2"}, [](S s) { s.classes.box().shape[0] = 1; }},
      {"ids' images", {"ids.shape[0]", "2"}, [](S s) { s.ids.box().shape[0] = 3; }},
      {"lengths' number", {"lengths.shape[0]", "2"}, [](S s) { s.lengths.box().shape[0] = 1; }},
      {"counts' number", {"counts.shape[0]", "2"}, [](S s) { s.counts.box().shape[0] = 1; }},
      {"corners' stride", {"boxes.strides[2]", "1"}, [](S s) { s.boxes.box().strides[2] = 2; }},
      {"ids over each other", {"ids.strides[0]"}, [](S s) { s.ids.box().strides[0] = 8; }},
      {"iou_threshold below 0", {"iou_threshold", "0 to 1"}, [](S s) { s.args.iou_threshold = -0.5f; }},
      {"iou_threshold NaN", {"iou_threshold", "0 to 1"}, [](S s) { s.args.iou_threshold = NAN; }},
      {"a threshold without its flag",
       {"score_threshold", "SCORE_THRESHOLD"},
       [](S s) { s.args.score_threshold = 0.5f; }},
      {"score_threshold NaN",
       {"score_threshold", "numbers"},
       [](S s) { s.args.score_threshold = NAN, s.args.flags |= QUERN_NMS_SCORE_THRESHOLD; }},
      {"an unknown flag", {"flags"}, [](S s) { s.args.flags = 1u << 17; }},
      {"without data", {"scores", "NULL"}, [](S s) { s.scores.box().tensor.data = nullptr; }, true},
      {"no size", {"size"}, [](S s) { s.args.size = 0; }},
  };
  const std::vector<Mistake<Suppressing>> by_value = {
      {"a length too large",
       {"lengths[1]", "34", "0 to 33"},
       [](S s) { s.lengths.set_integer(34, 1), s.upload(); },
       true},
  };
  NmsCase good;
  good.name = "refused", good.lengths = true;
  const auto make = [&] { return std::make_unique<Suppressing>(good); };
  const auto watch = [](Suppressing& s) {
    return [&s] {
      s.ids.download(), s.counts.download();
      return s.ids.is_untouched(0, 0) && s.ids.is_untouched(1, 32) && s.counts.is_untouched(0);
    };
  };
  expect_all_refused(mistakes, kNms, make, watch);
  if (!on_cuda()) expect_all_refused(by_value, kNms, make, watch);
}

}  // namespace
}  // namespace quern::test
