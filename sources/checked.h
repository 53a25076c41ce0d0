// The checked form of calls (QUERN_CONTEXT_CHECKED): a kernel walks their index tensors first and closes those that are
// wrong; what it found, and what kernels print, comes back through host memory, which a thread reads while they run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "jit/bench.h"
#include "jit/driver.h"
#include "sources/index_data.h"

namespace quern::ops {

struct Fault {
  std::string op, text;
  FaultPlace place;
  std::uint64_t call;
  std::int64_t value, least, most;
};

struct CheckedTells {
  std::function<void(const Fault&)> fault;
  std::function<void(const std::string&)> line;  // that a kernel printed
};

// A context's. Thread-safe. The callbacks come from its thread or from whoever asks, with nothing held; the driver
// outlives it.
class Checked {
 public:
  // Throws Error(QUERN_UNSUPPORTED), Error(QUERN_NO_MEMORY), Error(QUERN_DRIVER).
  Checked(jit::Driver& driver, CheckedTells tells);
  ~Checked();
  Checked(const Checked&) = delete;
  Checked& operator=(const Checked&) = delete;

  q::CheckedState* state() const { return state_; }
  const std::uint32_t* open() const { return verdicts_; }  // the verdict of calls without index tensors
  std::uint64_t next_call() { return ++calls_; }
  // Where a call's verdict stands: of a captured call for good, since its graph may be launched at any time. Throws
  // Error(QUERN_NO_MEMORY) when so many were captured.
  std::uint32_t* verdict(bool captured);

  // Throws Error(QUERN_FAULT) about the first fault that no call has told yet.
  void raise_untold();
  // Those found since the last time, and how many there were in all since then.
  std::vector<Fault> take(std::uint64_t* total);

 private:
  void read() noexcept;
  void read_lines();
  void read_faults();
  void keep(Fault fault);
  void forget_untold() noexcept { untold_faults_ = 0, first_untold_.clear(), untold_ = false; }
  void follow();

  jit::Driver& driver_;
  const CheckedTells tells_;
  std::unique_ptr<jit::Bench> memory_;
  void* shared_ = nullptr;
  q::CheckedState* state_ = nullptr;   // on the device
  std::uint32_t* verdicts_ = nullptr;  // on the device
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint32_t> eager_{0}, captured_{0};
  std::atomic<bool> untold_{false};

  std::mutex mutex_;                     // over what follows, and over reading
  q::MessageQueue prints_{}, faults_{};  // `head` is how far they are read
  std::uint32_t lost_lines_ = 0, taken_ = 0;
  std::uint32_t unread_lines_ = 0;   // lost here, for want of memory; lost_lines_ counts those that were told of
  std::vector<Fault> kept_;          // for take(); no more than there is room for
  std::uint64_t untold_faults_ = 0;  // that no call has told yet, kept or not
  std::string first_untold_;
  // What the callbacks are still to hear. One thread at a time tells them, so that it comes in order.
  std::vector<std::string> lines_;
  std::vector<Fault> news_;
  bool telling_ = false;
  bool ending_ = false;
  std::condition_variable end_;
  std::thread thread_;
};

// One call: what its kernels are launched with.
class CheckedCall {
 public:
  CheckedCall(Checked& checked, const char* op) : checked_(checked), op_(op), number_(checked.next_call()) {}
  q::Checked argument() const { return {checked_.state(), verdict_ != nullptr ? verdict_ : checked_.open()}; }
  void enqueue(const Runtime& runtime, const IndexList& list, std::uint32_t call_flags, void* stream);

 private:
  Checked& checked_;
  const char* const op_;
  const std::uint64_t number_;
  std::uint32_t* verdict_ = nullptr;
};

}  // namespace quern::ops
