// quern_sample's kernels: the same token from each of them, in whatever order their threads run; the sizes of other
// samplers' tests.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string_view>

#include "tests/ops/manifest.h"
#include "tests/ops/sample_inputs.h"
#include "tests/support/temporary_folder.h"

namespace quern::test {
namespace {

// Without what few requests ask for: where there are clusters, they take such a call.
void keep_usual(SampleInput* in) {
  for (auto* of : {&in->typical_p, &in->n_sigma, &in->xtc_probability, &in->xtc_threshold, &in->dynamic_range,
                   &in->dynamic_exponent})
    of->clear();
  in->flags &= ~static_cast<std::uint32_t>(QUERN_SAMPLE_TEMPERATURE_LAST | QUERN_SAMPLE_LOGPROBS_FILTERED);
  in->top_n = 0;
}
SampleInput make_usual(Random& random, std::int64_t vocab, std::size_t rows, bool filters, bool edits) {
  SampleInput in = make_input(random, vocab, Element::f32, rows);
  add_filters(random, &in);
  if (!filters) in.top_k.clear(), in.top_p.clear(), in.min_p.clear();
  if (edits) add_edits(random, &in);
  keep_usual(&in);
  for (std::size_t i = 0; i < rows; ++i) {
    in.seeds.push_back(static_cast<std::int64_t>(random.next()));
    in.offsets.push_back(static_cast<std::int64_t>(random.below(1000)));
  }
  return in;
}

// NaN, of rows with nothing left, as a number that compares.
SampleOutput without_nan(SampleOutput out) {
  for (float& v : out.logprobs) v = std::isnan(v) ? 1.0f : v;
  return out;
}

// A filter that is given and off is the portable kernel's, without it the call is for clusters: to the bit the same.
TEST(SampleKernels, DrawTheSameTokens) {
  Random random("sample kernels");
  for (const std::int64_t vocab : {300, 5000, 20000, 70000}) {
    for (int round = 0; round < 8; ++round) {
      const bool filters = (round & 1) != 0, edits = (round & 2) != 0;
      const SampleInput in = make_usual(random, vocab, 7, filters, edits);
      SampleInput rare = in;
      rare.typical_p.assign(in.count(), 1.0f);
      SampleInput many = in;  // rows for two multiprocessors: another kernel
      many.max_sms = 2;
      const SampleOutput out = SampleCall(round % 4 < 2 ? in : many).run(), other = SampleCall(rare).run();
      for (std::size_t i = 0; i < in.count(); ++i) {
        const std::string where = "vocab " + std::to_string(vocab) + " round " + std::to_string(round) + " row " +
                                  std::to_string(i) + ", QUERN_TEST_SEED=" + std::to_string(run_seed());
        EXPECT_EQ(out.ids[i], other.ids[i]) << where;
        EXPECT_EQ(out.status[i], other.status[i]) << where;
        EXPECT_EQ(std::memcmp(&out.logprobs[i], &other.logprobs[i], 4), 0) << where;
      }
      if (HasFailure()) return;
    }
  }
}

// Where the kernel for many rows would have to be waited for, another does the call, that for few rows if it is there,
// and the one that is wanted is there when its compilation has ended.
TEST(SampleKernels, AnotherServesWhileTheOneForManyRowsIsCompiled) {
  if (device_kind() == Kind::host64) GTEST_SKIP() << "a row that a warp of 64 reads has no cluster: one kernel for all";
  auto device = sized<quern_device_info>();
  ASSERT_EQ(quern_device(context(), &device, nullptr), QUERN_OK);
  Random random("sample meanwhile");
  const SampleInput in = make_usual(random, 5000, static_cast<std::size_t>(device.sm_count) / 2 + 1, true, false);
  const SampleOutput expected = without_nan(SampleCall(in).run());
  auto error = sized<quern_error>();
  const auto serve = [&](const Context& by) {
    SampleCall call(in);
    call.prepare();
    ASSERT_EQ(quern_sample(by.get(), &call.args, &error), QUERN_OK) << error.text;
    synchronize();
    EXPECT_TRUE(without_nan(call.read()) == expected) << "QUERN_TEST_SEED=" << run_seed();
  };
  const auto has = [](const Context& in_it, const char* constants) {
    const std::vector<std::string> lines = manifest_of(in_it.get());
    return std::ranges::any_of(lines, [&](const std::string& line) { return line.find(constants) != line.npos; });
  };
  for (const bool few : {false, true}) {
    const TemporaryFolder folder;
    const Context fresh = make_context([&](quern_context_options& o) { o.cache_path = folder.c_str(); });
    if (few) warm(fresh.get(), {}, "sample * dtype=f32 filters=1 clusters=1\n");
    serve(fresh);
    EXPECT_EQ(has(fresh, "small=1"), !few);
    if (few) {
      EXPECT_TRUE(has(fresh, "streams=0 small=0"));
      continue;
    }
    ASSERT_EQ(quern_wait(fresh.get(), 120000, &error), QUERN_OK) << error.text;
    EXPECT_TRUE(has(fresh, "streams=1"));
    serve(fresh);
  }
  // The kernel that is wanted is not waited for: here its compiler does not answer, and the call is done all the same.
  if (device_kind() == Kind::host) {
    const TemporaryFolder folder, tools;
    const auto first = [&](quern_context_options& o) { o.cache_path = folder.c_str(); };
    const auto line_of = [](const Context& by) {
      for (const std::string& line : manifest_of(by.get()))
        if (line.find("small=1") != line.npos) return line;
      return std::string();
    };
    {
      const TemporaryFolder other;
      const Context by = make_context([&](quern_context_options& o) { o.cache_path = other.c_str(); });
      serve(by);
      const std::string line = line_of(by);
      ASSERT_NE(line, "");
      warm(make_context(first).get(), {}, line + "\n");
    }
    const std::string silent = std::string(tools.c_str()) + "/c++";
    std::ofstream(silent) << "#!/bin/sh\nif [ \"$1\" = --version ]; then exec /usr/bin/c++ \"$@\"; fi\nexec sleep 60\n";
    ASSERT_EQ(chmod(silent.c_str(), 0755), 0);
    const Context by = make_context([&](quern_context_options& o) {
      first(o);
      o.host_compiler = silent.c_str();
    });
    serve(by);
    EXPECT_EQ(quern_wait(by.get(), 0, &error), QUERN_PENDING) << "the kernel that is wanted was not begun";
  }
  // Nobody stands in for a call that may not wait.
  const TemporaryFolder other;
  const Context cached = make_context([&](quern_context_options& o) { o.cache_path = other.c_str(); });
  SampleCall call(in);
  call.prepare();
  call.args.flags |= QUERN_CALL_CACHED_ONLY;
  EXPECT_EQ(quern_sample(cached.get(), &call.args, &error), QUERN_MISS);
  EXPECT_TRUE(std::string_view(error.text).find("BLOCKS=") != std::string_view::npos)
      << "not the kernel for many rows: " << error.text;
}

// What may stay is guessed from a part of the row: where the guess lets too much or too little through, the row is read
// again. Whatever the logits, whatever is asked for.
TEST(SampleKernels, DrawTheSameTokensWhateverTheGuess) {
  Random random("sample guesses");
  const std::vector<LogitShape> shapes = {
      LogitShape::normal, LogitShape::peaked,    LogitShape::equal,    LogitShape::two,  LogitShape::rising,
      LogitShape::holes,  LogitShape::staircase, LogitShape::denormal, LogitShape::huge, LogitShape::heaps};
  for (int round = 0; round < 3; ++round) {
    SampleInput in;
    in.vocab = 20000;
    for (const LogitShape shape : shapes) in.logits.push_back(make_logits(random, shape, in.vocab, Element::f32));
    const std::size_t rows = in.count();
    in.temperature = drawn(random, rows, {1.0f, 0.8f, 0.0f, 2.0f});
    in.top_k = drawn(random, rows, {0, 0, 64, 65, 100, 500, 2000, 3000, 19999});
    in.top_p = drawn(random, rows, {1.0f, 0.9f, 0.99f});
    in.min_p = drawn(random, rows, {0.0f, 0.0f, 0.01f});
    if (round == 2) add_edits(random, &in);
    keep_usual(&in);
    SampleInput rare = in;
    rare.typical_p.assign(rows, 1.0f);
    const SampleOutput other = SampleCall(rare).run();
    // Rows that are many for the multiprocessors have a kernel of their own.
    for (const std::int32_t sms : {0, 2, 8}) {
      in.max_sms = sms;
      const SampleOutput out = SampleCall(in).run();
      for (std::size_t i = 0; i < rows; ++i)
        EXPECT_EQ(out.ids[i], other.ids[i])
            << "round " << round << " row " << i << " top_k " << in.top_k[i] << " top_p " << in.top_p[i] << " min_p "
            << in.min_p[i] << " sms " << sms << ", QUERN_TEST_SEED=" << run_seed();
      if (HasFailure()) return;
    }
  }
}

// Ends that sums over bins do not show: a heap of equal logits a little more than half a bin below the largest, and
// top_k that ends among equal tokens which weigh nothing.
TEST(SampleKernels, FindEndsThatBinsDoNotShow) {
  Random random("sample ends");
  SampleInput in;
  in.vocab = 102001;
  for (const double below : {0.0027, 0.0028, 0.0029, 0.0030}) {
    std::vector<float>& x = in.logits.emplace_back(static_cast<std::size_t>(in.vocab));
    for (std::size_t t = 0; t < x.size(); ++t)
      x[t] = t < 30000 ? static_cast<float>(10.0 - below) : static_cast<float>(random.below(9'000'000)) * 1e-6f;
    x[70000] = 10.0f;
  }
  std::vector<float>& weightless = in.logits.emplace_back(static_cast<std::size_t>(in.vocab), -100.0f);
  std::fill(weightless.begin() + 500, weightless.begin() + 3500, -28.0f);
  weightless[50000] = 0.0f;
  const std::size_t rows = in.count();
  in.temperature.assign(rows, 1.0f);
  in.top_k.assign(rows, 0), in.top_k.back() = 1000;
  in.top_p.assign(rows, 0.99f), in.top_p.back() = 1.0f;
  in.logprobs = false;
  SampleInput rare = in;
  rare.typical_p.assign(rows, 1.0f);
  for (std::uint64_t draw = 0; draw < 2; ++draw) {
    const SampleOutput other = SampleCall(rare).run();
    for (const std::int32_t sms : {0, 2}) {
      in.max_sms = sms;
      const SampleOutput out = SampleCall(in).run();
      for (std::size_t i = 0; i < rows; ++i) {
        EXPECT_EQ(out.ids[i], other.ids[i]) << "row " << i << " sms " << sms;
        EXPECT_GE(out.ids[i], 0) << "row " << i << " sms " << sms;
      }
    }
    rare.seed = ++in.seed;
  }
}

// Rows with penalties that only lower logits: of likely tokens, which lists name, some are NaN, and some are banned.
SampleInput make_waiting(Random& random, std::int64_t vocab, std::size_t rows, bool alike, bool lists, bool bans) {
  SampleInput in;
  in.vocab = vocab;
  in.logprobs = false;  // their sums would not wait
  for (std::size_t i = 0; i < rows; ++i) {
    in.logits.push_back(make_logits(random, LogitShape::normal, in.vocab, Element::f32));
    std::vector<float>& x = in.logits.back();
    std::vector<std::int32_t> order(x.size());
    for (std::size_t t = 0; t < order.size(); ++t) order[t] = static_cast<std::int32_t>(t);
    std::partial_sort(order.begin(), order.begin() + 200, order.end(), [&](std::int32_t a, std::int32_t b) {
      return x[static_cast<std::size_t>(a)] > x[static_cast<std::size_t>(b)];
    });
    const auto likely = [&](std::size_t most) {
      std::vector<std::int32_t> list(random.below(most + 1));
      for (auto& t : list)
        t = random.below(3) == 0 ? static_cast<std::int32_t>(random.below(x.size())) : order[random.below(200)];
      return list;
    };
    in.output.push_back(likely(400)), in.prompt.push_back(likely(100));
    if (bans) in.banned.push_back(likely(20));
    if (alike) {
      std::fill(x.begin(), x.end(), 1.5f);
    } else if (random.below(2) != 0) {
      x[static_cast<std::size_t>(order[random.below(200)])] = NAN;
    }
  }
  in.prompt_as_mask = alike ? !lists : random.below(2) != 0;
  in.output_as_counts = alike ? !lists : random.below(4) == 0;
  in.temperature = drawn(random, rows, {0.8f, 1.5f, 0.0f}), in.top_p = drawn(random, rows, {0.9f, 1.0f});
  in.repetition = drawn(random, rows, {1.0f, 1.1f, 3.0f}), in.presence = drawn(random, rows, {0.0f, 0.5f});
  in.frequency = drawn(random, rows, {0.0f, 0.25f});
  return in;
}

// Such penalties wait until a logit has reached the bound.
TEST(SampleKernels, DrawTheSameTokensWhereEditsWait) {
  Random random("sample waits");
  for (int round = 0; round < 12; ++round) {
    constexpr std::size_t kRows = 6;
    const bool alike = round % 4 == 3;  // equal logits, so that there are too many candidates,
    const bool lists = round % 8 != 3;  // with lists in half of these rounds, which are looked through in mid-stream
    // Whether banned tokens are NaN matters to the status alone: without one, and without bans, lists wait, too.
    const bool bans = !alike && round % 4 != 0, told = round % 4 != 2;
    SampleInput in = make_waiting(random,
                                  round % 3 == 0   ? 4000
                                  : round % 3 == 1 ? 9003
                                                   : 20480,
                                  kRows, alike, lists, bans);
    in.top_k = drawn(random, kRows, {50, 10, 1, 300, 0}), in.min_p = drawn(random, kRows, {0.0f, 0.02f});
    SampleInput rare = in;
    rare.typical_p.assign(kRows, 1.0f);
    const SampleOutput other = SampleCall(rare).run();
    for (const std::int32_t sms : {0, 1, 4}) {
      in.max_sms = sms;
      SampleCall call(in);
      if (!told) call.args.status = nullptr;
      const SampleOutput out = call.run();
      for (std::size_t i = 0; i < kRows; ++i) {
        const std::string where = "round " + std::to_string(round) + " row " + std::to_string(i) + " sms " +
                                  std::to_string(sms) + ", QUERN_TEST_SEED=" + std::to_string(run_seed());
        EXPECT_EQ(out.ids[i], other.ids[i]) << where;
        if (told) {
          EXPECT_EQ(out.status[i], other.status[i]) << where;
        }
      }
      if (HasFailure()) return;
    }
  }
}

// In rows that are few, and so kept, they wait until few tokens are left. Some of these rows have to be looked at
// again: where logits are alike there are too many, where a penalty is large some that count are not among them. Others
// have fewer tokens than are asked for, or none but banned ones, which may wait where no status is asked for.
TEST(SampleKernels, DrawTheSameTokensWhereEditsOfFewRowsWait) {
  Random random("sample few wait");
  for (int round = 0; round < 18; ++round) {
    constexpr std::size_t kRows = 2;
    const bool alike = round % 6 == 5, scarce = round % 6 == 4, bans = round % 2 != 0;
    SampleInput in = make_waiting(random,
                                  round % 3 == 0   ? 9003
                                  : round % 3 == 1 ? 20480
                                                   : 70001,
                                  kRows, alike, round % 12 < 6, bans);
    if (scarce) {
      // Every chunk but one has nothing left, and of that one a few tokens.
      for (auto& x : in.logits) std::fill(x.begin() + static_cast<std::ptrdiff_t>(random.below(6)), x.end(), -INFINITY);
    }
    if (round == 7) {
      in.banned.assign(kRows, {});
      for (std::size_t i = 0; i < kRows; ++i) {
        std::fill(in.logits[i].begin() + 3, in.logits[i].end(), -INFINITY);
        in.banned[i] = {2, 0, 1};
      }
    }
    if (round % 3 == 2) in.presence.assign(kRows, 6.0f);
    in.top_k = in.vocab > 70000 ? drawn(random, kRows, {50, 20}) : drawn(random, kRows, {5, 6, 1});
    SampleInput rare = in;
    rare.typical_p.assign(kRows, 1.0f);
    const SampleOutput other = SampleCall(rare).run();
    for (const std::int32_t sms : {0, 1, 3}) {
      in.max_sms = sms;
      SampleCall call(in);
      if (bans) call.args.status = nullptr;
      const SampleOutput out = call.run();
      for (std::size_t i = 0; i < kRows; ++i) {
        const std::string where = "round " + std::to_string(round) + " row " + std::to_string(i) + " sms " +
                                  std::to_string(sms) + ", QUERN_TEST_SEED=" + std::to_string(run_seed());
        EXPECT_EQ(out.ids[i], other.ids[i]) << where;
        if (!bans) {
          EXPECT_EQ(out.status[i], other.status[i]) << where;
        }
      }
      if (HasFailure()) return;
    }
  }
}

// `host` in an unfair order with late copies, by seed: a missing barrier gives another token, or none.
TEST(SampleKernels, unfair) {
  if (on_cuda()) GTEST_SKIP() << "the GPU has a schedule of its own";
  Random random("sample schedules");
  for (int round = 0; round < 8; ++round) {
    SampleInput in;
    if (round < 6) {
      in = make_usual(random, round < 3 ? 5000 : 9000, 3, round != 0, (round & 1) != 0);
    } else {
      in = make_waiting(random, 9003, 2, false, true, false);
      in.top_k = {5, 3};
    }
    for (const bool rare : {false, true}) {
      SampleInput given = in;
      if (rare) given.typical_p.assign(in.count(), 1.0f);
      given.max_sms = round % 3 == 0 || round == 7 ? 0 : 2;
      const SampleOutput fair = without_nan(SampleCall(given).run());
      for (std::uint64_t seed = 0; seed < 2; ++seed) {
        const Context unfair = make_context([&](quern_context_options& o) {
          o.flags |= QUERN_CONTEXT_HOST_SEED;
          o.host_seed = run_seed() * 2 + seed;
        });
        SampleCall call(given);
        call.prepare();
        auto error = sized<quern_error>();
        ASSERT_EQ(quern_sample(unfair.get(), &call.args, &error), QUERN_OK) << error.text;
        EXPECT_TRUE(without_nan(call.read()) == fair)
            << "round " << round << (rare ? ", rare" : "") << ", seed " << seed << ", QUERN_TEST_SEED=" << run_seed();
      }
    }
  }
}

// FlashInfer's tests' sizes: the token is one of those that stay, whoever the row's neighbours are.
struct Grid {
  std::int64_t vocab;
  std::size_t rows;
};
class SampleGrid : public testing::TestWithParam<Grid> {};
TEST_P(SampleGrid, TokensAreOfTheKeptSet) {
  const Grid& grid = GetParam();
  Random random("sample grid " + std::to_string(grid.vocab));
  const bool few = !on_cuda();
  SampleInput in;
  in.vocab = grid.vocab;
  const std::size_t kinds = few ? 1 : 3;
  for (std::size_t r = 0; r < kinds; ++r)
    in.logits.push_back(
        make_logits(random, r == 1 ? LogitShape::peaked : LogitShape::normal, grid.vocab, Element::f32));
  const std::size_t rows = few ? std::min<std::size_t>(grid.rows, 3) : grid.rows;
  for (const std::int32_t k : {0, 10, 100, 500}) {
    for (const float p : {0.1f, 0.5f, 0.9f, 1.0f}) {
      if (few && grid.vocab > 32000 && (k == 100 || p == 0.5f)) continue;
      in.rows.clear(), in.temperature.clear();
      for (std::size_t i = 0; i < rows; ++i) in.rows.push_back(static_cast<std::int32_t>(i % kinds));
      in.temperature.assign(rows, 0.9f), in.top_k.assign(rows, k), in.top_p.assign(rows, p);
      in.seed = random.next();
      const SampleOutput out = SampleCall(in).run();
      for (std::size_t kind = 0; kind < std::min(kinds, rows); ++kind) {
        const SampleRow row = expect_row(in, kind);
        if (row.close) continue;
        std::vector<bool> kept(static_cast<std::size_t>(grid.vocab));
        for (const auto t : row.kept) kept[static_cast<std::size_t>(t)] = true;
        for (std::size_t i = kind; i < rows; i += kinds) {
          ASSERT_GE(out.ids[i], 0);
          ASSERT_TRUE(kept[static_cast<std::size_t>(out.ids[i])]) << "k " << k << " p " << p << " row " << i;
          const double exact = row.whole_logprob[static_cast<std::size_t>(out.ids[i])];
          ASSERT_NEAR(out.logprobs[i], exact, 2e-5 + 4e-6 * std::fabs(exact)) << "k " << k << " p " << p;
        }
      }
    }
  }
}
std::vector<Grid> grids() {
  std::vector<Grid> all;
  for (const std::int64_t vocab : {111, 32000, 128256, 151936, 262144})
    for (const std::size_t rows : {1, 99, 989}) all.push_back({vocab, rows});
  return all;
}
std::string name_grid(const testing::TestParamInfo<Grid>& info) {
  return std::to_string(info.param.vocab) + "_x_" + std::to_string(info.param.rows);
}
INSTANTIATE_TEST_SUITE_P(FlashInfer, SampleGrid, testing::ValuesIn(grids()), name_grid);

}  // namespace
}  // namespace quern::test
