// An op's three calls: while a model is made its kernels are readied and its workspace measured, afterwards it is
// launched.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "bindings/demo/call.h"
#include "quern.h"

namespace quern::engine {

class Calls {
 public:
  enum class Mode {
    begin,  // asks for the kernels: quern's threads compile what is missing, that of several ops at once
    ready,  // waits for each, and measures the workspace
    launch,
  };

  // `flags` go with every call.
  Calls(quern_context* context, std::uint32_t flags) : context_(context), flags_(flags) {}

  void set_mode(Mode mode) { mode_ = mode, pending_ = false; }
  // Whether a call since then has found a kernel that is still being compiled.
  bool pending() const { return pending_; }
  bool launches() const { return mode_ == Mode::launch; }
  // One for all calls, which follow each other on a stream.
  void set_workspace(void* workspace) { workspace_ = workspace; }
  std::uint64_t workspace_size() const { return workspace_size_; }
  void set_stream(void* stream) { stream_ = stream; }
  // The next launch begins when the one before has finished, rather than being set up beside it.
  void after_copies() { after_copies_ = true; }

  void leave_out(const char* op) { without_ = op == nullptr ? "" : op; }

  template <class Args, class Launch, class Measure, class Ready>
  void make(const char* op, Args& args, Launch launch, Measure measure, Ready ready) {
    args.size = sizeof args;
    args.flags |= flags_;
    if (mode_ == Mode::begin) {
      args.flags |= QUERN_CALL_BACKGROUND;
      demo::call([&](quern_error* error) {
        const std::int32_t status = ready(context_, &args, error);
        pending_ = pending_ || status == QUERN_PENDING;
        return status == QUERN_PENDING ? static_cast<std::int32_t>(QUERN_OK) : status;
      });
    } else if (mode_ == Mode::ready) {
      demo::call([&](quern_error* error) { return ready(context_, &args, error); });
      std::uint64_t needed = 0;
      demo::call([&](quern_error* error) { return measure(context_, &args, &needed, error); });
      workspace_size_ = std::max(workspace_size_, needed);
    } else if (without_ != op) {
      if (after_copies_) args.flags &= ~static_cast<std::uint32_t>(QUERN_CALL_PROGRAMMATIC);
      after_copies_ = false;
      args.stream = stream_, args.workspace = workspace_, args.workspace_size = workspace_size_;
      demo::call([&](quern_error* error) { return launch(context_, &args, error); });
    }
  }

 private:
  quern_context* context_;
  std::uint32_t flags_;
  Mode mode_ = Mode::launch;
  void *workspace_ = nullptr, *stream_ = nullptr;
  std::uint64_t workspace_size_ = 0;
  bool after_copies_ = false, pending_ = false;
  std::string_view without_;  // no op's name where it is empty
};
#define QUERN_MAKE(calls, op, args) (calls).make(#op, args, quern_##op, quern_##op##_workspace, quern_##op##_prepare)

}  // namespace quern::engine
