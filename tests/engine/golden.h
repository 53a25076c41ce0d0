// What the small model of tests/data/model says, by fp32 maths on its bf16 weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/demo/call.h"
#include "quern.h"

namespace quern::test {

inline const std::string kModel = QUERN_TEST_DATA "/model";

struct GoldenCase {
  std::string prompt;
  std::vector<std::int32_t> ids;                   // the prompt's tokens
  std::vector<std::vector<std::int32_t>> top_ids;  // of each position, the five most probable
  std::vector<std::vector<double>> top_logits;
  std::vector<double> logsumexp;
  std::vector<std::int32_t> greedy;  // 64 tokens behind the prompt, made by greedy.py
};
struct Golden {
  std::vector<GoldenCase> cases;
  std::vector<std::vector<std::int32_t>> sequences;  // held out of training
  std::vector<double> sequence_nll;                  // the mean negative log-likelihood of each, natural
  double nll = 0.0;
};
Golden read_golden();

// On the GPU of this number where QUERN_TEST_DEVICE is cuda, else on `host`, with the tests' kernel cache. Null where
// there is no such GPU but the first one, which has to be there.
demo::Context engine_context(std::int32_t gpu = 0);
quern_device_info device_of(quern_context* context);

}  // namespace quern::test
