// Trying every cached kernel: quern_verify.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <random>
#include <tuple>

#include "capi/context.h"
#include "capi/findings.h"
#include "capi/list.h"
#include "capi/requests.h"
#include "sources/verify/verifier.h"

using namespace quern;
using namespace quern::capi;

namespace quern::capi {
namespace {

// Those kernels of the store that the caller names, each once: of a key in several layers the first is what is loaded.
std::vector<cache::Listed> selected_kernels(const quern_context& context, const char* prefix) {
  std::vector<cache::Listed> all = list_store(context.service->store());
  std::erase_if(all, [&](const cache::Listed& listed) { return !selected(listed, prefix == nullptr ? "" : prefix); });
  std::sort(all.begin(), all.end(), [](const cache::Listed& a, const cache::Listed& b) {
    return std::tie(a.entry.op, a.entry.target, a.entry.text, a.layer) <
           std::tie(b.entry.op, b.entry.target, b.entry.text, b.layer);
  });
  const auto same = [](const cache::Listed& a, const cache::Listed& b) { return a.key == b.key; };
  all.erase(std::unique(all.begin(), all.end(), same), all.end());
  return all;
}

ops::verify::Cached cached_of(const cache::Listed& listed) {
  const cache::Entry& entry = listed.entry;
  return {listed.key, entry.op, entry.target, entry.text, entry.compiler_kind + ' ' + entry.compiler_build};
}

VerifyRow row_of(const cache::Listed& listed, ops::verify::Finding found) {
  VerifyRow row;
  row.outcome = found.outcome, row.status = found.status, row.trials = found.trials;
  row.op = listed.entry.op, row.target = listed.entry.target, row.key = cache::to_hex(listed.key);
  row.spec = std::move(found.spec), row.text = std::move(found.text);
  row.error = found.error, row.truth_error = found.truth_error;
  return row;
}

}  // namespace
}  // namespace quern::capi

extern "C" {

int32_t quern_verify(quern_context* context, const quern_verify_options* options, quern_list** results,
                     quern_error* error) {
  return guarded(error, [&] {
    const quern_context& alive = live_with_device(context);
    const jit::Listening listening(alive.notice);
    quern_verify_options zeroed{};
    zeroed.size = sizeof(zeroed);
    const In<quern_verify_options> given(options != nullptr ? options : &zeroed, "quern_verify_options");
    check_flags("quern_verify_options.flags", given->flags, 0);
    if (alive.checked != nullptr)
      throw Error(QUERN_INVALID, "context is checked (QUERN_CONTEXT_CHECKED): verify with one that is not");
    const std::uint64_t seed = given->seed != 0 ? given->seed : std::random_device{}() | 1u;
    const std::vector<cache::Listed> all = selected_kernels(alive, given->prefix);
    std::vector<VerifyRow> rows;
    ops::verify::Verifier verifier(*alive.driver, *alive.service, alive.options.compilers, alive.options.compiler_pin,
                                   alive.notice, seed);
    bool cancelled = false;
    std::size_t bad = 0;
    std::optional<ops::verify::NoReference> ended;
    const auto done_with = [&](const cache::Listed& listed, ops::verify::Finding found, double milliseconds) {
      VerifyRow row = row_of(listed, std::move(found));
      row.milliseconds = milliseconds;
      bad += row.outcome == QUERN_VERIFY_DIFFERS || row.outcome == QUERN_VERIFY_FAILED;
      rows.push_back(std::move(row));
      cancelled = !tell_progress(*given, rows.size(), all.size(), rows.back());
    };
    // Those that only the calls of others may launch come last.
    struct Later {
      const cache::Listed& listed;
      ops::verify::Finding found;
      double milliseconds;
    };
    std::vector<Later> later;
    // Begun, and finished in the order in which they were: meanwhile the host's kernels are compiled side by side.
    struct Begun {
      const cache::Listed& listed;
      ops::verify::BegunAttempt attempt;  // null: it could not be run, as `found` says
      ops::verify::Finding found;
      double milliseconds;
    };
    std::deque<Begun> begun;
    const auto timed = [](Begun& one, auto&& work) {
      const auto start = std::chrono::steady_clock::now();
      try {
        work();
      } catch (const ops::verify::NoReference&) {
        throw;
      } catch (const Error& failure) {
        one.found = {}, one.found.status = failure.status(), one.found.text = failure.text();
        one.attempt = nullptr;
      }
      one.milliseconds += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    };
    const auto finish_first = [&] {
      Begun& one = begun.front();
      if (one.attempt != nullptr) timed(one, [&] { one.found = verifier.finish(*one.attempt); });
      if (one.found.may_be_others)
        later.push_back({one.listed, std::move(one.found), one.milliseconds});
      else
        done_with(one.listed, std::move(one.found), one.milliseconds);
      begun.pop_front();
    };
    try {
      for (const cache::Listed& listed : all) {
        begun.push_back({listed, nullptr, {}, 0.0});
        Begun& one = begun.back();
        timed(one, [&] { one.attempt = verifier.begin(cached_of(listed)); });
        while (!cancelled && begun.size() >= verifier.at_once()) finish_first();
        if (cancelled) break;
      }
      while (!cancelled && !begun.empty()) finish_first();
    } catch (const ops::verify::NoReference& failure) {
      ended = failure;  // the rows before this one are told all the same
    }
    for (Later& each : later) {
      if (cancelled || ended) break;
      done_with(each.listed, verifier.verify_by_others(cached_of(each.listed), std::move(each.found)),
                each.milliseconds);
    }
    const std::size_t done = rows.size();
    if (results != nullptr) *results = make_list(std::move(rows)).release();
    if (ended) throw *ended;
    if (bad != 0) {
      throw Error(QUERN_DAMAGED, std::to_string(bad) + " of " + std::to_string(done) +
                                     " kernels differ from what the host's execution of their source gives, or failed");
    }
    if (done < all.size()) {
      throw Error(QUERN_PARTIAL,
                  "cancelled by progress, after " + std::to_string(done) + " of " + std::to_string(all.size()));
    }
    return QUERN_OK;
  });
}

}  // extern "C"
