// The three calls of each op, made of sources/ops.def. They stay thin: what a hot call costs here is a few compares.
// SPDX-License-Identifier: Apache-2.0
#include "sources/ops.h"

#include "capi/context.h"
#include "sources/checked.h"
#include "sources/index_check/index_check.h"
#include "sources/late.h"

using namespace quern;
using namespace quern::capi;

namespace quern::capi {
namespace {

// In the checked form: what an earlier call's check has found is told first, and this call's kernels get its verdict.
template <class Args>
void run_checked(const quern_context& context, const char* op, void (*run)(const ops::Runtime&, const Args&),
                 const Args& args) {
  context.checked->raise_untold();
  ops::CheckedCall call(*context.checked, op);
  ops::Runtime runtime = context.runtime;
  runtime.call = &call;
  run(runtime, args);
}

// On `host` with a seed: as a programmatic launch, behind one that still writes all the tensors that it may.
template <class Args>
void run_late(const quern_context& context, void (*run)(const ops::Runtime&, const Args&), const Args& args) {
  Args late = args;
  late.flags |= QUERN_CALL_PROGRAMMATIC;
  ops::LateTensors tensors(ops::constant_tensors(late));
  ops::Runtime runtime = context.runtime;
  runtime.late = &tensors;
  run(runtime, late);
}

template <class Args>
void run_otherwise(const quern_context& context, const char* op, void (*run)(const ops::Runtime&, const Args&),
                   const Args& args) {
  if (context.checked != nullptr) {
    run_checked(context, op, run, args);
  } else {
    run_late(context, run, args);
  }
}

}  // namespace
}  // namespace quern::capi

extern "C" {

#define QUERN_OP(name, ...)                                                                                     \
  int32_t quern_##name##_workspace(quern_context* context, const quern_##name##_args* args, uint64_t* bytes,    \
                                   quern_error* error) {                                                        \
    return guarded(error, [&] {                                                                                 \
      const quern_context& alive = live_with_device(context);                                                   \
      const In<quern_##name##_args> given(args, "quern_" #name "_args");                                        \
      uint64_t& out = out_parameter(bytes, "bytes");                                                            \
      out = ops::name::workspace(alive.runtime, *given);                                                        \
      return QUERN_OK;                                                                                          \
    });                                                                                                         \
  }                                                                                                             \
  int32_t quern_##name##_prepare(quern_context* context, const quern_##name##_args* args, quern_error* error) { \
    return guarded(error, [&] {                                                                                 \
      const quern_context& alive = live_with_device(context);                                                   \
      const In<quern_##name##_args> given(args, "quern_" #name "_args");                                        \
      if (alive.checked != nullptr) ops::index_check::ready(alive.runtime, given->flags, given->stream);        \
      ops::name::prepare(alive.runtime, *given);                                                                \
      return QUERN_OK;                                                                                          \
    });                                                                                                         \
  }                                                                                                             \
  int32_t quern_##name(quern_context* context, const quern_##name##_args* args, quern_error* error) {           \
    return guarded(error, [&] {                                                                                 \
      const quern_context& alive = live_with_device(context);                                                   \
      const In<quern_##name##_args> given(args, "quern_" #name "_args");                                        \
      if (alive.repeats != nullptr) {                                                                           \
        alive.repeats->run(alive.runtime, ops::tag_##name, ops::name::run, *given);                             \
      } else if (!alive.plain) [[unlikely]] {                                                                   \
        run_otherwise(alive, #name, ops::name::run, *given);                                                    \
      } else {                                                                                                  \
        ops::name::run(alive.runtime, *given);                                                                  \
      }                                                                                                         \
      return QUERN_OK;                                                                                          \
    });                                                                                                         \
  }
#include "sources/ops.def"
#undef QUERN_OP

}  // extern "C"
