// What a step reads besides its layers' numbers, and the tokens that it gives: small arrays that lie one behind the
// other, so that one copy takes all of them to the device and one brings the results back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "bindings/demo/memory.h"
#include "bindings/engine/step.h"
#include "bindings/engine/stream.h"
#include "bindings/engine/view.h"

namespace quern::engine {

class Inputs {
 public:
  // `columns`: the pages that a sequence can have.
  Inputs(const Limits& limits, std::int64_t columns, DLDevice device, demo::Memory& memory, Stream& stream);

  // Where everything is in a step of this size: for steps of the same size at the same places.
  void lay_out(const Size& size);
  // The host's copy. The stream must have been waited for.
  void fill(const std::vector<Part>& parts);
  void send();  // in the stream's order, as all copies here
  void receive();

  // What fill() wrote; T tokens, B sequences, `each` rows of logits of a sequence.
  View tokens() const { return view(tokens_, kI32, {size_.tokens}); }
  View positions() const { return view(positions_, kI32, {size_.tokens}); }
  View cu_q() const { return view(cu_q_, kI32, {size_.sequences + 1}); }
  View lengths() const { return view(lengths_, kI32, {size_.sequences}); }
  View table() const { return view(table_, kI32, {size_.sequences, columns_}); }
  View last() const { return view(last_, kI32, {size_.sequences * size_.each}); }  // each sequence's last tokens
  View rows() const { return view(rows_, kI32, {size_.sequences}); }               // of logits, the first of each
  View drafts() const { return view(drafts_, kI32, {size_.sequences, limits_.drafts}); }
  View draft_counts() const { return view(draft_counts_, kI32, {size_.sequences}); }
  View temperatures() const { return view(temperatures_, kF32, {size_.sequences}); }
  View top_ks() const { return view(top_ks_, kI32, {size_.sequences}); }
  View top_ps() const { return view(top_ps_, kF32, {size_.sequences}); }
  View min_ps() const { return view(min_ps_, kF32, {size_.sequences}); }
  View seeds() const { return view(seeds_, kI64, {size_.sequences}); }
  View offsets() const { return view(offsets_, kI64, {size_.sequences}); }
  // What the device writes.
  View ids() const { return view(ids_, kI32, {size_.sequences}); }
  View accepted() const { return view(accepted_, kI32, {size_.sequences}); }
  View verified() const { return view(verified_, kI32, {size_.sequences, size_.each}); }
  // Of what receive() brought: the tokens that follow each part's.
  std::vector<std::int32_t> next(std::int64_t sequence, const Part& part) const;

 private:
  View view(std::int64_t place, DLDataType dtype, std::initializer_list<std::int64_t> shape) const {
    return {static_cast<char*>(device_data_) + place, device_, dtype, shape};
  }
  template <class T>
  T* host(std::int64_t place) const {
    return reinterpret_cast<T*>(static_cast<char*>(host_data_) + place);
  }

  Limits limits_;
  std::int64_t columns_;
  DLDevice device_;
  Stream& stream_;
  void *host_data_ = nullptr, *device_data_ = nullptr;
  Size size_{};
  // Bytes from the beginning.
  std::int64_t tokens_ = 0, positions_ = 0, cu_q_ = 0, lengths_ = 0, table_ = 0, last_ = 0, rows_ = 0, drafts_ = 0,
               draft_counts_ = 0, temperatures_ = 0, top_ks_ = 0, top_ps_ = 0, min_ps_ = 0, seeds_ = 0, offsets_ = 0,
               ids_ = 0, accepted_ = 0, verified_ = 0, end_ = 0;
};

}  // namespace quern::engine
