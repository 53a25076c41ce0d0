// Products in variants of the test's choosing, also where the model would take another: each variant for few rows and
// few columns, shared by every number of blocks, with every number of rows at which it does something else; those by
// tensor map and mma.sync, which targets take that are not here; those by Hopper's warpgroups for many rows; and all
// that may follow the sums; the same bits under every schedule.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "jit/compiler.h"
#include "jit/engine.h"
#include "jit/tensor_maps.h"
#include "sources/gemm/plan/choose.h"
#include "sources/gemm/plan/tunings.h"
#include "sources/workspace.h"
#include "tests/ops/gemm_kinds.h"
#include "tests/ops/gemm_problem.h"

namespace quern::test {
namespace {

using ops::gemm::Choice;
using ops::gemm::Variant;

// What calls work with, below the C interface: a call by that cannot say which variant it wants.
class Library {
 public:
  explicit Library(std::optional<std::uint64_t> seed = {})
      : driver_(on_cuda() ? jit::open_cuda(0, {})
                          : jit::open_host({.threads = 2, .seeded = seed.has_value(), .seed = seed.value_or(0)})),
        service_([] {
          jit::Service::Options options;
          const char* folder = std::getenv("QUERN_TEST_CACHE");
          options.store.no_file = folder == nullptr;
          if (folder != nullptr) options.store.folder = folder;
          return options;
        }()),
        maps_(*driver_),
        tunings_(service_),
        engine_([this] {
          jit::EngineOptions options;
          options.driver = driver_.get();
          options.service = &service_;
          options.compile = compiled_once;
          options.describe = ops::describe;
          return options;
        }()) {}

  // Throws Error.
  void run(const GemmCase& c, GemmProblem& problem, const Choice& choice) {
    const ops::Runtime runtime{&engine_, driver_.get(), jit::Miss::compile, &maps_, &tunings_};
    GemmTensors& tensors = problem.tensors();
    if (!c.expression.empty()) tensors.epilogue.expression = &ops::expression::intern(c.expression);
    ops::gemm::Problem read = c.is_fp8() ? ops::gemm::read_problem(tensors.fp8, runtime, false)
                                         : ops::gemm::read_problem(tensors.gemm, runtime, false);
    const std::uint64_t bytes = ops::gemm::workspace_bytes(read, choice.variant);
    Buffer workspace(bytes, 0xff);
    std::vector<std::uint32_t> counters(std::min(bytes, ops::kCounterBytes) / 4);
    workspace.write(counters);
    ops::gemm::launch_as(runtime, read, choice, workspace.data(), bytes);
    synchronize();
    workspace.read(counters.data(), counters.size() * 4);
    EXPECT_EQ(std::count(counters.begin(), counters.end(), 0u), static_cast<std::ptrdiff_t>(counters.size()));
  }

 private:
  // Engines come and go with the schedules, what they compile stays.
  static jit::Compiled compiled_once(const jit::CompileJob& job) {
    static std::mutex mutex;
    static std::map<std::string, jit::Compiled> done;
    static jit::Compilers compilers{jit::CompilerOptions{}};
    const std::lock_guard lock(mutex);
    const auto found = done.find(job.source);
    return found != done.end() ? found->second : done.emplace(job.source, compilers.compile(job)).first->second;
  }

  std::unique_ptr<jit::Driver> driver_;
  jit::Service service_;
  jit::TensorMaps maps_;
  ops::gemm::Tunings tunings_;
  jit::Engine engine_;
};

Library& fair() {
  static Library one;
  return one;
}

struct Forced {
  Choice choice;
  std::vector<GemmCase> cases;  // of one kernel
  std::string name;
};
void PrintTo(const Forced& forced, std::ostream* out) { *out << forced.name; }

using Change = std::function<void(GemmCase&)>;

// Every number of rows, columns and terms at which a variant does something else. What is changed about the operands or
// about what follows the sums is the same for few terms as for many: those cases have as many rows and columns, and
// fewer terms.
Forced forced_as(const Choice& choice, const std::string& name, const GemmCase& common, const Change& change = {}) {
  Forced forced{choice, {}, name_of(choice.variant)};
  if (choice.parts > 1) forced.name += "_by_" + std::to_string(choice.parts);
  forced.name += '_' + name;
  const auto one = [&](int m, int n, int k) {
    GemmCase c = of_shape(common, m, n, k);
    if (change) change(c);
    c.name = forced.name + '_' + std::to_string(m) + 'x' + std::to_string(c.n) + 'x' + std::to_string(c.k);
    forced.cases.push_back(std::move(c));
  };
  const int many = change ? 528 : 1040, fewer = change ? 272 : 528, most = change ? 1040 : 4112;
  for (const int m : {1, 7, 16, 17, 63, 64, 65, 128}) one(m, m % 2 == 1 ? 40 : 264, m % 3 == 0 ? many : fewer);
  for (const int n : {8, 24, 136}) one(33, n, n == 24 ? 16 : 144);
  one(20, 16, most);
  one(130, 72, 272);
  return forced;
}

void bias_and_c(GemmCase& c) { c.bias = Element::bf16, c.c = Element::f32, c.padding = 16, c.out_padding = 3; }
void constant_b(GemmCase& c) { c.flags = std::uint32_t{QUERN_CALL_PROGRAMMATIC} | QUERN_GEMM_CONSTANT_B; }

// What does not hang on a tile's size, or on who shares it.
void add_rest(const Choice& choice, std::vector<Forced>* all) {
  const auto add = [&](const char* name, const GemmCase& common, const Change& change) {
    all->push_back(forced_as(choice, name, common, change));
  };
  add("bias_c", fp8_vectors(), bias_and_c);
  add("constant_b", fp8_blocks(), constant_b);
  add("c_is_out", gemm_of(Element::bf16), [](GemmCase& c) { c.c = Element::bf16, c.c_is_out = true; });
  add("other_codes", fp8_blocks(),
      [](GemmCase& c) { c.a = Element::e5m2, c.out = Element::e4m3, c.scales_by_row = true; });
  add("tensor_scales", fp8_vectors(),
      [](GemmCase& c) { c.scale_a = c.scale_b = Scaling::tensor, c.b = Element::e5m2; });
  add("batched", gemm_of(Element::f16), [](GemmCase& c) { c.batch = 3; });
}

std::vector<Forced> narrow() {
  std::vector<Forced> all;
  for (const Variant variant : ops::gemm::kSmallM) {
    const Choice choice{variant, 1, 1};
    const auto add = [&](const std::string& name, const GemmCase& common, const Change& change = {}) {
      all.push_back(forced_as(choice, name, common, change));
    };
    for (std::size_t kind = 0; kind < 4; ++kind) add(gemm_kinds()[kind].name, gemm_kinds()[kind].common);  // but f32
    add("one_sm", fp8_blocks(), [](GemmCase& c) { c.max_sms = 1; });
    add("gate", fp8_blocks(), [](GemmCase& c) { c.gate = true, c.n = (c.n + 127) / 128 * 128, c.out = Element::bf16; });
    add("gate_vectors", fp8_vectors(), [](GemmCase& c) { c.gate = true, c.out = Element::f16; });
    if (variant == Variant::small_m_64x32 || variant == Variant::small_m_128x64) add_rest(choice, &all);
  }
  return all;
}

// The emulation of clusters takes 64 warps; tiles of 128 rows have room for two blocks' sums.
int most_parts(Variant variant) { return facts_of(variant).rows == 128 ? 2 : on_cuda() ? 8 : 5; }

std::vector<Forced> split_k() {
  std::vector<Forced> all;
  for (const Variant variant : ops::gemm::kSplitK) {
    for (int parts = 2; parts <= most_parts(variant); ++parts) {
      const Choice choice{variant, parts, 1};
      const auto add = [&](const std::string& name, const GemmCase& common, const Change& change = {}) {
        all.push_back(forced_as(choice, name, common, change));
      };
      // Which tiles of 112 columns do not take.
      if (variant != Variant::split_k_128x112) add("blocks", fp8_blocks());
      if (parts != std::min(3, most_parts(variant))) continue;
      for (std::size_t kind = 0; kind < 4; ++kind) {
        const GemmKind& of = gemm_kinds()[kind];
        if (std::string(of.name) != "blocks") add(of.name, of.common);
      }
      if (variant == Variant::split_k_64x128) add_rest(choice, &all);
      if (variant == Variant::split_k_128x112) add("bias_c", fp8_vectors(), bias_and_c);
    }
  }
  return all;
}

// Tiles of other numbers of rows in each case, in pairs or alone, whole or divided by the blocks of a cluster; several
// rows and columns of tiles, of which the last overlap with those before; and what may follow the sums.
std::vector<Forced> fitted() {
  std::vector<Forced> all;
  const auto add = [&](Variant variant, int parts, int peers, int tiles, const std::string& name,
                       const GemmCase& common, const Change& change = {}, int twins = 1) {
    std::string numbers;
    for (const int number : {parts, peers, tiles, twins}) numbers += '_' + std::to_string(number);
    Forced forced{{variant, parts, peers, tiles, twins}, {}, name_of(variant) + numbers + '_' + name};
    const auto one = [&](int m, int n, int k) {
      GemmCase c = of_shape(common, m, n, k);
      if (change) change(c);
      c.name = forced.name + '_' + std::to_string(m) + 'x' + std::to_string(c.n) + 'x' + std::to_string(c.k);
      forced.cases.push_back(std::move(c));
    };
    one(1, 8, 528), one(130, 264, 1040), one(257, 200, 784);
    if (!change) one(65, 520, 2064), one(128, 256, 1024);
    all.push_back(std::move(forced));
  };
  add(Variant::fitted_192x128, 3, 1, 2, "bf16", gemm_of(Element::bf16));
  add(Variant::fitted_96x128, 1, 1, 3, "f16", gemm_of(Element::f16));
  add(Variant::fitted_192x128, 1, 2, 2, "bf16", gemm_of(Element::bf16));
  add(Variant::fitted_192x128, 2, 2, 2, "vectors", fp8_vectors());
  add(Variant::fitted_96x128, 1, 2, 3, "bf16", gemm_of(Element::bf16), {}, 2);
  add(Variant::fitted_96x128, 1, 4, 3, "bf16", gemm_of(Element::bf16));
  add(Variant::fitted_96x128, 1, 1, 3, "vectors", fp8_vectors(), {}, 2);
  add(Variant::fitted_192x128, 1, 1, 2, "vectors", fp8_vectors());
  add(Variant::fitted_96x128, 1, 2, 4, "bias_c", fp8_vectors(), bias_and_c);
  add(Variant::fitted_192x128, 3, 1, 1, "bias_c", fp8_vectors(), bias_and_c);
  add(Variant::fitted_96x128, 1, 1, 3, "padded", gemm_of(Element::bf16),
      [](GemmCase& c) { c.out_padding = 3, c.padding = 16; });
  add(Variant::fitted_256x128, 1, 2, 3, "batched", gemm_of(Element::bf16), [](GemmCase& c) { c.batch = 3; });
  add(Variant::fitted_96x128, 1, 1, 3, "pairs_batched", gemm_of(Element::bf16), [](GemmCase& c) { c.batch = 2; }, 2);
  add(Variant::fitted_192x128, 2, 1, 2, "other_codes", fp8_vectors(),
      [](GemmCase& c) { c.scale_a = c.scale_b = Scaling::tensor, c.b = Element::e5m2, c.out = Element::f32; });
  return all;
}

// sliced_k, where a block's teams divide a tile's k blocks: fewer k blocks than teams, as many blocks to a tile as
// there is room for, one of them for several tiles, and everything that the kernel for all targets takes.
std::vector<Forced> sliced() {
  std::vector<Forced> all;
  const auto add = [&](const std::string& name, const GemmCase& common, const Change& change = {}) {
    Forced forced{{Variant::sliced_k, 1, 1}, {}, "sliced_k_" + name};
    const auto one = [&](int m, int n, int k) {
      GemmCase c = of_shape(common, m, n, k);
      if (change) change(c);
      c.name = forced.name + '_' + std::to_string(m) + 'x' + std::to_string(c.n) + 'x' + std::to_string(c.k);
      forced.cases.push_back(std::move(c));
    };
    one(1, 8, 16), one(16, 64, 528), one(7, 72, 1040), one(17, 40, 2064), one(5, 24, 4112), one(16, 264, 4112);
    all.push_back(std::move(forced));
  };
  for (const GemmKind& kind : gemm_kinds()) {
    if (std::string(kind.name) != "f32") add(kind.name, kind.common);  // which is multiplied without tensor cores
  }
  add("one_sm", fp8_blocks(), [](GemmCase& c) { c.max_sms = 1; });
  add("gate", fp8_blocks(), [](GemmCase& c) { c.gate = true, c.n = (c.n + 255) / 256 * 256, c.out = Element::bf16; });
  add("gate_vectors", fp8_vectors(), [](GemmCase& c) { c.gate = true, c.out = Element::f16; });
  add("alignment_4", gemm_of(Element::bf16), [](GemmCase& c) { c.alignment = 4, c.k += 2; });
  add("nn", gemm_of(Element::f16), [](GemmCase& c) { c.transposed_b = true; });
  add("tn", gemm_of(Element::bf16),
      [](GemmCase& c) { c.transposed_a = c.transposed_b = true, c.m = (c.m + 7) / 8 * 8; });
  add_rest({Variant::sliced_k, 1, 1}, &all);
  return all;
}

// Tiles by tensor map and mma.sync: fewer rows, columns and terms than a tile has, and several tiles for a block, which
// run on from one to the next; fewer k blocks than blocks that might divide them. Of f16 and bf16 alike but for the
// instruction. Where what follows the sums is changed, whole tiles and parts of them in either direction and several
// for a block are enough, of fewer k blocks.
Forced mapped_as(const Choice& choice, const std::string& name, const GemmCase& common, const Change& change = {}) {
  Forced forced{choice, {}, name_of(choice.variant)};
  if (choice.parts == ops::gemm::kLastWave) forced.name += "_shared";
  forced.name += '_' + name;
  const auto one = [&](int m, int n, int k, int max_sms) {
    GemmCase c = of_shape(common, m, n, k);
    if (max_sms != 0) c.max_sms = max_sms;
    if (change) change(c);
    c.name = forced.name + '_' + std::to_string(m) + 'x' + std::to_string(c.n) + 'x' + std::to_string(c.k);
    forced.cases.push_back(std::move(c));
  };
  one(1, 8, 8, 0), one(65, 200, 136, 0), one(256, 192, 64, 0), one(100, 136, 128, 0), one(100, 136, 904, 0);
  one(130, 264, 328, 1), one(513, 40, 200, 1), one(257, 392, 128, 2);
  if (change) {
    one(300, 392, 200, 2), one(600, 200, 136, 2);
  } else {
    one(300, 584, 520, 3), one(600, 200, 264, 2), one(700, 392, 712, 4);
  }
  return forced;
}

std::vector<Forced> mapped() {
  std::vector<Forced> all;
  for (const Variant variant : ops::gemm::kTmaMma) {
    const Choice choice{variant, 1, 1};
    const auto add = [&](const std::string& name, Element element, const Change& change = {}) {
      all.push_back(mapped_as(choice, name, gemm_of(element), change));
    };
    add("bf16", Element::bf16);
    all.push_back(mapped_as({variant, ops::gemm::kLastWave, 1}, "bf16", gemm_of(Element::bf16)));
    add("f16_f32", Element::f16, [](GemmCase& c) { c.out = Element::f32; });
    add("bias_c", Element::bf16, bias_and_c);
    add("gate", Element::f16, [](GemmCase& c) { c.gate = true; });
    add("shared_b", Element::bf16, [](GemmCase& c) { c.batch = 3, c.shared_b = true; });
    if (variant == Variant::tma_mma_128x256) {
      add("batched", Element::f16, [](GemmCase& c) { c.batch = 3; });
      add("c_is_out", Element::bf16, [](GemmCase& c) { c.c = Element::bf16, c.c_is_out = true; });
      add("out_scale", Element::bf16, [](GemmCase& c) { c.out = Element::e4m3, c.out_scale = true; });
    }
  }
  return all;
}

// Tiles of 128 rows, of many columns: rows and columns that are not whole, as many k blocks as boxes of results and
// fewer, several tiles for a block, all that changes how results are stored.
// What is changed is tried with fewer tiles: in part outside, several for a block, with more k blocks than the pipeline
// has stages and than there are boxes.
std::vector<Forced> wide() {
  std::vector<Forced> all;
  const auto add = [&](Variant variant, const std::string& name, const GemmCase& common, const Change& change = {}) {
    Forced forced{{variant, 1, 1}, {}, name_of(variant) + ('_' + name)};
    const auto one = [&](int m, int n, int k, int max_sms) {
      GemmCase c = of_shape(common, m, n, k);
      c.out = Element::bf16;
      if (max_sms != 0) c.max_sms = max_sms;
      if (change) change(c);
      c.name = forced.name + '_' + std::to_string(m) + 'x' + std::to_string(c.n) + 'x' + std::to_string(c.k);
      forced.cases.push_back(std::move(c));
    };
    one(1, 8, 16, 0), one(129, 264, 144, 0), one(200, 520, 128, 1);
    if (change) {
      one(129, 392, 656, 1), one(130, 264, 1168, 2);
    } else {
      one(128, 256, 128, 0), one(300, 584, 400, 0);
      one(260, 392, 272, 1), one(257, 776, 656, 1), one(300, 392, 1552, 2);
    }
    all.push_back(std::move(forced));
  };
  for (const Variant variant : {Variant::persistent_128x64, Variant::persistent_128x128, Variant::persistent_128x192,
                                Variant::persistent_128x256, Variant::overlapped_128x256})
    add(variant, "blocks", fp8_blocks());
  for (const Variant variant : {Variant::persistent_128x256, Variant::overlapped_128x256}) {
    add(variant, "f16", fp8_blocks(),
        [](GemmCase& c) { c.out = Element::f16, c.b = Element::e5m2, c.activation = QUERN_ACTIVATION_GELU; });
    add(variant, "by_row", fp8_blocks(),
        [](GemmCase& c) { c.scales_by_row = true, c.padding = 16, c.out_padding = 8; });
    add(variant, "programmatic", fp8_blocks(), [](GemmCase& c) { c.flags = QUERN_CALL_PROGRAMMATIC; });
  }
  add(Variant::persistent_128x176, "vectors", fp8_vectors());
  add(Variant::persistent_128x176, "vectors_gelu", fp8_vectors(),
      [](GemmCase& c) { c.activation = QUERN_ACTIVATION_GELU; });
  add(Variant::overlapped_128x256, "tensor_scales", fp8_vectors(),
      [](GemmCase& c) { c.scale_a = c.scale_b = Scaling::tensor, c.b = Element::e5m2; });
  add(Variant::persistent_128x176, "bf16", gemm_of(Element::bf16));
  for (const Variant variant : {Variant::persistent_128x256, Variant::overlapped_128x256}) {
    add(variant, "vectors", fp8_vectors());
    add(variant, "vectors_f16", fp8_vectors(),
        [](GemmCase& c) { c.out = Element::f16, c.a = Element::e5m2, c.activation = QUERN_ACTIVATION_GELU; });
  }
  add(Variant::persistent_128x256, "vectors_gate", fp8_vectors(), [](GemmCase& c) { c.gate = true; });
  add(Variant::persistent_128x256, "vectors_to_f32", fp8_vectors(), [](GemmCase& c) { c.out = Element::f32; });
  add(Variant::persistent_128x256, "vectors_out_scale", fp8_vectors(),
      [](GemmCase& c) { c.out = Element::e4m3, c.out_scale = true; });
  add(Variant::persistent_128x256, "bf16_gate", gemm_of(Element::bf16), [](GemmCase& c) { c.gate = true; });
  return all;
}

class GemmForms : public testing::TestWithParam<Forced> {};

TEST_P(GemmForms, GiveTheProduct) {
  constexpr std::uint64_t kSeeds = 3;
  for (const GemmCase& c : GetParam().cases) {
    SCOPED_TRACE(c.name);
    GemmProblem problem(c, Random(c.name));
    problem.poison_outputs();
    ASSERT_NO_THROW(fair().run(c, problem, GetParam().choice));
    problem.check();
    if (HasFailure()) return;
    const GemmOutput first = problem.output();
    for (std::uint64_t seed = 0; seed < (on_cuda() ? 1 : kSeeds); ++seed) {
      Library other(run_seed() * kSeeds + seed);
      problem.poison_outputs();
      ASSERT_NO_THROW(other.run(c, problem, GetParam().choice)) << "seed " << seed;
      ASSERT_TRUE(problem.output() == first) << "seed " << seed;
    }
  }
}
// Its results have no way out but by bulk copies.
TEST(GemmFormsOfOut, LateOnesNeedATensorMap) {
  GemmCase c = of_shape(fp8_blocks(), 128, 256, 128);
  c.name = "late_unaligned_out", c.out = Element::bf16, c.out_padding = 3;
  GemmProblem problem(c, Random(c.name));
  problem.poison_outputs();
  const GemmOutput untouched = problem.output();
  EXPECT_THROW(fair().run(c, problem, {Variant::overlapped_128x256, 1, 1}), Error);
  EXPECT_TRUE(problem.output() == untouched);
}

// Tiles of 128 columns alone are made for pairs of blocks, and not with block scales: others stand alone, whatever a
// record of tuning says.
TEST(GemmFormsOfPairs, OtherTilesStandAlone) {
  const auto run = [](Variant variant, GemmCase c) {
    c.name = name_of(variant) + std::string("_in_pairs"), c.out = Element::bf16;
    GemmProblem problem(c, Random(c.name));
    problem.poison_outputs();
    ASSERT_NO_THROW(fair().run(c, problem, {variant, 1, 2})) << c.name;
    problem.check();
  };
  for (const Variant variant : {Variant::persistent_128x128, Variant::persistent_128x176, Variant::persistent_128x192,
                                Variant::persistent_128x256, Variant::overlapped_128x256})
    run(variant, of_shape(fp8_vectors(), 300, 584, 400));
  for (const Variant variant : {Variant::persistent_128x128, Variant::persistent_128x192, Variant::persistent_128x256,
                                Variant::overlapped_128x256})
    run(variant, of_shape(fp8_blocks(), 300, 584, 400));
}

std::string name_of_forced(const testing::TestParamInfo<Forced>& forced) { return forced.param.name; }
INSTANTIATE_TEST_SUITE_P(Narrow, GemmForms, testing::ValuesIn(narrow()), name_of_forced);
INSTANTIATE_TEST_SUITE_P(Wide, GemmForms, testing::ValuesIn(wide()), name_of_forced);
INSTANTIATE_TEST_SUITE_P(Mapped, GemmForms, testing::ValuesIn(mapped()), name_of_forced);
INSTANTIATE_TEST_SUITE_P(SlicedK, GemmForms, testing::ValuesIn(sliced()), name_of_forced);
INSTANTIATE_TEST_SUITE_P(Fitted, GemmForms, testing::ValuesIn(fitted()), name_of_forced);
INSTANTIATE_TEST_SUITE_P(SplitK, GemmForms, testing::ValuesIn(split_k()), name_of_forced);

}  // namespace
}  // namespace quern::test
