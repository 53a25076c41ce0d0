// One call of moe_route over random logits, and what its definition gives for them in fp64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/ops/element.h"
#include "tests/ops/random.h"
#include "tests/ops/tensor_box.h"

namespace quern::test {

struct RoutingCase {
  Element dtype = Element::f32;
  std::int64_t tokens = 1, experts = 8;
  int top_k = 2, groups = 0, top_groups = 0;
  bool sigmoid = false, renormalize = false, bias = false;
  float scale = 0.0f;
  int first_expert = 0, local_experts = 0;
  std::int64_t padding = 0;  // elements between the rows of every tensor
  int max_sms = 0;

  std::string text() const;
  std::int64_t local() const { return local_experts != 0 ? local_experts : experts - first_expert; }
  bool operator==(const RoutingCase&) const = default;
};
// DeepSeek-V3's gate.
RoutingCase deepseek(std::int64_t tokens);

// What a call wrote, padding and all.
struct Routed {
  std::vector<float> weights;
  std::vector<std::int32_t> ids, offsets, indices, positions, counts;
};
bool same_bits(const Routed& a, const Routed& b);

class Routing {
 public:
  // Random logits, such that no two choices that differ are so close that rounding could swap them.
  Routing(const RoutingCase& c, Random random);

  // The numbers may be set before a run; they are rounded to the dtype.
  double logit(std::int64_t token, std::int64_t expert) const { return logits_[at(token, expert)]; }
  void set_logit(std::int64_t token, std::int64_t expert, double value);
  void set_bias(std::int64_t expert, double value) {
    bias_[static_cast<std::size_t>(expert)] = static_cast<float>(value);
  }

  // Workspace, prepare and a call that may not compile. Numbers go to the device, outputs are poisoned first.
  void run(quern_context* context);
  // The same in parts.
  void upload();
  void poison();
  void call(quern_context* context, void* stream = nullptr);
  Routed read() const;

  // Holds what was written against the definition.
  void check() const { check(read()); }
  void check(const Routed& given) const;
  void expect_counters_zero() const;

  quern_moe_route_args args{};
  TensorBox logits, bias, weights, ids, offsets, indices, positions, counts;

 private:
  struct Choice {
    double value;  // what is compared
    double score;
    std::int32_t id;
  };
  std::size_t at(std::int64_t token, std::int64_t expert) const {
    return static_cast<std::size_t>(token * c_.experts + expert);
  }
  std::vector<Choice> choices(std::int64_t token) const;
  double worth(const std::vector<Choice>& choices, int group) const;
  // The top_k best of those that are in the running.
  std::vector<Choice> chosen(std::int64_t token) const;
  bool separated(std::int64_t token) const;
  void draw(std::int64_t token, Random& random);
  void check_weights(std::int64_t token, const std::vector<Choice>& best, const float* given) const;

  RoutingCase c_;
  std::vector<double> logits_;
  std::vector<float> bias_;
  Buffer logit_buffer_, bias_buffer_, workspace_;
  Buffer weight_buffer_, id_buffer_, offset_buffer_, index_buffer_, position_buffer_, count_buffer_;
};

}  // namespace quern::test
