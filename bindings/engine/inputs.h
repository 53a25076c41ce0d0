// What a step reads besides its layers' numbers, and the tokens that it gives: small arrays that lie one behind the
// other in memory of the host that the device reaches. One launch takes all that is read to the device; results are
// written where they are looked for. Between kernels a copy of the driver's would take longer than either.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "bindings/demo/memory.h"
#include "bindings/engine/calls.h"
#include "bindings/engine/device/stream.h"
#include "bindings/engine/step.h"
#include "bindings/engine/view.h"

namespace quern::engine {

class Inputs {
 public:
  // `columns`: the pages that a sequence can have.
  Inputs(const Limits& limits, std::int64_t columns, std::int64_t vocabulary, DLDevice device, demo::Memory& memory,
         Stream& stream);

  // Where everything is in a step of this size: for steps of the same size at the same places.
  void lay_out(const Size& size);
  // The host's copy. The stream must have been waited for.
  void fill(const std::vector<Part>& parts);
  // To the device, in the stream's order.
  void send(Calls& calls) const;

  // What fill() wrote; T tokens, B sequences, `each` rows of logits of a sequence.
  View tokens() const { return view(tokens_, kI32, {size_.tokens}); }
  View positions() const { return view(positions_, kI32, {size_.tokens}); }
  View slots() const { return view(slots_, kI64, {size_.tokens}); }  // where in the cache each goes
  View cu_q() const { return view(cu_q_, kI32, {size_.sequences + 1}); }
  View lengths() const { return view(lengths_, kI32, {size_.sequences}); }
  View table() const { return view(table_, kI32, {size_.sequences, columns_}); }
  View last() const { return view(last_, kI32, {size_.sequences * size_.each}); }  // each sequence's last tokens
  View rows() const { return view(rows_, kI32, {size_.sequences}); }               // of logits, the first of each
  View drafts() const { return view(drafts_, kI32, {size_.sequences, limits_.drafts}); }
  View draft_counts() const { return view(draft_counts_, kI32, {size_.sequences}); }
  // What tokens are chosen by, as far as the step's choice has it; `args` borrows the views.
  struct Chooser {
    View ids, rows, seeds, offsets, top_ks, logprobs, top_ids, top_logprobs, prompt_mask, output_tokens, output_lengths,
        bias_offsets, bias_ids, bias_values, allowed, banned;
    std::array<View, 12> numbers;
    quern_sample_args args;
  };
  void describe(Chooser* chooser) const;
  // What the device writes.
  View accepted() const { return result(accepted_, kI32, {size_.sequences}); }
  View verified() const { return result(verified_, kI32, {size_.sequences, size_.each}); }
  // Until the tokens of the step are there, where nothing else is asked for; else until all of it is done.
  void wait(Stream& stream) const;
  // Of the last step, which must have been waited for.
  Next next(std::int64_t sequence, const Part& part) const;

 private:
  View view(std::int64_t place, DLDataType dtype, std::initializer_list<std::int64_t> shape) const {
    return {static_cast<char*>(device_data_) + place, device_, dtype, shape};
  }
  View result(std::int64_t place, DLDataType dtype, std::initializer_list<std::int64_t> shape) const {
    return {static_cast<char*>(host_data_) + place, device_, dtype, shape};
  }
  template <class T>
  T* host(std::int64_t place) const {
    return reinterpret_cast<T*>(static_cast<char*>(host_data_) + place);
  }

  // sampling/inputs.cpp
  void fill_sampling(const Part& part, std::int64_t sequence, std::int64_t length, std::int32_t* biases) const;
  void fill_edits(const Part& part, std::int64_t sequence, std::int32_t* biases) const;

  Limits limits_;
  std::int64_t columns_, vocabulary_, words_, outputs_;  // words_: of a mask; outputs_: tokens that penalties count
  DLDevice device_;
  void *host_data_ = nullptr, *device_data_ = nullptr, *counting_ = nullptr;  // counting_: 0, 1, 2, ... on the device
  Size size_{};
  // Bytes from the beginning; -1: not of this step.
  std::int64_t tokens_ = 0, positions_ = 0, slots_ = 0, cu_q_ = 0, lengths_ = 0, table_ = 0, last_ = 0, rows_ = 0,
               drafts_ = 0, draft_counts_ = 0, seeds_ = 0, offsets_ = 0, top_ks_ = 0, prompt_mask_ = 0,
               output_tokens_ = 0, output_lengths_ = 0, bias_offsets_ = 0, bias_ids_ = 0, bias_values_ = 0,
               allowed_ = 0, banned_ = 0, ids_ = 0, accepted_ = 0, verified_ = 0, logprobs_ = 0, top_ids_ = 0,
               top_logprobs_ = 0, end_ = 0;
  std::array<std::int64_t, 12> numbers_{};  // of kNumbers
};

}  // namespace quern::engine
