// A context as JavaScript holds it, and how functions of the module begin and end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <node_api.h>

#include <array>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "js.h"
#include "quern.h"

namespace quern::node {

// A function of this module: `body` gets the arguments; what it throws is pending in JavaScript.
template <std::size_t Count, typename Body>
napi_value guarded(napi_env env, napi_callback_info info, Body body) {
  try {
    const Js js(env);
    std::array<napi_value, Count> given = {};
    std::size_t count = Count;
    js.check(napi_get_cb_info(env, info, &count, given.data(), nullptr, nullptr));
    return body(js, given);
  } catch (const Thrown&) {
    return nullptr;
  } catch (const std::exception& error) {
    napi_throw_error(env, nullptr, error.what());
    return nullptr;
  }
}

// A function of JavaScript's that is called by any thread: the event loop does it, later. It keeps no process alive.
class Later {
 public:
  // Makes the arguments of a call, on the loop's thread.
  struct Told {
    virtual ~Told() = default;
    virtual std::vector<napi_value> arguments(const Js& js) const = 0;
  };

  Later(const Js& js, napi_value function, const char* name) {
    napi_value named = nullptr;
    js.check(napi_create_string_utf8(js.env(), name, NAPI_AUTO_LENGTH, &named));
    js.check(napi_create_threadsafe_function(js.env(), function, nullptr, named, 0, 1, nullptr, nullptr, nullptr, call,
                                             &made_));
    js.check(napi_unref_threadsafe_function(js.env(), made_));
  }
  ~Later() { napi_release_threadsafe_function(made_, napi_tsfn_release); }
  Later(const Later&) = delete;
  Later& operator=(const Later&) = delete;

  void tell(std::unique_ptr<Told> told) {
    if (napi_call_threadsafe_function(made_, told.get(), napi_tsfn_nonblocking) == napi_ok) told.release();
  }

 private:
  static void call(napi_env env, napi_value function, void*, void* data) {
    const std::unique_ptr<Told> told(static_cast<Told*>(data));
    if (env == nullptr) return;  // the process ends
    try {
      const Js js(env);
      napi_value self = nullptr;
      js.check(napi_get_undefined(env, &self));
      const std::vector<napi_value> arguments = told->arguments(js);
      js.check(napi_call_function(env, self, function, arguments.size(), arguments.data(), nullptr));
    } catch (const Thrown&) {  // stays pending: an uncaught exception
    }
  }

  napi_threadsafe_function made_ = nullptr;
};

struct Context {
  explicit Context(napi_env env) : env(env) {}
  ~Context() { close(); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // To be called once the callbacks are made: hooks run in the reverse order, so that they are there while it closes.
  void close_with_process() {
    napi_add_env_cleanup_hook(env, at_exit, this);
    hooked = true;
  }
  void close() {
    if (std::exchange(hooked, false)) napi_remove_env_cleanup_hook(env, at_exit, this);
    quern_context_destroy(std::exchange(made, nullptr));
    callbacks.clear();
  }

  static void at_exit(void* holder) {
    static_cast<Context*>(holder)->hooked = false;
    static_cast<Context*>(holder)->close();
  }

  napi_env env;
  quern_context* made = nullptr;
  std::vector<std::unique_ptr<Later>> callbacks;
  bool hooked = false;
};

inline Context& holder_of(const Js& js, napi_value given) {
  void* found = nullptr;
  js.check(napi_get_value_external(js.env(), given, &found));
  return *static_cast<Context*>(found);
}

inline quern_context* context_of(const Js& js, napi_value given) {
  Context& holder = holder_of(js, given);
  if (holder.made == nullptr) js.refuse("context: is closed");
  return holder.made;
}

}  // namespace quern::node
