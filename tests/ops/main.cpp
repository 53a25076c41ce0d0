// The tests of the ops on one device: QUERN_TEST_DEVICE=host|host64|cuda, QUERN_TEST_SEED=N, QUERN_TEST_CACHE=FOLDER,
// QUERN_TEST_LONG=1 (see targets_test.cpp).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/ops/attention_check.h"
#include "tests/ops/device.h"
#include "tests/ops/gemm_check.h"
#include "tests/ops/random.h"

namespace quern::test {
namespace {

class Run : public testing::Environment {
 public:
  void SetUp() override {
    auto device = sized<quern_device_info>();
    ASSERT_EQ(quern_device(context(), &device, nullptr), QUERN_OK);
    std::printf("%s on %s; QUERN_TEST_SEED=%llu\n", device.target, device.name,
                static_cast<unsigned long long>(run_seed()));
  }
  void TearDown() override {
    const Closeness& worst = worst_closeness();
    std::printf("errors came to %.2f of what is allowed in out, %.2f in lse; in products to %.2f\n", worst.out,
                worst.lse, worst_gemm_error());
  }
};

}  // namespace
}  // namespace quern::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::AddGlobalTestEnvironment(new quern::test::Run);
  return RUN_ALL_TESTS();
}
