// SPDX-License-Identifier: Apache-2.0
#include "sources/checked.h"

#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include "jit/error.h"
#include "sources/index_check/index_check.h"

namespace quern::ops {
namespace {

constexpr std::uint32_t kLines = 4096, kFaults = 64;
// Verdicts: the first is always open; a ring of those of eager calls, of which no more can be in flight; the rest for
// captured calls.
constexpr std::uint32_t kEager = 1u << 16, kVerdicts = 1u << 18;
constexpr std::size_t kKept = 1024;
constexpr std::size_t kNews = 4096;  // that wait for a callback
constexpr auto kPause = std::chrono::milliseconds(5);
// The host's part of a queue: how many it has taken, how many were lost, each in a line of its own.
constexpr std::size_t kLine = 64, kHead = 2 * kLine;

std::uint32_t load(const std::uint32_t* p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }

q::MessageQueue queue_at(unsigned char* memory, std::uint32_t capacity) {
  q::MessageQueue queue{};
  queue.capacity = capacity;
  queue.taken = reinterpret_cast<std::uint32_t*>(memory);
  queue.lost_told = reinterpret_cast<std::uint32_t*>(memory + kLine);
  queue.messages = memory + kHead;
  return queue;
}

std::size_t bytes_of(std::uint32_t capacity) { return kHead + std::size_t{capacity} * q::kMessageBytes; }

// The next message where it is there, else null.
template <class Message>
const Message* next(const q::MessageQueue& queue) {
  const auto* const message =
      reinterpret_cast<const Message*>(queue.messages + std::size_t{queue.head % queue.capacity} * q::kMessageBytes);
  return load(&message->ready) == queue.head + 1 ? message : nullptr;
}

void done_with_next(q::MessageQueue& queue) {
  ++queue.head;
  __atomic_store_n(queue.taken, queue.head, __ATOMIC_RELEASE);
}

std::string value_text(const q::PrintedValue& value) {
  if (value.kind == q::Printed::integer) return std::to_string(static_cast<std::int64_t>(value.bits));
  if (value.kind == q::Printed::natural) return std::to_string(value.bits);
  char text[40];
  if (value.kind == q::Printed::pointer) {
    std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value.bits));
  } else {
    double number = 0;
    std::memcpy(&number, &value.bits, sizeof(number));
    std::snprintf(text, sizeof(text), "%.9g", number);
  }
  return text;
}

// "block (0, 1, 0), thread 5: sum 3.5"
std::string line_of(const q::PrintMessage& message) {
  std::string text = "block (" + std::to_string(message.block[0]) + ", " + std::to_string(message.block[1]) + ", " +
                     std::to_string(message.block[2]) + "), thread " + std::to_string(message.thread) + ": ";
  const std::string_view format(message.format, strnlen(message.format, sizeof(message.format)));
  std::size_t done = 0;
  for (std::uint32_t i = 0; i < message.count && i < q::kPrinted; ++i) {
    const std::size_t at = format.find("{}", done);
    text += format.substr(done, at == std::string_view::npos ? at : at - done);
    if (at == std::string_view::npos) text += ' ';  // a value that the format does not name
    text += value_text(message.values[i]);
    done = at == std::string_view::npos ? format.size() : at + 2;
  }
  text += format.substr(done);
  return text;
}

Fault fault_of(const q::FaultMessage& message) {
  const q::IndexFault found{message.row,   message.column, message.at,   message.value,
                            message.least, message.most,   message.extra};
  const auto& check = *reinterpret_cast<const q::IndexCheck*>(&message + 1);
  return {message.op,    text_of(check, found), place_of(check, found), message.call, message.value,
          message.least, message.most};
}

}  // namespace

Checked::Checked(jit::Driver& driver, CheckedTells tells)
    : driver_(driver), tells_(std::move(tells)), memory_(driver.bench()) {
  const std::vector<std::uint32_t> open(kVerdicts);
  verdicts_ = static_cast<std::uint32_t*>(memory_->allocate(open.size() * sizeof(open[0])));
  memory_->write(verdicts_, open.data(), open.size() * sizeof(open[0]));
  state_ = static_cast<q::CheckedState*>(memory_->allocate(sizeof(q::CheckedState)));
  shared_ = driver_.allocate_shared(bytes_of(kLines) + bytes_of(kFaults));
  try {
    auto* const bytes = static_cast<unsigned char*>(shared_);
    prints_ = queue_at(bytes, kLines), faults_ = queue_at(bytes + bytes_of(kLines), kFaults);
    const q::CheckedState state{prints_, faults_};
    memory_->write(state_, &state, sizeof(state));
    thread_ = std::thread([this] { follow(); });
  } catch (...) {
    driver_.release_shared(shared_);
    throw;
  }
}

Checked::~Checked() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  end_.notify_one();
  thread_.join();
  read();
  driver_.release_shared(shared_);
}

std::uint32_t* Checked::verdict(bool captured) {
  if (!captured) return verdicts_ + 1 + eager_++ % kEager;
  const std::uint32_t number = captured_++;
  if (number >= kVerdicts - kEager - 1) {
    throw Error(QUERN_NO_MEMORY, "a checked context captures " + std::to_string(kVerdicts - kEager - 1) +
                                     " calls with index tensors at most: make another");
  }
  return verdicts_ + 1 + kEager + number;
}

void Checked::follow() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    end_.wait_for(lock, kPause);
    lock.unlock();
    read();
    lock.lock();
  }
}

void Checked::read() noexcept {
  std::unique_lock lock(mutex_);
  read_lines();
  read_faults();
  if (telling_) return;
  telling_ = true;
  while (!lines_.empty() || !news_.empty()) {
    const std::vector<std::string> lines = std::exchange(lines_, {});
    const std::vector<Fault> faults = std::exchange(news_, {});
    std::uint32_t lost = 0;
    lock.unlock();
    for (const std::string& line : lines) {
      try {
        tells_.line(line);
      } catch (...) {  // no memory for it: the next reading tells that it is lost
        ++lost;
      }
    }
    for (const Fault& fault : faults) {
      try {
        tells_.fault(fault);
      } catch (...) {  // no memory for the event: quern_faults and the next call tell it
      }
    }
    lock.lock();
    unread_lines_ += lost;
  }
  telling_ = false;
}

void Checked::read_lines() {
  // No more at once than there is room for: a kernel that prints for ever keeps nobody here.
  for (std::uint32_t i = 0; i < kLines; ++i) {
    const auto* const message = next<q::PrintMessage>(prints_);
    if (message == nullptr) break;
    try {
      lines_.push_back(line_of(*message));
    } catch (...) {  // no memory for it
      ++unread_lines_;
    }
    done_with_next(prints_);
  }
  const std::uint32_t lost = load(prints_.lost_told) + unread_lines_;
  if (lost == lost_lines_) return;
  try {
    lines_.push_back("kernels printed faster than could be read, or memory was short: " +
                     std::to_string(lost - lost_lines_) + " lines or more are lost");
    lost_lines_ = lost;
  } catch (...) {  // no memory for it either: the next reading tells it
  }
}

void Checked::read_faults() {
  for (;;) {
    const auto* const message = next<q::FaultMessage>(faults_);
    if (message == nullptr) return;
    try {
      keep(fault_of(*message));
    } catch (...) {  // no memory for it: it is counted, and the next call fails all the same
    }
    done_with_next(faults_);
    ++untold_faults_;
    untold_ = true;
  }
}

void Checked::keep(Fault fault) {
  if (first_untold_.empty())
    first_untold_ = "call " + std::to_string(fault.call) + " of " + fault.op + ": " + fault.text;
  if (news_.size() < kNews) news_.push_back(fault);
  if (kept_.size() < kKept) kept_.push_back(std::move(fault));
}

void Checked::raise_untold() {
  read();
  if (!untold_) return;
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    if (untold_faults_ == 0) return;
    text = "not this call, which has not run either: " +
           (first_untold_.empty() ? "an earlier one, of whose fault there was no memory to say more" : first_untold_);
    if (untold_faults_ > 1) text += " (and " + std::to_string(untold_faults_ - 1) + " faults more: quern_faults)";
    forget_untold();
  }
  throw Error(QUERN_FAULT, text);
}

std::vector<Fault> Checked::take(std::uint64_t* total) {
  read();
  const std::lock_guard lock(mutex_);
  const std::uint32_t found = faults_.head + load(faults_.lost_told);
  *total = found - std::exchange(taken_, found);
  forget_untold();
  return std::exchange(kept_, {});
}

void CheckedCall::enqueue(const Runtime& runtime, const IndexList& list, std::uint32_t call_flags, void* stream) {
  const jit::Kernel* const kernel = index_check::ready(runtime, call_flags, stream);
  q::IndexChecks checks = list.checks();
  checks.again = verdict_ != nullptr;
  if (verdict_ == nullptr) verdict_ = checked_.verdict(runtime.driver->capturing(stream));
  checks.verdict = verdict_;
  checks.call = number_;
  checks.op = op_;
  // It is never closed itself: a verdict that stood there would be an earlier call's.
  q::Checked argument{checked_.state(), checked_.open()};
  jit::Launch launch;
  launch.block[0] = static_cast<std::uint32_t>(index_check::kWarps) * runtime.driver->device().limits.warp_size;
  launch.stream = stream;
  void* arguments[] = {&checks, &argument};
  if (const int code = runtime.driver->launch(kernel->loaded, launch, arguments, 2))
    runtime.driver->fail(code, "launching index_check");
}

void enqueue_checks(const Runtime& runtime, const IndexList& list, std::uint32_t call_flags, void* stream) {
  runtime.call->enqueue(runtime, list, call_flags, stream);
}

}  // namespace quern::ops
