// SPDX-License-Identifier: Apache-2.0
#include "bindings/cli/interruption.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "bindings/cli/format.h"

namespace quern::cli {
namespace {

// What a signal's handler may touch: everything is written before it is installed, but the counts, which are atomic.
struct Words {
  const Counts* counts = nullptr;
  const char* things = "";
  const char* made = "";
  bool terminal = false;
  std::array<char, 1024> place{};
};
Words words;

// Text put together without the library, in a handler.
class Line {
 public:
  void add(std::string_view text) {
    const std::size_t taken = std::min(text.size(), text_.size() - size_);
    std::copy_n(text.begin(), taken, text_.begin() + static_cast<std::ptrdiff_t>(size_));
    size_ += taken;
  }
  void add(std::uint64_t number) {
    std::array<char, 20> digits;
    std::size_t at = digits.size();
    do {
      digits[--at] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
    add({digits.data() + at, digits.size() - at});
  }
  void send() const {
    if (write(STDERR_FILENO, text_.data(), size_) < 0) return;  // nobody listens any more
  }

 private:
  std::array<char, 1600> text_{};
  std::size_t size_ = 0;
};

void stop(int signal) {
  Line line;
  line.add(words.terminal ? "\r\033[Kquern: stopped: " : "quern: stopped: ");
  line.add(words.counts->done.load());
  line.add(" of ");
  line.add(words.counts->total.load());
  line.add(" ");
  line.add(words.things);
  line.add(" done; the ");
  line.add(words.counts->compiled.load());
  line.add(" ");
  line.add(words.made);
  line.add(" now are kept in ");
  line.add(words.place.data());
  line.add(", and the same command goes on from there\n");
  line.send();
  // As if there were no handler, so that whoever started us sees the signal.
  ::signal(signal, SIG_DFL);
  raise(signal);
}

}  // namespace

Interruption::Interruption(const Progress& progress, const std::string& cache, const char* things, const char* made) {
  if (cache.empty()) return;
  words.counts = &progress.counts();
  words.things = things;
  words.made = made;
  words.terminal = isatty(STDERR_FILENO) != 0;
  const std::string shown = shorten(printable(cache), words.place.size() - 1);
  words.place = {};
  std::copy_n(shown.begin(), std::min(shown.size(), words.place.size() - 1), words.place.begin());
  struct sigaction action{};
  action.sa_handler = stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction before{};
    // A process started with the signal ignored (nohup, a background job) keeps it so.
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
  set_ = true;
}

Interruption::~Interruption() {
  if (!set_) return;
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction now{};
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler == stop) ::signal(signal, SIG_DFL);
  }
}

}  // namespace quern::cli
