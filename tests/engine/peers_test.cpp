// Sums through each other's memory, of contexts of the host or of several GPUs, each with a thread, against the same
// sums one after the other.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <barrier>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/demo/memory.h"
#include "bindings/engine/checkpoint/numbers.h"
#include "bindings/engine/device/stream.h"
#include "bindings/engine/parallel/communicator.h"
#include "bindings/engine/parallel/peer_kernel.h"
#include "tests/engine/golden.h"

namespace quern::test {
namespace {

using engine::bf16_of;
using engine::Communicator;
using Halves = std::vector<std::uint16_t>;

float f32_of(std::uint16_t bf16) { return std::bit_cast<float>(static_cast<std::uint32_t>(bf16) << 16); }

// What is asked of it is more than the kernel takes.
class Others final : public Communicator {
 public:
  Others(std::int64_t rank, std::int64_t size, std::vector<int>& asked) : rank_(rank), size_(size), asked_(asked) {}
  std::int64_t rank() const override { return rank_; }
  std::int64_t size() const override { return size_; }
  const char* how() const override { return "nobody"; }
  bool all_reduce(void*, std::int64_t, void*) override {
    asked_[static_cast<std::size_t>(rank_)]++;
    return false;
  }
  void meet() override {}

 private:
  std::int64_t rank_, size_;
  std::vector<int>& asked_;
};

// One rank's memory on its device, used by its own thread alone.
class Room {
 public:
  explicit Room(const quern_device_info& device) : memory_(demo::memory_of(device)) {}
  std::uint16_t* put(const Halves& values) {
    void* const data = memory_->allocate(values.size() * sizeof values[0]);
    memory_->upload(data, values.data(), values.size() * sizeof values[0]);
    memory_->synchronise();
    return static_cast<std::uint16_t*>(data);
  }
  Halves take(const std::uint16_t* data, std::size_t count) {
    Halves values(count);
    memory_->synchronise();
    memory_->download(values.data(), data, count * sizeof values[0]);
    return values;
  }

 private:
  std::unique_ptr<demo::Memory> memory_;
};

class Peers : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const auto ranks = static_cast<std::size_t>(GetParam());
    asked_.resize(ranks);
    std::vector<engine::PeerEnd> ends;
    for (std::size_t i = 0; i < ranks; ++i) {
      contexts_.push_back(context_of(static_cast<std::int32_t>(i)));
      if (contexts_.back() == nullptr) GTEST_SKIP() << "needs " << ranks << " GPUs";
      ends.push_back({contexts_[i].get(), device_of(contexts_[i].get()),
                      std::make_unique<Others>(static_cast<std::int64_t>(i), GetParam(), asked_)});
    }
    communicators_ = engine::open_peers(std::move(ends));
    ASSERT_EQ(communicators_.size(), ranks);
  }

  virtual demo::Context context_of(std::int32_t rank) { return engine_context(rank); }

  Halves draw(std::size_t count) {
    Halves values(count);
    std::normal_distribution<float> number;
    for (std::uint16_t& value : values) value = bf16_of(number(random_));
    return values;
  }
  std::vector<Halves> draw_parts(std::size_t count) {
    std::vector<Halves> parts;
    for (std::size_t i = 0; i < communicators_.size(); ++i) parts.push_back(draw(count));
    return parts;
  }

  // On each rank's thread. Allocating may wait for what runs, which waits for the other ranks: `meet` lets all have
  // allocated before the first one launches, and all have finished before one frees.
  using Meet = std::function<void()>;
  void on_all(const std::function<void(std::size_t rank, Room& room, const Meet& meet)>& what) const {
    std::barrier all(static_cast<std::ptrdiff_t>(communicators_.size()));
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < communicators_.size(); ++i) {
      threads.emplace_back([&, i] {
        Room room(device_of(contexts_[i].get()));
        what(i, room, [&] { all.arrive_and_wait(); });
        all.arrive_and_wait();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // What the kernel adds up, in its order.
  static float sum(const std::vector<Halves>& parts, std::size_t at) {
    float sum = 0.0f;
    for (const Halves& part : parts) sum += f32_of(part[at]);
    return sum;
  }

  std::mt19937 random_{std::random_device{}()};
  std::vector<demo::Context> contexts_;
  std::vector<int> asked_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

TEST_P(Peers, Sum) {
  for (const std::size_t count : {std::size_t{8}, std::size_t{4096}, std::size_t{4104}, std::size_t{3 * 4096 - 8}}) {
    // Ranks come in their own time, and one may be a launch ahead.
    constexpr std::size_t kTimes = 5;
    std::vector<std::vector<Halves>> given;
    for (std::size_t i = 0; i < kTimes; ++i) given.push_back(draw_parts(count));
    std::vector<std::vector<Halves>> got = given;
    on_all([&](std::size_t rank, Room& room, const Meet& meet) {
      std::vector<std::uint16_t*> data;
      for (const auto& parts : given) data.push_back(room.put(parts[rank]));
      communicators_[rank]->prepare(8, false, 0);
      meet();
      for (std::uint16_t* each : data)
        EXPECT_TRUE(communicators_[rank]->all_reduce(each, static_cast<std::int64_t>(count), nullptr));
      for (std::size_t i = 0; i < kTimes; ++i) got[i][rank] = room.take(data[i], count);
    });
    for (std::size_t i = 0; i < kTimes; ++i) {
      int wrong = 0;
      for (const Halves& part : got[i]) {
        for (std::size_t at = 0; at < count; ++at) wrong += part[at] != bf16_of(sum(given[i], at));
      }
      EXPECT_EQ(wrong, 0) << count << " elements, time " << i;
    }
  }
  for (const int asked : asked_) EXPECT_EQ(asked, 0);
}

TEST_P(Peers, LeaveTheRestToOthers) {
  on_all([&](std::size_t rank, Room&, const Meet&) {
    Communicator& own = *communicators_[rank];
    EXPECT_FALSE(own.all_reduce(nullptr, 8, nullptr));  // what nobody has asked for
    own.prepare(72, false, 0);
    EXPECT_FALSE(own.all_reduce(nullptr, 64 * 4096 + 8, nullptr));
    EXPECT_FALSE(own.all_reduce(nullptr, 12, nullptr));
    EXPECT_FALSE(own.add_and_normalise({nullptr, nullptr, nullptr, nullptr, 65, 72, 1e-5f}, nullptr));
    EXPECT_FALSE(own.add_and_normalise({nullptr, nullptr, nullptr, nullptr, 1, 64, 1e-5f}, nullptr));
  });
  for (const int asked : asked_) EXPECT_EQ(asked, 3);
}

TEST_P(Peers, AddAndNormalise) {
  const float eps = 1e-3f;
  for (const auto& [rows, columns] : {std::pair<std::size_t, std::size_t>{1, 64}, {3, 4096}, {64, 72}, {2, 5128}}) {
    for (const bool plus_one : {false, true}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns) + (plus_one ? ", 1 + weight" : ""));
      const std::size_t count = rows * columns;
      const std::vector<Halves> given = draw_parts(count);
      const Halves residual = draw(count), weight = draw(columns), poison(count, 0x7fc0);
      std::vector<Halves> residuals(given.size()), normed(given.size());
      on_all([&, rows = rows, columns = columns](std::size_t rank, Room& room, const Meet& meet) {
        communicators_[rank]->prepare(static_cast<std::int64_t>(columns), plus_one, 0);
        std::uint16_t *const delta = room.put(given[rank]), *const sum = room.put(residual),
                             *const by = room.put(weight), *const out = room.put(poison);
        meet();
        EXPECT_TRUE(communicators_[rank]->add_and_normalise(
            {delta, sum, by, out, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), eps}, nullptr));
        residuals[rank] = room.take(sum, count), normed[rank] = room.take(out, count);
      });
      int wrong = 0, off = 0;
      for (std::size_t row = 0; row < rows; ++row) {
        double squares = 0.0;
        for (std::size_t at = row * columns; at < (row + 1) * columns; ++at) {
          const float value = sum(given, at) + f32_of(residual[at]);
          squares += static_cast<double>(value) * static_cast<double>(value);
          for (const Halves& each : residuals) wrong += each[at] != bf16_of(value);
        }
        const double scale = 1.0 / std::sqrt(squares / static_cast<double>(columns) + static_cast<double>(eps));
        for (std::size_t c = 0; c < columns; ++c) {
          const std::size_t at = row * columns + c;
          const double by = static_cast<double>(f32_of(weight[c])) + (plus_one ? 1.0 : 0.0);
          const double truth = static_cast<double>(sum(given, at) + f32_of(residual[at])) * scale * by;
          // Half a unit of bf16, and what f32 rounds.
          off += !(std::abs(static_cast<double>(f32_of(normed[0][at])) - truth) <= 0.004 * std::abs(truth) + 1e-30);
          for (const Halves& each : normed) wrong += each[at] != normed[0][at];
        }
      }
      EXPECT_EQ(wrong, 0);
      EXPECT_EQ(off, 0);
    }
  }
}

// Of three and more ranks the order of NCCL's sums is its own: then all rows are its, so that their number decides
// nothing.
TEST_P(Peers, LeaveSumsToOthersWhereBatchesAreInvariant) {
  std::vector<bool> own(communicators_.size());
  on_all([&](std::size_t rank, Room& room, const Meet& meet) {
    std::uint16_t* const data = room.put(Halves(8));
    communicators_[rank]->prepare(8, false, QUERN_CALL_BATCH_INVARIANT);
    meet();
    const bool done = communicators_[rank]->all_reduce(data, 8, nullptr);
    EXPECT_EQ(done, communicators_.size() == 2);
    room.take(data, 8);
  });
}

// As a step has them, in a graph where there are graphs: launches of other grids one behind the other, the sums between
// norms, and replays that do not wait for each other. On one GPU its ranks share it, each with a stream of its own.
class PeersReplayed : public Peers {
 protected:
  demo::Context context_of(std::int32_t rank) override {
    demo::Context own = Peers::context_of(rank);
    return own != nullptr ? std::move(own) : Peers::context_of(0);
  }
};

TEST_P(PeersReplayed, AsAStepHasThem) {
  constexpr std::size_t kColumns = 512, kFew = 3, kMany = 64, kSummed = 8192, kReplays = 12;
  const std::vector<Halves> few = draw_parts(kFew * kColumns), many = draw_parts(kMany * kColumns),
                            summed = draw_parts(kSummed);
  const Halves weight = draw(kColumns);
  std::vector<Halves> got_few(few.size()), got_many(few.size()), got_summed(few.size());
  std::barrier captured(static_cast<std::ptrdiff_t>(few.size()));
  on_all([&](std::size_t rank, Room& room, const Meet& meet) {
    Communicator& own = *communicators_[rank];
    own.prepare(kColumns, false, 0);
    const auto zeros = [&](std::size_t rows) { return room.put(Halves(rows * kColumns)); };
    std::uint16_t *const of_few = room.put(few[rank]), *const of_many = room.put(many[rank]),
                         *const sums = room.put(summed[rank]), *const by = room.put(weight);
    std::uint16_t *const few_sum = zeros(kFew), *const many_sum = zeros(kMany), *const out = zeros(kMany);
    const std::unique_ptr<engine::Stream> stream = engine::stream_of(device_of(contexts_[rank].get()));
    meet();
    for (std::size_t i = 0; i < kReplays; ++i) {
      stream->replay(
          1,
          [&] {
            const auto add = [&](std::uint16_t* delta, std::uint16_t* residual, std::size_t rows) {
              EXPECT_TRUE(own.add_and_normalise({delta, residual, by, out, static_cast<std::int64_t>(rows),
                                                 static_cast<std::int64_t>(kColumns), 1e-5f},
                                                stream->handle()));
            };
            add(of_few, few_sum, kFew);
            EXPECT_TRUE(own.all_reduce(sums, kSummed, stream->handle()));
            add(of_many, many_sum, kMany);
          },
          [&] { captured.arrive_and_wait(); });
    }
    stream->wait();
    got_few[rank] = room.take(few_sum, kFew * kColumns), got_many[rank] = room.take(many_sum, kMany * kColumns);
    got_summed[rank] = room.take(sums, kSummed);
  });
  const auto wrong = [&](const std::vector<Halves>& got, const std::vector<Halves>& given, bool adds) {
    int count = 0;
    for (std::size_t at = 0; at < given[0].size(); ++at) {
      std::vector<Halves> now;
      for (const Halves& part : given) now.push_back({part[at]});
      std::uint16_t truth = 0;
      for (std::size_t i = 0; i < kReplays; ++i) {
        truth = bf16_of(sum(now, 0) + (adds ? f32_of(truth) : 0.0f));
        // The sum has become every rank's part.
        for (Halves& part : now) part[0] = adds ? part[0] : truth;
      }
      for (const Halves& part : got) count += part[at] != truth;
    }
    return count;
  };
  EXPECT_EQ(wrong(got_few, few, true), 0);
  EXPECT_EQ(wrong(got_many, many, true), 0);
  EXPECT_EQ(wrong(got_summed, summed, false), 0);
}

// GPUs' compilers take the same text, of any length.
TEST(PeerKernel, CompilesForGpus) {
  const demo::Context context = engine_context();
  if (device_of(context.get()).device_type != kDLCPU) GTEST_SKIP() << "of a GPU's own target there would be a kernel";
  for (const char* target : {"sm_80", "sm_90a", "gfx90a"}) {
    for (const engine::PeerKernel& which : {engine::PeerKernel{4096, 2}, {4096, 2, true}, {16384, 8, true, true}}) {
      SCOPED_TRACE(std::string(target) + ", " + std::to_string(which.length));
      try {
        EXPECT_EQ(engine::ready_peer_kernel(context.get(), which, 0, target), nullptr);
      } catch (const std::runtime_error& error) {
        // Where there is no such compiler.
        EXPECT_EQ(std::string(error.what()).find("QUERN_NOT_FOUND"), 0u) << error.what();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Peers, testing::Values(2, 3), testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Ranks, PeersReplayed, testing::Values(2, 3), testing::PrintToStringParamName());

}  // namespace
}  // namespace quern::test
