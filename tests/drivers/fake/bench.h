// What is expected of any GPU driver's Bench, against a fake library that counts what is asked of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "jit/driver.h"
#include "tests/drivers/support.h"

namespace quern::jit::test {

// `stream` is what the fake library gives out.
template <class State>
void expect_bench_gives_back(Driver& driver, State& state, void* stream) {
  {
    const std::unique_ptr<Bench> bench = driver.bench();
    EXPECT_EQ(bench->stream(), stream);
    void* const first = bench->allocate(1000);
    void* const second = bench->allocate(2000);
    EXPECT_NE(first, second);
    EXPECT_EQ(bench->allocate(0), nullptr);
    bench->write(first, "x", 1);
    EXPECT_EQ(state.copied, 1);
    EXPECT_EQ(state.synchronized, 1) << "what is copied may go once write returns";
    bench->release(first);
    bench->release(nullptr);
    EXPECT_EQ(state.blocks, 1);
    state.elapsed = 1.5f;
    bench->start();
    EXPECT_EQ(bench->stop(), 1500.0) << "microseconds";
    state.memory_allocate = 2;
    const Error error = error_of([&] { bench->allocate(4096); });
    EXPECT_EQ(error.status(), QUERN_NO_MEMORY);
    EXPECT_TRUE(contains(error.text(), "allocating 4096 bytes")) << error.text();
  }
  EXPECT_EQ(state.streams, 0);
  EXPECT_EQ(state.events, 0);
  EXPECT_EQ(state.blocks, 0);
}

}  // namespace quern::jit::test
