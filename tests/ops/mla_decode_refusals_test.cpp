// What MLA decode refuses, and how it says so.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "tests/ops/mla_problem.h"
#include "tests/ops/refusal.h"

namespace quern::test {
namespace {

TEST(MlaRefuses, EveryWrongArgument) {
  using M = MlaProblem&;
  const std::vector<Mistake<MlaProblem>> mistakes = {
      {"q NULL", {"q", "NULL"}, [](M m) { m.args.q = nullptr; }},
      {"cache NULL", {"cache", "NULL"}, [](M m) { m.args.cache = nullptr; }},
      {"out NULL", {"out", "NULL"}, [](M m) { m.args.out = nullptr; }},
      {"lengths NULL", {"lengths", "NULL"}, [](M m) { m.args.lengths = nullptr; }},
      {"no pages", {"page_table"}, [](M m) { m.args.page_table = nullptr; }},
      {"pages twice", {"page_table", "page_indptr"}, [](M m) { m.args.page_indptr = m.page_indptr.get(); }},
      {"q's dtype", {"q", "int32"}, [](M m) { m.q.tensor.dtype = kInt32; }},
      {"out's dtype", {"out", "bf16"}, [](M m) { m.out.tensor.dtype = dtype_of(Format::f16); }},
      {"cache's dtype", {"cache", "bf16"}, [](M m) { m.cache.tensor.dtype = dtype_of(Format::f16); }},
      {"q's rank", {"q", "dimensions"}, [](M m) { m.q.tensor.ndim = 2; }},
      {"out's heads", {"out.shape[1]"}, [](M m) { m.out.shape[1] = 3; }},
      {"out's rows", {"out.shape[0]"}, [](M m) { m.out.shape[0] = 2; }},
      {"a latent of 520", {"out.shape[2]", "multiple of 16"}, [](M m) { m.out.shape[2] = 520; }},
      {"a latent of 1024", {"out.shape[2]", "512"}, [](M m) { m.out.shape[2] = 1024; }},
      {"a rope part of 24", {"q.shape[2]", "d_rope"}, [](M m) { m.q.shape[2] = 88; }},
      {"the cache's columns", {"cache.shape[2]"}, [](M m) { m.cache.shape[2] = 72; }},
      {"a page of no tokens", {"cache.shape[1]"}, [](M m) { m.cache.shape[1] = 0; }},
      {"cache_scale beside bf16", {"cache_scale"}, [](M m) { m.args.cache_scale = m.cache_scale.get(); }},
      {"cache_type", {"cache_type", "7"}, [](M m) { m.args.cache_type = 7; }},
      {"rows of 656", {"cache", "uint8"}, [](M m) { m.args.cache_type = QUERN_MLA_CACHE_ROWS_656; }},
      {"the table's rows", {"page_table.shape[0]"}, [](M m) { m.page_table.shape[0] = 5; }},
      {"cu_q's extent", {"cu_q.shape[0]"}, [](M m) { m.cu_q.shape[0] = 2; }},
      {"lse's heads", {"lse.shape[1]"}, [](M m) { m.lse.shape[1] = 3; }},
      {"the last stride", {"q.strides[2]", "1"}, [](M m) { m.q.strides[2] = 2; }},
      {"slots without indices", {"indices", "QUERN_MLA_SLOTS"}, [](M m) { m.args.flags |= QUERN_MLA_SLOTS; }},
      {"slots and a table",
       {"QUERN_MLA_SLOTS"},
       [](M m) { m.args.flags |= QUERN_MLA_SLOTS, m.args.indices = m.indices.get(); }},
      {"scale 0", {"scale"}, [](M m) { m.args.scale = 0; }},
      {"scale negative", {"scale"}, [](M m) { m.args.scale = -1; }},
      {"logit_cap negative", {"logit_cap"}, [](M m) { m.args.logit_cap = -1; }},
      {"max_kv_len 0", {"max_kv_len"}, [](M m) { m.args.max_kv_len = 0; }},
      {"max_q_len negative", {"max_q_len"}, [](M m) { m.args.max_q_len = -1; }},
      {"window_left negative",
       {"window_left"},
       [](M m) { m.args.flags |= QUERN_MLA_WINDOW_LEFT, m.args.window_left = -2; }},
      {"alignment 2", {"alignment", "2"}, [](M m) { m.args.alignment = 2; }},
      {"max_sms negative", {"max_sms", "-1"}, [](M m) { m.args.max_sms = -1; }},
      {"an unknown flag", {"flags"}, [](M m) { m.args.flags = 1u << 30; }},
      {"no size", {"size"}, [](M m) { m.args.size = 0; }},
      {"q without data", {"q", "NULL"}, [](M m) { m.q.tensor.data = nullptr; }, true},
      {"no workspace", {"workspace"}, [](M m) { m.args.workspace = nullptr; }, true},
      {"too small a workspace", {"workspace_size"}, [](M m) { m.args.workspace_size = 64; }, true},
  };
  expect_all_refused(
      mistakes,
      ThreeCalls<quern_mla_decode_args>{quern_mla_decode, quern_mla_decode_workspace, quern_mla_decode_prepare},
      [] {
        MlaCase c;
        c.d_latent = 48;
        c.d_rope = 16;
        c.heads = 5;
        c.top_k = 3;
        c.sequences = {{1, 40}, {2, 9}};
        auto problem = std::make_unique<MlaProblem>(c, Random("refusals"));
        problem->args.indices = nullptr;
        problem->run(context());
        problem->poison_outputs();
        return problem;
      },
      [](MlaProblem& problem) {
        return [&problem, before = problem.output().out] { return problem.output().out == before; };
      });
}

}  // namespace
}  // namespace quern::test
