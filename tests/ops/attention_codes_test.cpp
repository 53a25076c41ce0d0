// Attention over caches of 8 bits, with queries of 8 bits, with custom masks, and around numbers that are not finite.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "tests/ops/coded_attention.h"
#include "tests/ops/refusal.h"

namespace quern::test {
namespace {

const std::vector<Lengths> kDecode = {{1, 100}, {1, 33}, {1, 5}, {1, 64}};
const std::vector<Lengths> kShort = {{3, 40}, {1, 70}, {5, 5}, {2, 130}};
const std::vector<Lengths> kMedium = {{20, 90}, {1, 70}, {31, 31}, {0, 9}, {7, 300}};
const std::vector<Lengths> kLong = {{90, 170}, {130, 130}, {1, 60}};

// Each kind of length takes another kernel.
struct Form {
  const char* name;
  const std::vector<Lengths>& sequences;
};
const Form kForms[] = {{"decode", kDecode}, {"short", kShort}, {"medium", kMedium}, {"long", kLong}};

std::vector<CodedCase> coded_cases() {
  std::vector<CodedCase> cases;
  const auto add = [&](const std::string& name, const std::function<void(CodedCase&)>& change) {
    CodedCase c;
    c.name = name;
    change(c);
    cases.push_back(c);
  };
  const Element kinds[] = {Element::e4m3, Element::e5m2, Element::i8};
  const Element results[] = {Element::bf16, Element::f16};
  constexpr CacheScale kScales[] = {CacheScale::tensor, CacheScale::head, CacheScale::token};
  constexpr const char* kScaleNames[] = {"tensor", "head", "token"};
  int turn = 0;
  // A kernel takes its time to compile: each form of kernel gets some of the combinations, all forms together all of
  // them.
  for (const Form& form : kForms) {
    const std::string name = form.name;
    for (int s = 0; s < 3; ++s, ++turn) {
      const Element kind = kinds[(turn + turn / 3) % 3], element = results[turn % 2];
      add(name + "_" + kind.name() + "_" + kScaleNames[s] + "_" + element.name(), [&](CodedCase& c) {
        c.cache = kind, c.element = element, c.scale = kScales[s], c.sequences = form.sequences;
        c.hnd = turn % 3 == 1, c.page_size = turn % 4 == 0 ? 64 : turn % 4 == 1 ? 5 : 16;
      });
    }
    // All of what makes a kernel's way longer at once: scales far apart, a mask, a cap, slopes, a window.
    add(name + "_everything", [&](CodedCase& c) {
      c.sequences = form.sequences, c.cache = Element::e5m2, c.queries = Element::e4m3,
      c.scale = c.q_scale = CacheScale::token;
      c.element = Element::f16, c.spread = 2.0, c.size = 1e-2, c.mask = true, c.cap = 5.0f, c.alibi = true, c.left = 60;
    });
    add(name + "_ragged_mask", [&](CodedCase& c) {
      c.sequences = form.sequences, c.cache = Element::i8, c.scale = CacheScale::token, c.ragged = c.mask = true,
      c.dim = 72, c.dim_v = 40;
    });
    if (&form.sequences == &kDecode) {  // where all queries see the same
      for (const bool keys : {true, false}) {
        add(name + (keys ? "_bad_key" : "_bad_value"), [&](CodedCase& c) {
          c.sequences = form.sequences, (keys ? c.bad_keys : c.bad_values) = true, c.dim = 128;
        });
      }
      continue;
    }
    for (const bool keys : {true, false}) {
      const std::string bad = name + (keys ? "_bad_key" : "_bad_value");
      // Kernels by warpgroups, which are for an alignment of 16, hold it for keys only.
      const auto spoil = [&](CodedCase& c) {
        c.sequences = form.sequences, (keys ? c.bad_keys : c.bad_values) = true;
        if (!keys) c.alignment = 8;
      };
      add(bad, spoil);
      add(bad + "_window", [&](CodedCase& c) { spoil(c), c.left = 9; });
      add(bad + "_invariant", [&](CodedCase& c) { spoil(c), c.flags = QUERN_CALL_BATCH_INVARIANT; });
      add(bad + "_mask", [&](CodedCase& c) { spoil(c), c.mask = true, c.causal = false, c.element = Element::f16; });
      add(bad + "_e4m3", [&](CodedCase& c) { spoil(c), c.cache = Element::e4m3, c.scale = CacheScale::head; });
    }
  }
  add("short_bad_scale", [](CodedCase& c) {
    c.sequences = kShort, c.bad_values = c.bad_keys = true, c.cache = Element::i8, c.scale = CacheScale::token;
  });
  // Rows of codes that are whole 64 bytes, which Hopper's decode kernel reads as operands: each kind of code, each way
  // of scaling, of the lane's shares of 128 and of 64 dims.
  constexpr int kDims[][2] = {{128, 128}, {64, 128}, {128, 64}, {192, 192}, {64, 256}, {256, 64}};
  for (const auto& dims : kDims) {
    for (const Form* form : {&kForms[0], &kForms[1]}) {
      ++turn;
      const Element kind = kinds[turn % 3], element = results[turn / 3 % 2];
      const std::string name = std::to_string(dims[0]) + "x" + std::to_string(dims[1]) + "_" + form->name;
      add("dims_" + name + "_" + kind.name(), [&](CodedCase& c) {
        c.cache = kind, c.element = element, c.scale = kScales[turn % 3], c.sequences = form->sequences;
        c.dim = dims[0], c.dim_v = dims[1], c.page_size = turn % 2 ? 32 : 1, c.ragged = turn % 4 == 0;
        c.group = turn % 2 ? 3 : 2, c.bad_values = form != &kForms[0] && turn % 3 != 2, c.mask = turn % 5 == 0;
        if (turn % 4 == 2) c.queries = Element::e4m3, c.q_scale = CacheScale::token;
      });
    }
  }
  // Many rows of codes against codes: where the target has products of 8 bits, values are turned on their way.
  const auto add_product = [&](const std::string& name, Element of_q, Element of_kv, int dim, int dim_v,
                               const std::function<void(CodedCase&)>& change) {
    add("product_" + name, [&](CodedCase& c) {
      c.queries = of_q, c.cache = of_kv, c.dim = dim, c.dim_v = dim_v, c.sequences = kLong;
      c.scale = CacheScale::head, c.q_scale = CacheScale::token;
      change(c);
    });
  };
  add_product("e4m3", Element::e4m3, Element::e4m3, 128, 128, [](CodedCase&) {});
  add_product("e4m3_window", Element::e4m3, Element::e4m3, 128, 64,
              [](CodedCase& c) { c.left = 50, c.page_size = 64; });
  add_product("e5m2_ragged", Element::e4m3, Element::e5m2, 64, 128,
              [](CodedCase& c) { c.ragged = true, c.causal = false, c.element = Element::f16; });
  add_product("cap", Element::e5m2, Element::e4m3, 192, 128, [](CodedCase& c) {
    c.cap = 5.0f, c.alibi = true, c.scale = CacheScale::tensor, c.q_scale = CacheScale::head;
  });
  add_product("dim_80", Element::e4m3, Element::e4m3, 80, 112, [](CodedCase& c) { c.hnd = true; });
  add_product("bad_value", Element::e4m3, Element::e4m3, 128, 128, [](CodedCase& c) { c.bad_values = true; });
  add_product("bad_key", Element::e4m3, Element::e5m2, 64, 64, [](CodedCase& c) { c.bad_keys = true, c.left = 9; });
  // Blocks of keys are taken from the last on: when the first ones, of the largest logits, come, the maximum is no
  // longer looked for in each.
  add_product("falls", Element::e4m3, Element::e4m3, 128, 128,
              [](CodedCase& c) { c.falls = true, c.causal = false, c.sequences = {{90, 600}, {1, 60}, {70, 450}}; });
  add_product("mask", Element::e4m3, Element::e4m3, 128, 128, [](CodedCase& c) { c.mask = true; });
  // Many rows of 16 bits against codes: where the target has warpgroups these are widened on their way.
  const auto add_widened = [&](const std::string& name, Element element, Element of_kv, int dim, int dim_v,
                               const std::function<void(CodedCase&)>& change) {
    add("widened_" + name, [&](CodedCase& c) {
      c.element = element, c.cache = of_kv, c.dim = dim, c.dim_v = dim_v, c.sequences = kLong;
      c.scale = CacheScale::head;
      change(c);
    });
  };
  add_widened("e4m3", Element::bf16, Element::e4m3, 128, 128, [](CodedCase& c) { c.group = 4; });
  add_widened("e4m3_f16_page_64", Element::f16, Element::e4m3, 64, 64, [](CodedCase& c) { c.page_size = 64; });
  add_widened("e5m2_page_32", Element::bf16, Element::e5m2, 64, 128, [](CodedCase& c) { c.page_size = 32; });
  add_widened("e5m2_f16_ragged", Element::f16, Element::e5m2, 128, 64,
              [](CodedCase& c) { c.ragged = true, c.causal = false; });
  add_widened("int8_page_128", Element::bf16, Element::i8, 128, 128,
              [](CodedCase& c) { c.page_size = 128, c.hnd = true, c.scale = CacheScale::tensor; });
  add_widened("int8_f16_256", Element::f16, Element::i8, 256, 256, [](CodedCase& c) { c.left = 50; });
  add_widened("dim_96", Element::bf16, Element::e4m3, 96, 80, [](CodedCase& c) { c.scale = CacheScale::none; });
  add_widened("dim_192", Element::bf16, Element::e4m3, 192, 128, [](CodedCase& c) { c.ragged = true; });
  add_widened("tokens", Element::bf16, Element::i8, 128, 128, [](CodedCase& c) {
    c.scale = CacheScale::token, c.spread = 3.0, c.sequences = {{90, 170}, {70, 900}, {1, 60}, {33, 700}};
  });
  add_widened("tokens_f16_64", Element::f16, Element::i8, 64, 64, [](CodedCase& c) {
    c.scale = CacheScale::token, c.size = 1e-3, c.page_size = 64, c.sequences = {{70, 1500}, {33, 70}};
  });
  add_widened("tokens_f16_large", Element::f16, Element::e5m2, 256, 64, [](CodedCase& c) {
    c.scale = CacheScale::token, c.spread = 1.0, c.size = 100.0, c.ragged = true, c.shared_scales = true;
  });
  add_widened("tokens_256", Element::bf16, Element::e4m3, 256, 256, [](CodedCase& c) { c.scale = CacheScale::token; });
  add_widened("tokens_everything", Element::f16, Element::e4m3, 128, 128, [](CodedCase& c) {
    c.scale = CacheScale::token, c.mask = true, c.cap = 5.0f, c.alibi = true, c.left = 60;
  });
  add_widened("everything", Element::bf16, Element::i8, 64, 128,
              [](CodedCase& c) { c.mask = true, c.cap = 5.0f, c.alibi = true, c.left = 60; });
  add_widened("negative", Element::bf16, Element::e4m3, 64, 64, [](CodedCase& c) { c.negative = true; });
  add_widened("negative_tokens", Element::f16, Element::i8, 128, 128,
              [](CodedCase& c) { c.negative = true, c.scale = CacheScale::token; });
  add_widened("invariant", Element::bf16, Element::e4m3, 128, 128, [](CodedCase& c) {
    c.sequences = {{1, 700}, {3, 300}, {70, 1200}}, c.flags = QUERN_CALL_BATCH_INVARIANT;
  });
  add_widened("invariant_tokens", Element::f16, Element::i8, 64, 64, [](CodedCase& c) {
    c.sequences = {{1, 700}, {3, 300}, {70, 1200}}, c.flags = QUERN_CALL_BATCH_INVARIANT, c.scale = CacheScale::token;
  });
  for (const bool keys : {true, false}) {
    const std::string bad = keys ? "bad_key" : "bad_value";
    const auto spoil = [&](CodedCase& c) { (keys ? c.bad_keys : c.bad_values) = true; };
    add_widened(bad, Element::bf16, Element::e4m3, 128, 128, spoil);
    add_widened(bad + "_e5m2_mask", Element::f16, Element::e5m2, 64, 64,
                [&](CodedCase& c) { spoil(c), c.mask = true, c.causal = false, c.ragged = true; });
    add_widened(bad + "_scale", Element::bf16, Element::i8, 64, 128,
                [&](CodedCase& c) { spoil(c), c.scale = CacheScale::token, c.left = 9; });
    add_widened(bad + "_tokens", Element::f16, Element::e4m3, 256, 128,
                [&](CodedCase& c) { spoil(c), c.scale = CacheScale::token; });
    add_widened(bad + "_invariant", Element::bf16, Element::e4m3, 128, 128, [&](CodedCase& c) {
      spoil(c), c.sequences = {{5, 300}, {70, 700}}, c.flags = QUERN_CALL_BATCH_INVARIANT;
    });
  }
  add("long_mask_128", [](CodedCase& c) {
    c.sequences = {{40, 400}, {130, 130}, {1, 60}, {33, 700}}, c.mask = true, c.dim = 128, c.group = 4,
    c.page_size = 64;
    c.bad_values = true;
  });
  add("long_mask_192_window", [](CodedCase& c) {
    c.sequences = kLong, c.mask = true, c.dim = 192, c.dim_v = 128, c.left = 70, c.ragged = true, c.causal = false;
  });
  add("invariant_mask", [](CodedCase& c) {
    c.sequences = {{1, 700}, {5, 300}, {40, 900}}, c.mask = true, c.dim = 64, c.flags = QUERN_CALL_BATCH_INVARIANT;
  });
  add_product("invariant", Element::e4m3, Element::e4m3, 128, 128, [](CodedCase& c) {
    c.sequences = {{1, 700}, {3, 300}, {70, 1200}}, c.flags = QUERN_CALL_BATCH_INVARIANT;
  });
  add_product("medium_rows_page_256", Element::e4m3, Element::e4m3, 128, 128,
              [](CodedCase& c) { c.page_size = 256, c.group = 5, c.q_scale = CacheScale::none; });
  // Results of codes, by every kernel that writes them: whole items and those that are cut, rows that see nothing.
  for (const Form& form : kForms) {
    ++turn;
    const std::string name = std::string("results_") + form.name;
    add(name, [&](CodedCase& c) {
      c.sequences = form.sequences, c.dim = 128, c.codes = turn % 2 ? Element::e4m3 : Element::e5m2;
      c.cache = Element::e4m3, c.scale = CacheScale::head, c.group = turn % 2 ? 3 : 4;
    });
    add(name + "_256", [&](CodedCase& c) {
      c.sequences = form.sequences, c.dim = 64, c.dim_v = 256, c.codes = Element::e4m3, c.element = Element::f16;
      c.alignment = turn % 2 ? 8 : 0, c.left = 20, c.group = 1;
    });
  }
  add("results_cut", [](CodedCase& c) {
    c.sequences = {{1, 2100}, {1, 0}, {1, 1300}, {1, 700}}, c.dim = 128, c.codes = Element::e4m3, c.group = 5;
    c.cache = Element::i8, c.scale = CacheScale::token, c.size = 1e-3;
  });
  add("results_of_queries", [](CodedCase& c) {
    c.sequences = kShort, c.dim = 128, c.codes = Element::e4m3, c.cache = Element::e4m3, c.queries = Element::e4m3;
    c.scale = c.q_scale = CacheScale::token, c.mask = true, c.cap = 5.0f, c.raw_bytes = true;
  });
  add("results_bad_value",
      [](CodedCase& c) { c.sequences = kShort, c.dim = 128, c.codes = Element::e4m3, c.bad_values = true; });
  add("results_invariant", [](CodedCase& c) {
    c.sequences = {{1, 700}, {3, 300}, {70, 200}}, c.dim = 128, c.codes = Element::e4m3, c.cache = Element::e4m3;
    c.scale = CacheScale::head, c.flags = QUERN_CALL_BATCH_INVARIANT;
  });
  add("unscaled", [](CodedCase& c) { c.cache = Element::e4m3; });
  add("dim_256", [](CodedCase& c) { c.cache = Element::e5m2, c.scale = CacheScale::token, c.dim = 256, c.group = 1; });
  add("q_e5m2_alone",
      [](CodedCase& c) { c.queries = Element::e5m2, c.q_scale = CacheScale::tensor, c.sequences = kShort; });
  add("alignment_4", [](CodedCase& c) { c.cache = Element::e4m3, c.scale = CacheScale::head, c.alignment = 4; });
  add("raw_bytes", [](CodedCase& c) {
    c.cache = Element::e5m2, c.queries = Element::e4m3, c.raw_bytes = true, c.scale = CacheScale::tensor;
  });
  add("scales_shared_by_heads",
      [](CodedCase& c) { c.cache = Element::i8, c.scale = CacheScale::token, c.shared_scales = true; });
  return cases;
}

class CodedAttentionCases : public testing::TestWithParam<CodedCase> {};
INSTANTIATE_TEST_SUITE_P(Cases, CodedAttentionCases, testing::ValuesIn(coded_cases()),
                         [](const testing::TestParamInfo<CodedCase>& test) { return test.param.name; });

TEST_P(CodedAttentionCases, MatchesItsDefinition) {
  CodedAttention problem(GetParam());
  ASSERT_NO_FATAL_FAILURE(problem.run(context()));
  problem.check();
}

// Scheduled unfairly, copies delivered late.
TEST(CodedAttentionSchedules, unfair) {
  if (on_cuda()) GTEST_SKIP() << "the host's executor is what is unfair";
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    const Context unfair = make_context([&](quern_context_options& o) {
      o.flags |= QUERN_CONTEXT_HOST_SEED;
      o.host_seed = seed;
    });
    for (const Form& form : kForms) {
      CodedCase c;
      c.name = "unfair";
      c.sequences = form.sequences, c.cache = Element::e4m3, c.scale = CacheScale::head;
      if (&form.sequences != &kDecode) c.bad_values = true;
      CodedAttention problem(c);
      ASSERT_NO_FATAL_FAILURE(problem.run(unfair.get()));
      problem.check();
    }
    CodedCase c;
    c.name = "unfair_product";
    c.sequences = kLong, c.cache = c.queries = Element::e4m3, c.dim = 128, c.bad_values = true;
    CodedAttention problem(c);
    ASSERT_NO_FATAL_FAILURE(problem.run(unfair.get()));
    problem.check();
  }
}

// The same of codes that are widened on their way to warpgroups: several blocks of keys, several items, and scales of
// tokens that change from block to block.
TEST(CodedAttentionSchedules, WidenedUnfairly) {
  if (on_cuda()) GTEST_SKIP() << "the host's executor is what is unfair";
  constexpr std::uint64_t kSeeds = 2;  // other ones in each run
  std::vector<CodedCase> cases(3);
  cases[0].name = "unfair_widened", cases[0].cache = Element::e4m3, cases[0].scale = CacheScale::head;
  cases[0].dim = 128;
  cases[1].name = "unfair_tokens", cases[1].cache = Element::i8, cases[1].scale = CacheScale::token;
  cases[1].dim = 64, cases[1].element = Element::f16, cases[1].page_size = 128;
  cases[2].name = "unfair_256", cases[2].cache = Element::e5m2, cases[2].scale = CacheScale::token;
  cases[2].spread = 3.0, cases[2].dim = 256, cases[2].ragged = true, cases[2].bad_values = true;
  for (CodedCase& c : cases) {
    c.sequences = {{90, 600}, {130, 130}, {1, 60}, {40, 40}};
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      SCOPED_TRACE(c.name + ", host_seed " + std::to_string(run_seed() * kSeeds + seed));
      const Context unfair = make_context([&](quern_context_options& o) {
        o.flags |= QUERN_CONTEXT_HOST_SEED;
        o.host_seed = run_seed() * kSeeds + seed;
      });
      CodedAttention problem(c);
      ASSERT_NO_FATAL_FAILURE(problem.run(unfair.get()));
      problem.check();
    }
  }
}

TEST(CodedAttentionRefuses, EveryWrongArgument) {
  using P = CodedAttention&;
  const std::vector<Mistake<CodedAttention>> mistakes = {
      {"k's dtype", {"k", "e4m3", "int8"}, [](P p) { p.k.box().tensor.dtype = kFloat32; }},
      {"v's dtype", {"v", "e4m3"}, [](P p) { p.v.box().tensor.dtype = {kDLInt, 8, 1}; }},
      {"bytes without a type", {"kv_type"}, [](P p) { p.k.box().tensor.dtype = {kDLUInt, 8, 1}; }},
      {"another type", {"kv_type"}, [](P p) { p.args.kv_type = QUERN_FP8_E5M2; }},
      {"no such type", {"kv_type", "7"}, [](P p) { p.args.kv_type = 7; }},
      {"q's type", {"q_type"}, [](P p) { p.args.q_type = QUERN_FP8_E4M3; }},
      {"out of 8 bits", {"out", "f16"}, [](P p) { p.out.box().tensor.dtype = {kDLInt, 8, 1}; }},
      {"out of codes of another length",
       {"out", "d_v", "128"},
       [](P p) { p.out.box().tensor.dtype = Element(Element::e4m3).type(); }},
      {"out_type", {"out_type", "0"}, [](P p) { p.args.out_type = QUERN_FP8_E4M3; }},
      {"out_scale of 16 bits", {"out_scale", "NULL"}, [](P p) { p.args.out_scale = p.out_scale.tensor(); }},
      {"out's dtype", {"out", "bf16"}, [](P p) { p.out.box().tensor.dtype = dtype_of(Format::f16); }},
      {"q_scale of 16 bits", {"q_scale", "NULL"}, [](P p) { p.args.q_scale = p.q_scale.tensor(); }},
      {"k_scale's dtype", {"k_scale", "f32"}, [](P p) { p.k_scale.box().tensor.dtype = kInt32; }},
      {"k_scale's rank", {"k_scale", "dimensions"}, [](P p) { p.k_scale.box().tensor.ndim = 2; }},
      {"k_scale's pages", {"k_scale.shape[0]"}, [](P p) { p.k_scale.box().shape[0] = 2; }},
      {"v_scale's heads", {"v_scale.shape[2]", "2"}, [](P p) { p.v_scale.box().shape[2] = 1; }},
      {"scales of two kinds", {"k_scale", "v_scale"}, [](P p) { p.args.k_scale = nullptr; }},
      {"mask's dtype", {"mask", "uint8"}, [](P p) { p.mask.box().tensor.dtype = kInt32; }},
      {"mask without indptr", {"mask_indptr", "NULL"}, [](P p) { p.args.mask_indptr = nullptr; }},
      {"mask without keys", {"mask_keys", "NULL"}, [](P p) { p.args.mask_keys = nullptr; }},
      {"indptr without mask", {"mask_indptr", "mask"}, [](P p) { p.args.mask = nullptr; }},
      {"indptr's length", {"mask_indptr.shape[0]", "5"}, [](P p) { p.mask_indptr.box().shape[0] = 4; }},
      {"keys' length", {"mask_keys.shape[0]", "4"}, [](P p) { p.mask_keys.box().shape[0] = 5; }},
  };
  CodedCase c;
  c.name = "refusals";
  c.cache = Element::e4m3, c.scale = CacheScale::token, c.mask = true;
  expect_all_refused(
      mistakes, ThreeCalls<quern_attention_args>{quern_attention, quern_attention_workspace, quern_attention_prepare},
      [&] { return std::make_unique<CodedAttention>(c); },
      [](CodedAttention& p) {
        return [&p] {
          p.out.download();
          return p.out.is_untouched(0, 0, 0);
        };
      });
}

TEST(CodedAttentionRefuses, WrongScalesOfResults) {
  using P = CodedAttention&;
  const std::vector<Mistake<CodedAttention>> mistakes = {
      {"none", {"out_scale", "NULL"}, [](P p) { p.args.out_scale = nullptr; }},
      {"dtype", {"out_scale", "f32"}, [](P p) { p.out_scale.box().tensor.dtype = kInt32; }},
      {"rank", {"out_scale", "dimensions"}, [](P p) { p.out_scale.box().tensor.ndim = 1; }},
      {"tokens", {"out_scale.shape[0]"}, [](P p) { p.out_scale.box().shape[0] = 3; }},
      {"groups", {"out_scale.shape[1]", "8"}, [](P p) { p.out_scale.box().shape[1] = 4; }},
      {"laid over each other", {"out_scale"}, [](P p) { p.out_scale.box().strides[1] = 0; }},
      {"bytes without a type", {"out_type"}, [](P p) { p.out.box().tensor.dtype = {kDLUInt, 8, 1}; }},
  };
  CodedCase c;
  c.name = "refusals of results";
  c.codes = Element::e4m3, c.dim = 64, c.dim_v = 256;
  expect_all_refused(
      mistakes, ThreeCalls<quern_attention_args>{quern_attention, quern_attention_workspace, quern_attention_prepare},
      [&] { return std::make_unique<CodedAttention>(c); },
      [](CodedAttention& p) {
        return [&p] {
          p.out.download(), p.out_scale.download();
          return p.out.is_untouched(0, 0, 0) && p.out_scale.is_untouched(0, 0);
        };
      });
}

}  // namespace
}  // namespace quern::test
