// Every argument of attention wrong in every way: refused by name, outputs untouched.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/ops/attention_problem.h"
#include "tests/ops/refusal.h"

namespace quern::test {
namespace {

// Where a mistake shows: data and the workspace are only looked at by the call itself.
enum class Seen { always, by_the_call };

struct Mistake {
  const char* what;
  std::vector<std::string_view> words;
  std::function<void(AttentionProblem&)> make;
  Seen seen = Seen::always;
};

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

AttentionCase basic() {
  AttentionCase c;
  c.name = "refused";
  c.sequences = {{3, 40}, {1, 9}, {2, 2}};
  c.causal = true;
  c.alibi = true;
  c.sinks = true;
  c.padding = 8;  // so that every tensor has strides to spoil
  return c;
}

void expect_mistakes_refused(const AttentionCase& c, const std::vector<Mistake>& mistakes) {
  for (const Mistake& mistake : mistakes) {
    SCOPED_TRACE(mistake.what);
    AttentionProblem problem(c, Random("refused"));
    problem.make_workspace(context());
    const AttentionOutput before = problem.output();
    mistake.make(problem);
    expect_refused(mistake.words, [&](quern_error* e) { return quern_attention(context(), &problem.args(), e); });
    if (mistake.seen == Seen::always) {
      std::uint64_t bytes = 77;
      expect_refused(mistake.words,
                     [&](quern_error* e) { return quern_attention_workspace(context(), &problem.args(), &bytes, e); });
      EXPECT_EQ(bytes, 77u);
      expect_refused(mistake.words,
                     [&](quern_error* e) { return quern_attention_prepare(context(), &problem.args(), e); });
    }
    const AttentionOutput after = problem.output();
    EXPECT_EQ(after.out, before.out);
    EXPECT_EQ(0, std::memcmp(after.lse.data(), before.lse.data(), before.lse.size() * 4));
  }
}

// What is wrong with a tensor whatever it is for.
using Pick = TensorBox& (*)(AttentionTensors&);
using Argument = const DLTensor* quern_attention_args::*;

std::vector<Mistake> any_tensor(std::string_view name, Pick pick, Argument argument, bool required) {
  const auto change = [pick](const std::function<void(TensorBox&)>& f) {
    return [pick, f](AttentionProblem& p) { f(pick(p.tensors())); };
  };
  std::vector<Mistake> all = {
      {"rank too low", {name, "dimensions"}, change([](TensorBox& t) { t.tensor.ndim -= 1; })},
      {"rank too high", {name, "dimensions"}, change([](TensorBox& t) { t.tensor.ndim += 1; })},
      {"rank negative", {name, "dimensions"}, change([](TensorBox& t) { t.tensor.ndim = -1; })},
      {"float64", {name, "allowed"}, change([](TensorBox& t) { t.tensor.dtype = {kDLFloat, 64, 1}; })},
      {"int64", {name, "allowed"}, change([](TensorBox& t) { t.tensor.dtype = {kDLInt, 64, 1}; })},
      {"two lanes", {name, "vectors of 2"}, change([](TensorBox& t) { t.tensor.dtype.lanes = 2; })},
      {"another device", {name, "ROCm", "context"}, change([](TensorBox& t) {
         t.tensor.device.device_type = static_cast<decltype(DLDevice::device_type)>(kDLROCM);
       })},
      {"another ordinal", {name, ":5"}, change([](TensorBox& t) { t.tensor.device.device_id = 5; })},
      {"no shape", {name, "shape"}, change([](TensorBox& t) { t.tensor.shape = nullptr; })},
      {"a negative extent", {name, "shape[0]"}, change([](TensorBox& t) { t.shape[0] = -1; })},
      {"an absurd extent", {name, "shape[0]"}, change([](TensorBox& t) { t.shape[0] = std::int64_t{1} << 40; })},
      {"no data", {name, "NULL"}, change([](TensorBox& t) { t.tensor.data = nullptr; }), Seen::by_the_call},
  };
  if (required) {
    all.push_back({"NULL", {name, "NULL"}, [argument](AttentionProblem& p) { p.args().*argument = nullptr; }});
  }
  return all;
}

TEST(AttentionRefuses, WhatIsWrongWithAnyTensor) {
  struct Named {
    std::string_view name;
    Pick pick;
    Argument argument;
    bool required;
  };
  const Named tensors[] = {
      {"q", [](AttentionTensors& t) -> TensorBox& { return t.q; }, &quern_attention_args::q, true},
      {"k", [](AttentionTensors& t) -> TensorBox& { return t.k; }, &quern_attention_args::k, true},
      {"v", [](AttentionTensors& t) -> TensorBox& { return t.v; }, &quern_attention_args::v, true},
      {"out", [](AttentionTensors& t) -> TensorBox& { return t.out; }, &quern_attention_args::out, true},
      {"lse", [](AttentionTensors& t) -> TensorBox& { return t.lse; }, &quern_attention_args::lse, false},
      {"lengths", [](AttentionTensors& t) -> TensorBox& { return t.lengths; }, &quern_attention_args::lengths, true},
      {"cu_q", [](AttentionTensors& t) -> TensorBox& { return t.cu_q; }, &quern_attention_args::cu_q, false},
      {"page_table", [](AttentionTensors& t) -> TensorBox& { return t.page_table; }, &quern_attention_args::page_table,
       false},
      {"alibi_slopes", [](AttentionTensors& t) -> TensorBox& { return t.alibi_slopes; },
       &quern_attention_args::alibi_slopes, false},
      {"sinks", [](AttentionTensors& t) -> TensorBox& { return t.sinks; }, &quern_attention_args::sinks, false},
  };
  for (const Named& t : tensors) {
    SCOPED_TRACE(t.name);
    expect_mistakes_refused(basic(), any_tensor(t.name, t.pick, t.argument, t.required));
  }
  AttentionCase indices = basic();
  indices.indptr = true;
  const Named paged[] = {
      {"page_indptr", [](AttentionTensors& t) -> TensorBox& { return t.page_indptr; },
       &quern_attention_args::page_indptr, true},
      {"page_indices", [](AttentionTensors& t) -> TensorBox& { return t.page_indices; },
       &quern_attention_args::page_indices, true},
  };
  for (const Named& t : paged) {
    SCOPED_TRACE(t.name);
    expect_mistakes_refused(indices, any_tensor(t.name, t.pick, t.argument, t.required));
  }
  AttentionCase ragged = basic();
  ragged.layout = Layout::ragged;
  expect_mistakes_refused(ragged, any_tensor(
                                      "cu_kv", [](AttentionTensors& t) -> TensorBox& { return t.cu_kv; },
                                      &quern_attention_args::cu_kv, false));
}

TEST(AttentionRefuses, ShapesThatDoNotFitTogether) {
  using P = AttentionProblem&;
  expect_mistakes_refused(
      basic(),
      {
          {"head dim 0", {"q.shape[2]", "multiples of 8"}, [](P p) { p.tensors().q.shape[2] = 0; }},
          {"head dim 12", {"q.shape[2]", "12"}, [](P p) { p.tensors().q.shape[2] = 12; }},
          {"head dim 1032", {"q.shape[2]", "1032", "1024"}, [](P p) { p.tensors().q.shape[2] = 1032; }},
          {"no heads", {"q.shape[1]"}, [](P p) { p.tensors().q.shape[1] = 0; }},
          {"heads no multiple", {"q.shape[1]", "multiple"}, [](P p) { p.tensors().q.shape[1] = 5; }},
          {"k's head dim", {"k.shape[3]", "64"}, [](P p) { p.tensors().k.shape[3] = 56; }},
          {"v's head dim", {"v.shape[3]", "multiples of 8"}, [](P p) { p.tensors().v.shape[3] = 4; }},
          {"v's head dim beside out's", {"out.shape[2]"}, [](P p) { p.tensors().v.shape[3] = 32; }},
          {"page size 0",
           {"k.shape[1]", "page size"},
           [](P p) { p.tensors().k.shape[1] = p.tensors().v.shape[1] = 0; }},
          {"another page size", {"v.shape[1]", "16"}, [](P p) { p.tensors().v.shape[1] = 8; }},
          {"other KV heads", {"v.shape[2]"}, [](P p) { p.tensors().v.shape[2] = 1; }},
          {"no KV heads", {"heads"}, [](P p) { p.tensors().k.shape[2] = p.tensors().v.shape[2] = 0; }},
          {"rows of out", {"out.shape[0]"}, [](P p) { p.tensors().out.shape[0] = 5; }},
          {"heads of out", {"out.shape[1]"}, [](P p) { p.tensors().out.shape[1] = 2; }},
          {"rows of lse", {"lse.shape[0]"}, [](P p) { p.tensors().lse.shape[0] = 5; }},
          {"heads of lse", {"lse.shape[1]"}, [](P p) { p.tensors().lse.shape[1] = 8; }},
          {"cu_q too short", {"cu_q.shape[0]", "4"}, [](P p) { p.tensors().cu_q.shape[0] = 3; }},
          {"cu_q too long", {"cu_q.shape[0]", "4"}, [](P p) { p.tensors().cu_q.shape[0] = 5; }},
          {"rows of page_table", {"page_table.shape[0]", "3"}, [](P p) { p.tensors().page_table.shape[0] = 2; }},
          {"slopes", {"alibi_slopes.shape[0]", "4"}, [](P p) { p.tensors().alibi_slopes.shape[0] = 3; }},
          {"sinks", {"sinks.shape[0]", "4"}, [](P p) { p.tensors().sinks.shape[0] = 2; }},
          {"fewer rows than sequences",
           {"q.shape[0]", "batch"},
           [](P p) {
             p.args().cu_q = nullptr;
             p.tensors().q.shape[0] = p.tensors().out.shape[0] = p.tensors().lse.shape[0] = 2;
           }},
          {"other dtypes of q and k", {"k", "bf16"}, [](P p) { p.tensors().k.tensor.dtype = dtype_of(Format::f16); }},
          {"other dtypes of q and v", {"v", "bf16"}, [](P p) { p.tensors().v.tensor.dtype = dtype_of(Format::f16); }},
          {"other dtypes of q and out",
           {"out", "bf16"},
           [](P p) { p.tensors().out.tensor.dtype = dtype_of(Format::f16); }},
          {"q f32", {"q", "f32"}, [](P p) { p.tensors().q.tensor.dtype = kFloat32; }},
          {"lse f16", {"lse", "f16"}, [](P p) { p.tensors().lse.tensor.dtype = dtype_of(Format::f16); }},
      });
}

TEST(AttentionRefuses, StridesAndAlignment) {
  using P = AttentionProblem&;
  expect_mistakes_refused(
      basic(),
      {
          {"q's last stride", {"q.strides[2]", "1"}, [](P p) { p.tensors().q.strides[2] = 2; }},
          {"k's last stride", {"k.strides[3]", "1"}, [](P p) { p.tensors().k.strides[3] = 2; }},
          {"v's last stride", {"v.strides[3]", "1"}, [](P p) { p.tensors().v.strides[3] = 0; }},
          {"out's last stride", {"out.strides[2]", "1"}, [](P p) { p.tensors().out.strides[2] = 3; }},
          {"a negative stride of q", {"q.strides[0]"}, [](P p) { p.tensors().q.strides[0] = -72; }},
          {"a negative stride of k", {"k.strides[1]"}, [](P p) { p.tensors().k.strides[1] = -8; }},
          {"an absurd stride", {"q.strides[1]"}, [](P p) { p.tensors().q.strides[1] = std::int64_t{1} << 60; }},
          {"a page of 4 GiB", {"k.strides[0]", "4 GiB"}, [](P p) { p.tensors().k.strides[0] = std::int64_t{1} << 31; }},
          {"q's rows not aligned", {"q", "stride", "alignment"}, [](P p) { p.tensors().q.strides[0] += 4; }},
          {"k's rows not aligned", {"k", "stride", "alignment"}, [](P p) { p.tensors().k.strides[1] += 2; }},
          {"v's heads not aligned", {"v", "stride", "alignment"}, [](P p) { p.tensors().v.strides[2] += 1; }},
          {"out's rows not aligned", {"out", "stride", "alignment"}, [](P p) { p.tensors().out.strides[1] += 6; }},
          {"q's data not aligned",
           {"q", "data", "alignment"},
           [](P p) { p.tensors().q.tensor.byte_offset += 8; },
           Seen::by_the_call},
          {"k's data not aligned",
           {"k", "data", "alignment"},
           [](P p) { p.tensors().k.tensor.byte_offset += 2; },
           Seen::by_the_call},
          {"v's data not aligned",
           {"v", "data", "alignment"},
           [](P p) { p.tensors().v.tensor.byte_offset += 4; },
           Seen::by_the_call},
          {"out's data not aligned",
           {"out", "data", "alignment"},
           [](P p) { p.tensors().out.tensor.byte_offset += 4; },
           Seen::by_the_call},
          {"lengths strided",
           {"lengths.strides[0]", "1"},
           [](P p) {
             p.tensors().lengths.strides[0] = 2, p.tensors().lengths.tensor.strides = p.tensors().lengths.strides;
           }},
          {"page_table strided",
           {"page_table.strides[1]", "1"},
           [](P p) {
             TensorBox& t = p.tensors().page_table;
             t.strides[0] = 2 * t.shape[1], t.strides[1] = 2;
             t.tensor.strides = t.strides;
           }},
      });
}

TEST(AttentionRefuses, NumbersOutOfRange) {
  using P = AttentionProblem&;
  expect_mistakes_refused(basic(),
                          {
                              {"alignment 3", {"alignment", "3"}, [](P p) { p.args().alignment = 3; }},
                              {"alignment 2", {"alignment", "2"}, [](P p) { p.args().alignment = 2; }},
                              {"alignment 32", {"alignment", "32"}, [](P p) { p.args().alignment = 32; }},
                              {"alignment negative", {"alignment", "-16"}, [](P p) { p.args().alignment = -16; }},
                              {"max_sms negative", {"max_sms", "-1"}, [](P p) { p.args().max_sms = -1; }},
                              {"max_q_len negative", {"max_q_len", "-2"}, [](P p) { p.args().max_q_len = -2; }},
                              {"max_q_len without cu_q",
                               {"max_q_len", "cu_q"},
                               [](P p) { p.args().cu_q = nullptr, p.args().max_q_len = 2; }},
                              {"max_q_len absurd", {"max_q_len"}, [](P p) { p.args().max_q_len = INT32_MAX; }},
                              {"max_kv_len not given", {"max_kv_len", "0"}, [](P p) { p.args().max_kv_len = 0; }},
                              {"max_kv_len negative", {"max_kv_len", "-1"}, [](P p) { p.args().max_kv_len = -1; }},
                              {"max_kv_len absurd", {"max_kv_len"}, [](P p) { p.args().max_kv_len = INT32_MAX; }},
                              {"window_left negative",
                               {"window_left", "-1"},
                               [](P p) { p.args().flags |= QUERN_ATTENTION_WINDOW_LEFT, p.args().window_left = -1; }},
                              {"window_right negative",
                               {"window_right", "-7"},
                               [](P p) { p.args().flags |= QUERN_ATTENTION_WINDOW_RIGHT, p.args().window_right = -7; }},
                              {"scale negative", {"scale"}, [](P p) { p.args().scale = -0.1f; }},
                              {"scale NaN", {"scale", "nan"}, [](P p) { p.args().scale = kNan; }},
                              {"scale infinite", {"scale", "inf"}, [](P p) { p.args().scale = kInfinity; }},
                              {"logit_cap negative", {"logit_cap"}, [](P p) { p.args().logit_cap = -30.0f; }},
                              {"logit_cap NaN", {"logit_cap", "nan"}, [](P p) { p.args().logit_cap = kNan; }},
                              {"logit_cap infinite", {"logit_cap", "inf"}, [](P p) { p.args().logit_cap = kInfinity; }},
                              {"an unknown flag", {"flags"}, [](P p) { p.args().flags |= 1u << 30; }},
                          });
}

TEST(AttentionRefuses, PagesGivenInTwoWaysOrNone) {
  using P = AttentionProblem&;
  expect_mistakes_refused(
      basic(), {
                   {"none", {"page_table", "cu_kv"}, [](P p) { p.args().page_table = nullptr; }},
                   {"table and indices",
                    {"page_table", "page_indices"},
                    [](P p) { p.args().page_indices = p.tensors().page_indices.get(); }},
                   {"table and indptr",
                    {"page_table", "page_indptr"},
                    [](P p) { p.args().page_indptr = p.tensors().page_indptr.get(); }},
                   {"table and cu_kv", {"page_table", "cu_kv"}, [](P p) { p.args().cu_kv = p.tensors().cu_kv.get(); }},
                   {"indptr alone",
                    {"page_indices"},
                    [](P p) { p.args().page_table = nullptr, p.args().page_indptr = p.tensors().page_indptr.get(); }},
                   {"indices alone",
                    {"page_indptr"},
                    [](P p) { p.args().page_table = nullptr, p.args().page_indices = p.tensors().page_indices.get(); }},
                   {"ragged, but paged keys",
                    {"k", "dimensions"},
                    [](P p) { p.args().page_table = nullptr, p.args().cu_kv = p.tensors().cu_kv.get(); }},
               });
  AttentionCase ragged = basic();
  ragged.layout = Layout::ragged;
  expect_mistakes_refused(ragged,
                          {
                              {"tokens of v", {"v.shape[0]"}, [](P p) { p.tensors().v.shape[0] -= 1; }},
                              {"cu_kv too short", {"cu_kv.shape[0]", "4"}, [](P p) { p.tensors().cu_kv.shape[0] = 3; }},
                          });
}

TEST(AttentionRefuses, AWorkspaceThatIsNone) {
  using P = AttentionProblem&;
  const Seen call = Seen::by_the_call;
  expect_mistakes_refused(
      basic(),
      {
          {"NULL", {"workspace", "NULL"}, [](P p) { p.args().workspace = nullptr; }, call},
          {"no size", {"workspace_size", "0"}, [](P p) { p.args().workspace_size = 0; }, call},
          {"a byte too small", {"workspace_size", "at least"}, [](P p) { p.args().workspace_size = 256 * 1024; }, call},
          {"not aligned",
           {"workspace", "256"},
           [](P p) { p.args().workspace = static_cast<char*>(p.args().workspace) + 128; },
           call},
      });
}

TEST(AttentionRefuses, StructsOfOtherSizes) {
  AttentionProblem problem(basic(), Random("refused"));
  problem.make_workspace(context());
  const AttentionOutput before = problem.output();
  problem.args().size = 0;
  expect_refused({"size"}, [&](quern_error* e) { return quern_attention(context(), &problem.args(), e); });
  struct Longer {
    quern_attention_args args;
    std::uint64_t tail[4];
  } longer{problem.args(), {0, 0, 1, 0}};
  longer.args.size = sizeof(longer);
  expect_refused({"size"}, [&](quern_error* e) { return quern_attention(context(), &longer.args, e); });
  expect_refused({"args"}, [&](quern_error* e) { return quern_attention(context(), nullptr, e); });
  expect_refused({"context"}, [&](quern_error* e) { return quern_attention(nullptr, &problem.args(), e); });
  expect_refused({"bytes"},
                 [&](quern_error* e) { return quern_attention_workspace(context(), &longer.args, nullptr, e); });
  EXPECT_EQ(problem.output().out, before.out);
  // One from a newer header, whose new fields are left at their defaults.
  longer.tail[2] = 0;
  auto error = sized<quern_error>();
  EXPECT_EQ(quern_attention(context(), &longer.args, &error), QUERN_OK) << error.text;
  problem.check();
}

TEST(AttentionRefuses, AContextWithoutADevice) {
  const Context none = make_context([](quern_context_options& o) {
    o.device_type = 0;
    o.target = nullptr;
  });
  AttentionProblem problem(basic(), Random("refused"));
  problem.make_workspace(context());
  std::uint64_t bytes = 0;
  expect_refused({"device"},
                 [&](quern_error* e) { return quern_attention_workspace(none.get(), &problem.args(), &bytes, e); });
  expect_refused({"device"}, [&](quern_error* e) { return quern_attention_prepare(none.get(), &problem.args(), e); });
  expect_refused({"device"}, [&](quern_error* e) { return quern_attention(none.get(), &problem.args(), e); });
}

}  // namespace
}  // namespace quern::test
