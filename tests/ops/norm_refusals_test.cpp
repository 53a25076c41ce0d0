// What norm refuses.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "tests/ops/norm_fixture.h"

namespace quern::test {
namespace {

TEST(NormRefuses, EveryWrongArgument) {
  using N = Norm&;
  const auto group = [](N d) {
    d.args.kind = QUERN_NORM_GROUP, d.args.groups = 4, d.args.scale = d.args.shift = nullptr;
    for (Matrix* each : {&d.x, &d.residual, &d.out, &d.sum}) {
      each->box.tensor.ndim = 3;
      each->box.shape[1] = 32, each->box.shape[2] = 10, each->box.strides[1] = 10, each->box.strides[2] = 1;
    }
    d.weight.box.shape[0] = d.bias.box.shape[0] = 32;
  };
  const std::vector<Mistake<Norm>> own = {
      {"kind", {"kind", "4"}, [](N d) { d.args.kind = 4; }},
      {"out's dtype", {"out", "int32"}, [](N d) { d.out.box.tensor.dtype = kInt32; }},
      {"out over x in another dtype",
       {"out is x", "f32", "bf16"},
       [](N d) { d.out.box.tensor.data = d.x.box.tensor.data, d.out.box.tensor.dtype = kFloat32; },
       true},
      {"bias' dtype", {"bias", "bf16"}, [](N d) { d.bias.box.tensor.dtype = kFloat32; }},
      {"shift's dtype", {"shift", "bf16"}, [](N d) { d.shift.box.tensor.dtype = kFloat32; }},
      {"scale's rows", {"scale.shape[0]", "4", "divisors"}, [](N d) { d.scale.box.shape[0] = 4; }},
      {"shift's rows", {"shift.shape[0]", "1", "scale"}, [](N d) { d.shift.box.shape[0] = 1; }},
      {"scale's columns", {"scale.shape[1]", "320"}, [](N d) { d.scale.box.shape[1] = 310; }},
      {"no columns", {"x.shape[1]", "0"}, [](N d) { d.x.box.shape[1] = 0; }},
      {"groups without GROUP", {"groups", "2"}, [](N d) { d.args.groups = 2; }},
      {"groups that do not divide", {"groups", "5", "32"}, [=](N d) { group(d), d.args.groups = 5; }},
      {"groups apart", {"x.strides[1]", "10"}, [=](N d) { group(d), d.x.box.strides[1] = 12; }},
      {"channels last in x alone",
       {"out.strides[1]", "1"},
       [=](N d) {
         group(d), d.x.box.strides[1] = 1, d.x.box.strides[2] = 32;
         d.args.residual = d.args.residual_out = nullptr;
       }},
      {"groups with scale", {"scale", "QUERN_NORM_GROUP"}, [=](N d) { group(d), d.args.scale = d.scale.box.get(); }},
      {"1 + no weight",
       {"QUERN_NORM_WEIGHT_PLUS_ONE", "weight"},
       [](N d) { d.args.weight = nullptr, d.args.flags = QUERN_NORM_WEIGHT_PLUS_ONE; }},
      {"no scale alone",
       {"QUERN_NORM_SCALE_ALONE", "scale"},
       [](N d) { d.args.scale = nullptr, d.args.flags = QUERN_NORM_SCALE_ALONE; }},
      {"powers of two", {"QUERN_NORM_POWER_OF_TWO", "8-bit"}, [](N d) { d.args.flags = QUERN_NORM_POWER_OF_TWO; }},
      {"a kind of scale", {"scale_kind", "3"}, [](N d) { d.args.scale_kind = QUERN_SCALE_TOKEN; }},
      {"a scale", {"out_scale", "NULL"}, [](N d) { d.args.out_scale = d.weight.box.get(); }},
      {"dense", {"dense", "NULL"}, [](N d) { d.args.dense = d.out.box.get(); }},
      {"8 bits modulated, and dense",
       {"dense", "8-bit"},
       [](N d) {
         d.out.box.tensor.dtype = Element(Element::e4m3).type();
         d.args.scale_kind = QUERN_SCALE_TOKEN, d.args.dense = d.x.box.get();
       }},
      {"8 bits of groups",
       {"kind", "3", "8-bit"},
       [=](N d) { group(d), d.out.box.tensor.dtype = Element(Element::e4m3).type(); }},
      {"8 bits without out_scale",
       {"out_scale", "NULL"},
       [](N d) {
         d.out.box.tensor.dtype = Element(Element::e4m3).type();
         d.args.scale_kind = QUERN_SCALE_TOKEN;
       }},
      {"out_scale's rows",
       {"out_scale.shape[0]", "5"},
       [](N d) {
         d.out.box.tensor.dtype = Element(Element::e4m3).type();
         d.weight.box.tensor.dtype = kFloat32, d.args.weight = nullptr, d.args.bias = nullptr;
         d.args.scale_kind = QUERN_SCALE_TOKEN, d.args.out_scale = d.weight.box.get();
       }},
      {"8 bits without scale",
       {"scale_kind", "0", "8-bit"},
       [](N d) {
         d.out.box.tensor.dtype = Element(Element::e4m3).type();
         d.args.scale = d.args.shift = nullptr;
       }},
      {"a flag that is none", {"flags"}, [](N d) { d.args.flags = 1u << 20; }},
      {"alignment 2", {"alignment", "2"}, [](N d) { d.args.alignment = 2; }},
      {"reserved", {"reserved", "1"}, [](N d) { d.args.reserved = 1; }},
      {"no size", {"size"}, [](N d) { d.args.size = 0; }},
  };
  std::vector<Mistake<Norm>> mistakes = mistakes_of_norms<Norm>();
  mistakes.insert(mistakes.end(), own.begin(), own.end());
  NormCase good = plain_norm("refused", 5, 320);
  good.residual = true, good.sum = Where::own, good.scale = good.shift = Parameter::like_x, good.m = 5;
  expect_all_refused(
      mistakes, ThreeCalls<quern_norm_args>{quern_norm, quern_norm_workspace, quern_norm_prepare},
      [&] {
        auto norm = std::make_unique<Norm>(good);
        norm->put();
        return norm;
      },
      [](N d) {
        return [&d] {
          d.get();
          const auto poisoned = [](unsigned char byte) { return byte == 0xee; };
          return std::ranges::all_of(d.out.all_found(), poisoned) && std::ranges::all_of(d.sum.all_found(), poisoned);
        };
      });
}

TEST(NormRefuses, ASmallWorkspace) {
  Norm norm(plain_norm("small workspace", 2, 20000));
  norm.put();
  expect_refused({"workspace_size"}, [&](quern_error* e) { return quern_norm(context(), &norm.args, e); });
}

}  // namespace
}  // namespace quern::test
