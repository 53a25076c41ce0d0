// Records of tuning: their key, their text, their place in memory.
// SPDX-License-Identifier: Apache-2.0
#include "sources/gemm/plan/tunings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "jit/error.h"
#include "jit/key.h"
#include "sources/embedded.h"

namespace quern::ops::gemm {
namespace {

// Raised when older records would be misread.
constexpr int kFormat = 2;

Shape without_variant(Shape shape) {
  shape.variant = Variant::tiny;
  return shape;
}

// A measurement holds for the device sources that it was made with.
std::string sources_digest() {
  std::string all;
  for (const jit::File& file : embedded()) {
    if (file.name.starts_with("gemm/") || file.name.starts_with("common/"))
      all += std::string(file.name) + ' ' + std::string(file.sha256) + '\n';
  }
  return cache::to_hex(jit::key_of(all));
}

std::string line_of(const TunedRows& tuned) {
  std::array<char, 64> times{};
  std::snprintf(times.data(), times.size(), " us=%.3f model_us=%.3f\n", tuned.microseconds, tuned.model_microseconds);
  return "batch=" + std::to_string(tuned.batch) + " rows=" + std::to_string(tuned.rows) +
         " variant=" + Tunings::text_of(tuned.choice) + times.data();
}

// Takes the value after "NAME=" from the front of *rest; none where something else stands there.
std::optional<std::string_view> take(std::string_view* rest, std::string_view name) {
  if (!rest->starts_with(name) || rest->size() <= name.size() || (*rest)[name.size()] != '=') return {};
  rest->remove_prefix(name.size() + 1);
  const std::size_t end = std::min(rest->find(' '), rest->size());
  const std::string_view value = rest->substr(0, end);
  rest->remove_prefix(std::min(end + 1, rest->size()));
  return value;
}
template <class Number>
bool take_number(std::string_view* rest, std::string_view name, Number* number) {
  const std::optional<std::string_view> text = take(rest, name);
  if (!text) return false;
  const auto [end, failure] = std::from_chars(text->data(), text->data() + text->size(), *number);
  return failure == std::errc() && end == text->data() + text->size();
}

std::optional<TunedRows> read_line(std::string_view line) {
  TunedRows tuned;
  if (!take_number(&line, "batch", &tuned.batch) || !take_number(&line, "rows", &tuned.rows)) return {};
  const std::optional<std::string_view> variant = take(&line, "variant");
  const std::optional<Variant> known = variant ? variant_named(*variant) : std::nullopt;
  if (!known || !take_number(&line, "parts", &tuned.choice.parts) || !take_number(&line, "peers", &tuned.choice.peers))
    return {};
  if (line.starts_with("tiles=") &&
      (!take_number(&line, "tiles", &tuned.choice.tiles) || !take_number(&line, "twins", &tuned.choice.twins)))
    return {};
  tuned.choice.variant = *known;
  if (!take_number(&line, "us", &tuned.microseconds) || !take_number(&line, "model_us", &tuned.model_microseconds) ||
      !line.empty())
    return {};
  return tuned;
}

}  // namespace

std::shared_ptr<Tunings> make_tunings(jit::Service& service, std::function<void(std::string_view)> notice) {
  return std::make_shared<Tunings>(service, std::move(notice));
}

bool Tunings::covers(const Problem& problem) {
  const q::GemmParams& p = problem.params;
  return problem.shape.grouping == Grouping::dense && !problem.precise &&
         (problem.flags & QUERN_CALL_BATCH_INVARIANT) == 0 && problem.call.sms == all_sms(problem) &&
         takes_tensor_maps(problem) && (p.groups <= 1 || (p.a_group > 0 && p.b_group > 0));
}

std::string Tunings::text_of(const Choice& choice) {
  return std::string(name_of(choice.variant)) + " parts=" + std::to_string(choice.parts) +
         " peers=" + std::to_string(choice.peers) +
         (choice.tiles > 0 ? " tiles=" + std::to_string(choice.tiles) + " twins=" + std::to_string(choice.twins)
                           : std::string());
}

Tunings::Question Tunings::question_of(const Problem& problem) {
  const jit::Spec spec = to_spec(without_variant(problem.shape), problem.op, problem.call.device->limits.target);
  Question question{{spec.op, spec.target}, problem.params.n, problem.params.k};
  std::copy_n(spec.words.begin(), kSpecWords, question.kind.begin() + 2);
  return question;
}

std::string Tunings::canonical_text(const Problem& problem) {
  const jit::DeviceInfo& device = *problem.call.device;
  std::string text = "quern tuning " + std::to_string(kFormat) + "\nop " + ops::all()[problem.op].name + "\ntarget " +
                     device.limits.target.name() + "\ndevice " + device.name + "\nsms " +
                     std::to_string(device.sm_count) + '\n';
  for (const jit::Constant& constant :
       product_constants(problem.shape, problem.op, {problem.params.n, problem.params.k})) {
    text += "const " + constant.name + ' ' + constant.value + '\n';
  }
  return text + "sources " + sources_digest() + '\n';
}

const Tunings::Rows* Tunings::publish(Record& record, Rows rows) {
  kept_.push_back(std::make_unique<const Rows>(std::move(rows)));
  record.rows.store(kept_.back().get(), std::memory_order_release);
  return kept_.back().get();
}

Tunings::Record& Tunings::record_of(const Problem& problem) {
  const Question question = question_of(problem);
  if (Record* known = records_.find(question)) return *known;
  Record& record = read_record(problem, question);
  stored_.deliver();  // where no lock is held
  return record;
}

Tunings::Record& Tunings::read_record(const Problem& problem, const Question& question) {
  const std::lock_guard lock(mutex_);
  if (Record* known = records_.find(question)) return *known;
  Rows rows;
  if (const std::optional<std::string> record = stored_.find(canonical_text(problem))) {
    std::string_view lines = *record;
    while (!lines.empty()) {
      const std::size_t end = std::min(lines.find('\n'), lines.size());
      const std::optional<TunedRows> tuned = read_line(lines.substr(0, end));
      lines.remove_prefix(std::min(end + 1, lines.size()));
      // A record that this library cannot read, edited by hand or written by another version, counts as none.
      if (!tuned || tuned->batch < 1 || tuned->batch > INT32_MAX || tuned->rows > INT32_MAX ||
          tuned->rows != row_class(tuned->rows))
        continue;
      const std::vector<Choice> possible = candidates(problem, {tuned->rows, tuned->batch});
      if (std::find(possible.begin(), possible.end(), tuned->choice) != possible.end()) rows.push_back(*tuned);
    }
  }
  auto made = std::make_unique<Record>();
  made->question = question;
  publish(*made, std::move(rows));
  return *records_.insert(made);
}

std::span<const TunedRows> Tunings::all(const Problem& problem) {
  if (!covers(problem)) return {};
  return *record_of(problem).rows.load(std::memory_order_acquire);
}

std::optional<Choice> Tunings::measured(const Record& record, std::int64_t batch, std::int64_t rows) {
  const std::int64_t wanted = row_class(rows);
  for (const TunedRows& tuned : *record.rows.load(std::memory_order_acquire)) {
    if (tuned.batch == batch && tuned.rows == wanted) return tuned.choice;
  }
  return {};
}

std::optional<Choice> Tunings::choice(const Problem& problem, std::int64_t rows) {
  if (!covers(problem)) return {};
  return measured(record_of(problem), problem.params.groups, rows);
}

void Tunings::keep(const Problem& problem, const TunedRows& tuned) {
  store(problem, tuned);
  stored_.deliver();
}

void Tunings::store(const Problem& problem, const TunedRows& tuned) {
  Record& record = record_of(problem);
  const std::lock_guard lock(mutex_);
  Rows rows = *record.rows.load(std::memory_order_acquire);
  const auto place = [](const TunedRows& one) { return std::pair(one.batch, one.rows); };
  std::erase_if(rows, [&](const TunedRows& other) { return place(other) == place(tuned); });
  rows.insert(std::upper_bound(rows.begin(), rows.end(), tuned,
                               [&](const TunedRows& a, const TunedRows& b) { return place(a) < place(b); }),
              tuned);
  const Rows& published = *publish(record, std::move(rows));

  std::string lines;
  for (const TunedRows& each : published) lines += line_of(each);
  stored_.keep(canonical_text(problem), ops::all()[problem.op].name, problem.call.device->limits.target.name(), lines);
}

}  // namespace quern::ops::gemm
