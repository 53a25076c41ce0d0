// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <barrier>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "bindings/engine/parallel/communicator.h"

namespace quern::engine {
namespace {

// As nccl.h has them.
using Comm = void*;
using Result = int;
constexpr int kBf16 = 9, kSum = 0;

struct Nccl {
  Result (*init_all)(Comm* comms, int count, const int* devices) = nullptr;
  Result (*all_reduce)(const void* from, void* to, std::size_t count, int type, int op, Comm comm,
                       void* stream) = nullptr;
  Result (*destroy)(Comm comm) = nullptr;
  const char* (*error)(Result result) = nullptr;

  Nccl() {
    void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error("several devices need NCCL: libnccl.so.2 cannot be opened");
    const auto bind = [&]<class Function>(Function*& slot, const char* name) {
      slot = reinterpret_cast<Function*>(dlsym(library, name));
      if (slot == nullptr) throw std::runtime_error(std::string("libnccl.so.2 lacks ") + name);
    };
    bind(init_all, "ncclCommInitAll");
    bind(all_reduce, "ncclAllReduce");
    bind(destroy, "ncclCommDestroy");
    bind(error, "ncclGetErrorString");
  }
  void check(Result result, const char* what) const {
    if (result != 0) throw std::runtime_error(std::string("NCCL, ") + what + ": " + error(result));
  }
};
const Nccl& nccl() {
  static const Nccl bound;
  return bound;
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Comm comm, std::int64_t rank, std::int64_t size, std::shared_ptr<std::barrier<>> meeting)
      : comm_(comm), rank_(rank), size_(size), meeting_(std::move(meeting)) {}
  ~NcclCommunicator() override { nccl().destroy(comm_); }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  std::int64_t rank() const override { return rank_; }
  std::int64_t size() const override { return size_; }
  const char* how() const override { return "NCCL"; }
  bool all_reduce(void* data, std::int64_t count, void* stream) override {
    nccl().check(nccl().all_reduce(data, data, static_cast<std::size_t>(count), kBf16, kSum, comm_, stream), "summing");
    return false;
  }
  void meet() override { meeting_->arrive_and_wait(); }

 private:
  Comm comm_;
  std::int64_t rank_, size_;
  std::shared_ptr<std::barrier<>> meeting_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> open_nccl(const std::vector<int>& devices) {
  std::vector<Comm> comms(devices.size());
  nccl().check(nccl().init_all(comms.data(), static_cast<int>(devices.size()), devices.data()), "connecting devices");
  const auto meeting = std::make_shared<std::barrier<>>(static_cast<std::ptrdiff_t>(devices.size()));
  std::vector<std::unique_ptr<Communicator>> made;
  for (std::size_t i = 0; i < comms.size(); ++i)
    made.push_back(std::make_unique<NcclCommunicator>(comms[i], static_cast<std::int64_t>(i),
                                                      static_cast<std::int64_t>(comms.size()), meeting));
  return made;
}

}  // namespace quern::engine
