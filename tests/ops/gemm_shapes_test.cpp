// Products over numbers of rows, columns and terms, and the ways that rows may lie in memory.
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/device.h"
#include "tests/ops/gemm_fixture.h"
#include "tests/ops/gemm_kinds.h"

namespace quern::test {
namespace {

std::string by(int m, int n, int k) { return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k); }

void add_shape(std::vector<GemmCase>* all, const std::string& prefix, GemmCase c, int m, int n, int k) {
  all->push_back(of_shape(std::move(c), m, n, k));
  all->back().name = prefix + "_" + by(m, n, k);
}

// Every number of rows at which something changes.
std::vector<GemmCase> rows() {
  std::vector<GemmCase> all;
  for (const GemmKind& kind : gemm_kinds()) {
    for (const int m : {0, 1, 2, 7, 16, 17, 64, 65, 128, 129, 300})
      add_shape(&all, kind.name, kind.common, m, 264, 272);
    add_shape(&all, kind.name, kind.common, 4096, 40, 144);
  }
  return all;
}
QUERN_GEMM_CASES(Rows, rows());

std::vector<GemmCase> columns() {
  std::vector<GemmCase> all;
  for (const GemmKind& kind : gemm_kinds()) {
    for (const int n : {0, 1, 3, 8, 24, 40, 77, 130}) {
      for (const int m : {5, 33}) add_shape(&all, kind.name, kind.common, m, n, 144);
    }
  }
  return all;
}
QUERN_GEMM_CASES(Columns, columns());

// Steps of k that are whole and not, and so many that several blocks of threads share a tile.
std::vector<GemmCase> terms() {
  std::vector<GemmCase> all;
  for (const GemmKind& kind : gemm_kinds()) {
    for (const int k : {16, 32, 128, 144, 400}) add_shape(&all, kind.name, kind.common, 3, 24, k);
    for (const int m : {1, 40, 70}) add_shape(&all, kind.name, kind.common, m, 24, 7184);
  }
  return all;
}
QUERN_GEMM_CASES(Terms, terms());

// Layers of DeepSeek-V3, or what is left of them on a host: a sixteenth each way.
std::vector<GemmCase> layers() {
  struct Layer {
    int n, k;
  };
  std::vector<GemmCase> all;
  for (const Layer& layer : std::initializer_list<Layer>{
           {2112, 7168}, {576, 7168}, {24576, 1536}, {32768, 512}, {7168, 16384}, {4096, 7168}, {7168, 2048}}) {
    for (GemmKind kind : {gemm_kinds()[0], gemm_kinds()[1], gemm_kinds()[3]}) {
      kind.common.out = Element::bf16;
      if (!on_cuda()) {
        for (const int m : {1, 13, 129}) add_shape(&all, kind.name, kind.common, m, layer.n / 16, layer.k / 16);
        continue;
      }
      for (const int m : {1, 2, 7, 16, 64, 128, 129, 4096})
        add_shape(&all, kind.name, kind.common, m, layer.n, layer.k);
    }
  }
  return all;
}
QUERN_GEMM_CASES(Layers, layers());

std::vector<GemmCase> layouts() {
  GemmList list(fp8_vectors());
  const auto add = [&](const std::string& name, const std::function<void(GemmCase&)>& change) {
    for (const int m : {7, 300}) {
      list.add(name + "_" + std::to_string(m), [&](GemmCase& c) {
        c.m = m, c.n = 264, c.k = 272;
        change(c);
      });
    }
  };
  add("padded", [](GemmCase& c) { c.padding = 16, c.out_padding = 8; });
  add("padded_oddly", [](GemmCase& c) { c.padding = 48, c.out_padding = 3; });
  add("byte_offset", [](GemmCase& c) { c.offset = 16; });
  add("byte_offset_and_padded", [](GemmCase& c) { c.offset = 32, c.padding = 16, c.out_padding = 1; });
  add("few_sms", [](GemmCase& c) { c.max_sms = 1; });
  list.add("few_sms_split", [](GemmCase& c) { c.max_sms = 1, c.m = 3, c.n = 24, c.k = 7184; });
  add("programmatic", [](GemmCase& c) { c.flags = QUERN_CALL_PROGRAMMATIC; });
  add("invariant", [](GemmCase& c) { c.flags = QUERN_CALL_BATCH_INVARIANT; });
  return list.cases();
}
QUERN_GEMM_CASES(Layouts, layouts());

// Rows aligned to 4 bytes: k a multiple of 4 bytes' worth.
std::vector<GemmCase> alignments() {
  std::vector<GemmCase> all;
  const auto add = [&](const std::string& name, GemmCase c, const std::vector<int>& ms, int n, int k) {
    c.alignment = 4;
    c.offset = 4;
    c.padding = 4;
    c.out_padding = 1;
    for (const int m : ms) add_shape(&all, "aligned_to_4_" + name, c, m, n, k);
  };
  add("vectors", fp8_vectors(), {5, 300}, 77, 268);
  add("vectors_shared", fp8_vectors(), {5}, 77, 7204);
  add("blocks", fp8_blocks(), {5, 300}, 77, 268);
  add("f16", gemm_of(Element::f16), {5}, 77, 142);
  add("f32", gemm_of(Element::f32), {5}, 77, 77);
  add("tf32", gemm_of(Element::f32, true), {5}, 77, 77);
  GemmCase tt = gemm_of(Element::f16);
  tt.transposed_a = tt.transposed_b = true;
  add("tt_f16", tt, {6}, 78, 77);
  GemmCase eight = fp8_vectors();
  eight.alignment = 8;
  eight.offset = 8;
  add_shape(&all, "aligned_to_8", eight, 5, 77, 264);
  return all;
}
QUERN_GEMM_CASES(Alignments, alignments());

}  // namespace
}  // namespace quern::test
