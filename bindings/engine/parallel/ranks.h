// A model on several devices as if it were on one: each rank has a thread, which makes it and then computes every step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "bindings/engine/model.h"
#include "bindings/engine/parallel/communicator.h"

namespace quern::engine {

struct Rank {
  quern_context* context;
  quern_device_info device;
  Communicator* communicator;
};

class Ranks final : public Steps {
 public:
  // Throws what making a model throws. A rank that fails while others compute leaves these waiting for it: where they
  // have not ended after 20 seconds the failure is written to stderr and the process ends.
  Ranks(const std::vector<Rank>& ranks, const Checkpoint& checkpoint, const Limits& limits);
  // The same of models that are made some other way, each on its rank's thread; `config` is the whole model's.
  using Make = std::function<std::unique_ptr<Model>(const Rank& rank)>;
  Ranks(const std::vector<Rank>& ranks, const Config& config, const Make& make);
  ~Ranks() override { stop(); }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  // Of the first rank; the others' are the same.
  std::vector<Next> step(const std::vector<Part>& parts) override;
  void copy_pages(const std::vector<std::pair<std::int32_t, std::int32_t>>& pairs) override;
  void repeat(std::int64_t times) override;
  void leave_out(const char* op) override;
  const Config& config() const override { return config_; }
  const Limits& limits() const override { return models_[0]->limits(); }
  Model& model(std::size_t rank) { return *models_[rank]; }

 private:
  // Runs it on every rank's thread, and waits.
  void on_all(const std::function<void(std::size_t rank)>& what);
  void serve(std::size_t rank);
  void stop();

  Config config_;
  std::vector<std::unique_ptr<Model>> models_;
  std::mutex mutex_;
  std::condition_variable asked_, done_;
  const std::function<void(std::size_t)>* what_ = nullptr;
  std::uint64_t turn_ = 0;  // goes up when there is something to do
  std::size_t left_ = 0;
  bool ends_ = false;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace quern::engine
