// Records of tuning: the choice that was measured to be the fastest for a product. They are kept in the cache beside
// the kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <bit>
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

// Numbers of rows that are treated alike: up to 16, 32, 64 and 128, and above that all with as many tiles of 128 rows.
// Returns the largest of them.
constexpr std::int64_t row_class(std::int64_t rows) {
  if (rows <= 16) return 16;
  if (rows <= 32) return 32;
  if (rows <= 64) return 64;
  return (rows + 127) / 128 * 128;
}

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
  // The same, or else what model() returns. For up to 128 rows of one matrix model() is called once for each class of
  // rows, since its answer depends on nothing that differs between calls of the product and takes longer than all the
  // rest of a call.
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
    std::array<std::atomic<std::uint32_t>, 4>
        by_model{};  // for up to 16, 32, 64 and 128 rows, packed; 0: not computed yet
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
  const std::int64_t wanted = row_class(rows);
  if (problem.params.groups != 1 || wanted > 128) return model();
  std::atomic<std::uint32_t>& asked =
      record.by_model[static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(wanted)) - 4)];
  // Two threads may compute it at the same time; both store the same.
  if (const std::uint32_t packed = asked.load(std::memory_order_relaxed); packed != 0)
    return {static_cast<Variant>((packed & 0xff) - 1), static_cast<int>(packed >> 8 & 0xff),
            static_cast<int>(packed >> 16)};
  const Choice choice = model();
  asked.store((static_cast<std::uint32_t>(choice.variant) + 1) | static_cast<std::uint32_t>(choice.parts) << 8 |
                  static_cast<std::uint32_t>(choice.peers) << 16,
              std::memory_order_relaxed);
  return choice;
}

}  // namespace quern::ops::gemm
