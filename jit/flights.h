// One at a time does the work for a Spec; whoever comes meanwhile waits and gets the same result or the same failure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "jit/failure.h"
#include "jit/lookup_table.h"
#include "jit/spec.h"

namespace quern::jit {

// `Result` is copied to every waiter. A finished flight is forgotten, failed or not, so that the next call tries anew.
template <class Result>
class Flights {
 public:
  // Calls work() unless another thread is at it for this Spec; then waits for that one, after telling waiting(). Throws
  // what work() threw: the leader the exception itself, the others an Error equal to it.
  template <class Work, class Waiting>
  Result run(const Spec& spec, Work&& work, Waiting&& waiting) {
    std::shared_ptr<Flight> flight;
    {
      std::unique_lock lock(mutex_);
      auto there = flights_.find(spec);
      if (there != flights_.end()) {
        flight = there->second;
        lock.unlock();
        waiting();
        return wait(*flight);
      }
      flight = std::make_shared<Flight>();
      flights_.emplace(spec, flight);
    }
    Landing landing{*this, spec, *flight};
    try {
      landing.result.emplace(work());
    } catch (...) {
      landing.failure = Failure::caught();
      throw;
    }
    return *landing.result;
  }

 private:
  struct Flight {
    std::mutex mutex;
    std::condition_variable done;
    bool finished = false;
    std::optional<Result> result;
    Failure failure;
  };

  // Ends the flight however its work ended: nobody is left waiting.
  struct Landing {
    Flights& flights;
    const Spec& spec;
    Flight& flight;
    std::optional<Result> result{};
    Failure failure{};

    ~Landing() {
      {
        std::lock_guard lock(flights.mutex_);
        flights.flights_.erase(spec);
      }
      std::lock_guard lock(flight.mutex);
      if (result) copy_result();
      flight.failure = std::move(failure);
      flight.finished = true;
      flight.done.notify_all();
    }
    void copy_result() noexcept {
      try {
        flight.result = result;
      } catch (...) {
        failure = Failure::caught();
      }
    }
  };

  static Result wait(Flight& flight) {
    std::unique_lock lock(flight.mutex);
    flight.done.wait(lock, [&] { return flight.finished; });
    if (!flight.result) flight.failure.raise();
    return *flight.result;
  }

  std::mutex mutex_;
  std::unordered_map<Spec, std::shared_ptr<Flight>, BytesHash> flights_;
};

}  // namespace quern::jit
