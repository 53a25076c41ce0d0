// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/case_suite.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/ops/cuda.h"
#include "tests/ops/device.h"

namespace quern::test {

void side_by_side(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  const auto take = [&] {
    if (on_cuda()) QUERN_TEST_CUDA(cuCtxSetCurrent(cuda().context));  // of each thread
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> threads;
  const std::size_t most = std::min<std::size_t>(std::thread::hardware_concurrency(), count);
  for (std::size_t i = 1; i < most; ++i) threads.emplace_back(take);
  take();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace quern::test
