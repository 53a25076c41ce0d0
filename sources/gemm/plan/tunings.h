// Records of tuning: the choice that was measured to be the fastest for a product. They are kept in the cache beside
// the kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/lookup_table.h"
#include "jit/records.h"
#include "sources/gemm/plan/choose.h"

namespace quern::ops::gemm {

struct TunedRows {
  std::int64_t batch = 1;
  std::int64_t rows = 0;  // a row_class
  Choice choice;
  double microseconds = 0.0;        // measured with this choice
  double model_microseconds = 0.0;  // measured with the model's choice in the same run
};

// There is one record for each device, kind of product, N and K; it covers all batches and rows. Reading is wait-free.
class Tunings {
 public:
  // `service` must outlive this object.
  explicit Tunings(jit::Service& service, std::function<void(std::string_view)> notice = {})
      : stored_(service, std::move(notice)) {}
  Tunings(const Tunings&) = delete;
  Tunings& operator=(const Tunings&) = delete;

  // The measured choice for so many rows in the problem's batch; none where nothing was measured or where the record
  // does not apply: to products that are grouped, not on tensor cores or batch-invariant, to operands of which one line
  // or matrix stands for many, and to calls that may not use all multiprocessors. The first question about a product
  // reads the store.
  std::optional<Choice> choice(const Problem& problem, std::int64_t rows);
  // The same, or else what model() returns, which is kept for the product's class of rows and batch: its answer depends
  // on nothing that differs between such calls, and takes longer than all the rest of a call.
  template <class Model>
  Choice choice_or(const Problem& problem, std::int64_t rows, Model model);
  // All that was measured for a product, by ascending batch and rows. Valid as long as this object lives.
  std::span<const TunedRows> all(const Problem& problem);

  // Adds a measurement to the product's record, or replaces it, in memory and in the store. Throws Error(QUERN_IO) if
  // it could not be stored; it is kept in memory all the same.
  void keep(const Problem& problem, const TunedRows& tuned);

  // Whether a product can have a record.
  static bool covers(const Problem& problem);
  // The text of a choice as records and people read it: "swap_ab_16 parts=2 peers=1".
  static std::string text_of(const Choice& choice);

 private:
  struct Question {
    std::array<std::uint32_t, 2 + kSpecWords> kind;  // the words of a Spec, without the variant
    std::int32_t n, k;
    friend bool operator==(const Question& a, const Question& b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }
  };
  using Rows = std::vector<TunedRows>;
  struct Record {
    Question question;
    std::atomic<const Rows*> rows{nullptr};
    // What the model has answered, packed, by class of rows and batch; several of these share a place, which holds the
    // last one asked for. 0: none yet.
    std::array<std::atomic<std::uint64_t>, 64> by_model{};
  };

  static std::optional<Choice> measured(const Record& record, std::int64_t batch, std::int64_t rows);

  static Question question_of(const Problem& problem);
  static std::string canonical_text(const Problem& problem);
  Record& record_of(const Problem& problem);
  Record& read_record(const Problem& problem, const Question& question);
  void store(const Problem& problem, const TunedRows& tuned);
  const Rows* publish(Record& record, Rows rows);

  jit::Records stored_;
  jit::LookupTable<Record, Question, &Record::question> records_;
  std::mutex mutex_;  // held by writers
  std::vector<std::unique_ptr<const Rows>>
      kept_;  // all that were ever published, since a reader may still use an old one
};

template <class Model>
Choice Tunings::choice_or(const Problem& problem, std::int64_t rows, Model model) {
  if (!covers(problem)) return model();
  Record& record = record_of(problem);
  if (const std::optional<Choice> known = measured(record, problem.params.groups, rows)) return *known;
  const auto eights = static_cast<std::uint64_t>(row_class(rows) / 8);
  const auto groups = static_cast<std::uint64_t>(problem.params.groups);
  constexpr std::uint64_t kMostGroups = 0xffff;
  if (groups > kMostGroups) return model();
  const std::uint64_t question = groups << 16 | eights;  // a class has at most 16384 times 8 rows
  std::atomic<std::uint64_t>& answer = record.by_model[(question * 0x9e3779b97f4a7c15u) >> 58];
  // Two threads may compute it at the same time; both store the same.
  if (const std::uint64_t packed = answer.load(std::memory_order_relaxed); packed != 0 && packed >> 32 == question)
    return {static_cast<Variant>((packed & 0xff) - 1), static_cast<int>(packed >> 8 & 0xf),
            static_cast<int>(packed >> 12 & 0xf), static_cast<int>(packed >> 16 & 0x7fff),
            static_cast<int>(1 + (packed >> 31 & 1))};
  const Choice choice = model();
  if (choice.tiles > 0x7fff) return choice;
  answer.store(question << 32 | static_cast<std::uint64_t>(choice.twins - 1) << 31 |
                   static_cast<std::uint64_t>(choice.tiles) << 16 | static_cast<std::uint64_t>(choice.peers) << 12 |
                   static_cast<std::uint64_t>(choice.parts) << 8 | (static_cast<std::uint64_t>(choice.variant) + 1),
               std::memory_order_relaxed);
  return choice;
}

}  // namespace quern::ops::gemm
