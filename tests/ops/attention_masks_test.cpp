// Attention with windows, caps, slopes, sinks and all of them together, rows that see nothing among them.
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/attention_fixture.h"

namespace quern::test {
namespace {

// More queries than keys leaves the first queries of a causal sequence without any.
const std::vector<Lengths> kMixed = {{40, 75}, {1, 130}, {7, 3}, {0, 20}, {3, 0}, {64, 64}, {2, 150}};
const std::vector<Lengths> kDecode = decode_of({75, 1, 0, 300, 64, 17});

AttentionCase base() {
  AttentionCase c;
  c.dim_k = 64;
  return c;
}

struct Mask {
  const char* name;
  void (*set)(AttentionCase&);
};
constexpr Mask kMasks[] = {
    {"all", [](AttentionCase&) {}},
    {"causal", [](AttentionCase& c) { c.causal = true; }},
    {"left0", [](AttentionCase& c) { c.left = 0; }},
    {"left21", [](AttentionCase& c) { c.left = 21; }},
    // Of 300 keys the first that is seen is the second of a block, all of whose others are.
    {"left42", [](AttentionCase& c) { c.left = 42; }},
    {"causal_left33", [](AttentionCase& c) { c.causal = true, c.left = 33; }},
    {"right0", [](AttentionCase& c) { c.right = 0; }},
    {"right5", [](AttentionCase& c) { c.right = 5; }},
    {"left9_right4", [](AttentionCase& c) { c.left = 9, c.right = 4; }},
    {"left0_right0", [](AttentionCase& c) { c.left = 0, c.right = 0; }},
    // The largest that there are: no sum with a position may go round.
    {"left_of_all", [](AttentionCase& c) { c.left = INT32_MAX, c.right = INT32_MAX; }},
    {"causal_with_right", [](AttentionCase& c) { c.causal = true, c.right = 7; }},
};

std::vector<AttentionCase> masks() {
  CaseList list(base());
  for (const Mask& mask : kMasks) {
    list.add(std::string("mask_") + mask.name + "_mixed", kMixed, mask.set);
    list.add(std::string("mask_") + mask.name + "_decode", kDecode, [&](AttentionCase& c) {
      c.one_query = true;
      mask.set(c);
    });
    // Rows that are aligned to 4 bytes alone are the portable kernels'.
    list.add(std::string("mask_") + mask.name + "_decode_portable", kDecode, [&](AttentionCase& c) {
      c.one_query = true, c.alignment = 4;
      mask.set(c);
    });
    list.add(std::string("mask_") + mask.name + "_mixed_portable", kMixed, [&](AttentionCase& c) {
      c.alignment = 4;
      mask.set(c);
    });
    list.add(std::string("mask_") + mask.name + "_speculative", {{8, 75}, {5, 3}, {1, 200}, {0, 1}, {4, 0}, {8, 8}},
             [&](AttentionCase& c) {
               c.max_q_len = 8;
               mask.set(c);
             });
  }
  list.add("without_lse_mixed", kMixed, [](AttentionCase& c) { c.lse = false, c.causal = true; });
  list.add("without_lse_decode", kDecode, [](AttentionCase& c) { c.lse = false, c.one_query = true; });
  list.add("given_scale", kMixed, [](AttentionCase& c) { c.scale = 0.37f; });
  list.add("tiny_scale", kDecode, [](AttentionCase& c) { c.scale = 1e-4f; });
  // Products of hundreds: one key takes all.
  list.add("large_scale", kMixed, [](AttentionCase& c) { c.scale = 40.0f; });
  list.add("growing_logits_mixed", {{40, 700}, {64, 300}}, [](AttentionCase& c) { c.growth = 200.0, c.causal = true; });
  // Where the last keys come first, weights relative to the maximum of before leave the range of f32.
  list.add("falling_logits_far", {{40, 700}, {64, 300}}, [](AttentionCase& c) { c.growth = -1500.0; });
  list.add("growing_logits_decode", decode_of({700, 64, 1500}),
           [](AttentionCase& c) { c.growth = 200.0, c.one_query = true; });
  list.add("shrinking_logits_mixed", {{40, 700}, {64, 300}},
           [](AttentionCase& c) { c.growth = -200.0, c.causal = true; });
  list.add("shrinking_logits_f16", {{40, 700}, {64, 300}}, [](AttentionCase& c) {
    c.growth = -100.0;
    c.format = Format::f16;
  });
  list.add("growing_logits_f16", {{40, 700}, {64, 300}}, [](AttentionCase& c) {
    c.growth = 100.0;
    c.format = Format::f16;
  });
  return list.cases();
}
QUERN_ATTENTION_CASES(Masks, masks());

// Every combination of what is a constant of the kernel, in each of its forms.
std::vector<AttentionCase> flags() {
  CaseList list(base());
  for (int bits = 1; bits < 8; ++bits) {
    std::string name = "with";
    if (bits & 1) name += "_cap";
    if (bits & 2) name += "_alibi";
    if (bits & 4) name += "_sinks";
    const auto set = [bits](AttentionCase& c) {
      if (bits & 1) c.cap = 3.0f;
      c.alibi = (bits & 2) != 0;
      c.sinks = (bits & 4) != 0;
    };
    list.add(name + "_decode", kDecode, [&](AttentionCase& c) {
      set(c);
      c.one_query = true;
    });
    list.add(name + "_speculative", {{12, 75}, {5, 3}, {1, 200}, {0, 1}, {4, 0}, {9, 9}}, [&](AttentionCase& c) {
      set(c);
      c.max_q_len = 12;
      c.causal = true;
      c.left = 50;
    });
    list.add(name + "_mixed", kMixed, [&](AttentionCase& c) {
      set(c);
      c.causal = true;
    });
    list.add(name + "_window_both_sides", kMixed, [&](AttentionCase& c) {
      set(c);
      c.left = 12;
      c.right = 3;
    });
  }
  list.add("large_cap", kMixed, [](AttentionCase& c) { c.cap = 50.0f, c.causal = true; });
  // Far beyond the cap, where tanh is 1.
  list.add("cap_reached", kMixed, [](AttentionCase& c) { c.cap = 0.5f, c.scale = 30.0f; });
  list.add("alibi_not_causal", kMixed, [](AttentionCase& c) { c.alibi = true; });
  list.add("alibi_group_of_3", kMixed, [](AttentionCase& c) { c.alibi = true, c.group = 3; });
  list.add("sinks_without_lse", kMixed, [](AttentionCase& c) { c.sinks = true, c.lse = false; });
  list.add("sinks_split", decode_of({3000}), [](AttentionCase& c) { c.sinks = true, c.one_query = true; });
  return list.cases();
}
QUERN_ATTENTION_CASES(Flags, flags());

}  // namespace
}  // namespace quern::test
