// Attention with wide heads: more than 256 columns of keys or of values.
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/attention_fixture.h"

namespace quern::test {
namespace {

const std::vector<Lengths> kDecode = decode_of({75, 1, 0, 130, 16});
const std::vector<Lengths> kSpeculative = {{5, 75}, {1, 17}, {0, 4}, {8, 8}, {3, 140}};
const std::vector<Lengths> kPrefill = {{70, 70}, {9, 97}, {1, 50}, {0, 0}, {17, 16}};

AttentionCase wide_of(Format format, int dim_k, int dim_v) {
  AttentionCase c;
  c.format = format;
  c.dim_k = dim_k;
  c.dim_v = dim_v;
  c.kv_heads = 1;
  c.causal = true;
  return c;
}

std::vector<AttentionCase> dims() {
  CaseList list(wide_of(Format::bf16, 512, 0));
  const auto of = [](Format format, int dim_k, int dim_v) {
    return [=](AttentionCase& c) { c.format = format, c.dim_k = dim_k, c.dim_v = dim_v; };
  };
  list.add("f16_264_prefill", kPrefill, of(Format::f16, 264, 0));
  list.add("bf16_512_decode", kDecode, of(Format::bf16, 512, 0));
  list.add("bf16_1024_prefill", kPrefill, of(Format::bf16, 1024, 0));
  list.add("bf16_1024x320", kSpeculative, of(Format::bf16, 1024, 320));
  return list.cases();
}
QUERN_ATTENTION_CASES(Wide, dims());

}  // namespace
}  // namespace quern::test
