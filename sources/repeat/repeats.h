// Calls that have been made before. What an op makes of a call (its checks, its kernels, its launches) hangs on the
// numbers of its Signature and on how its tensors lie to each other. So of a call that comes again the launches are
// kept with the places of addresses in their arguments, and the next one like it writes its addresses there and
// launches: nothing is checked, chosen or looked up twice.
//
// Where the addresses are is not told by the ops but found out: once it has been made a call is made three times more
// with nothing launched, as it is and twice with its tensors moved to made-up places. A word of the arguments that
// moves just as one tensor does is that tensor's address; where anything else differs, or the call as it is is not what
// the two say it is, the call is not kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "jit/driver.h"
#include "sources/launch.h"
#include "sources/op.h"
#include "sources/repeat/moved.h"
#include "sources/repeat/recording.h"
#include "sources/repeat/signature.h"

namespace quern::ops {

// A context's, of fixed size, without an allocation or a lock after it was made: whoever comes to a kept call that
// another thread is just making does without. From any thread.
class Repeats {
  struct Header {
    std::atomic<std::uint64_t> hash{0};  // of the call that has this place; 0: none
    std::atomic<std::uint32_t> busy{0};
    // Of whoever is busy with it.
    enum class Kind : std::uint32_t { seen, unfit, kept } kind = Kind::seen;
    std::uint64_t generation = 0;
  };
  struct Record {
    std::size_t word_count, address_count, launch_count, argument_count, patch_count, map_count;
    std::array<std::uint64_t, Signature::kMostWords> words;
    std::array<std::uint64_t, Signature::kMostAddresses> addresses;  // that stand in the arguments now
    std::array<Recording::Launched, Recording::kMostLaunches> launches;
    std::array<void*, Recording::kMostArguments> arguments;  // into bytes
    alignas(64) std::array<unsigned char, Recording::kMostBytes> bytes;
    // Tensors that lie over each other are of one part, and move together.
    std::array<std::uint8_t, Signature::kMostAddresses> part;
    Extents extents;
    struct Patch {
      std::uint32_t at, address;  // the byte; the number of the address by which it moves
    };
    std::array<Patch, 64> patches;
    std::array<Patch, Recording::kMostMaps> map_places;
    std::array<jit::TensorMapDesc, Recording::kMostMaps> maps;
  };

 public:
  // Throws std::bad_alloc.
  explicit Repeats(const jit::Driver& driver);
  ~Repeats();
  Repeats(const Repeats&) = delete;
  Repeats& operator=(const Repeats&) = delete;

  // After kernels were unloaded, or others became the best: what is kept no longer counts.
  void forget() noexcept { generation_.fetch_add(1, std::memory_order_acq_rel); }

  // How many calls have been launched as they were kept. For tests.
  std::uint64_t repeated() const noexcept { return repeated_.load(std::memory_order_relaxed); }

  // run(runtime, args), or what it would launch.
  template <class Run, class Args>
  void run(const Runtime& runtime, Tag op, const Run& run, const Args& args) {
    const Signature call(op, device_, args);
    Place place;
    if (call.fits() && launch(runtime, call, &place)) return;
    if (place.header == nullptr) return run(runtime, args);
    run_and_keep(runtime, run, args, call, place);
  }

  // Keeps a call as if it had been made with its tensors elsewhere, and launches nothing: for trials of what the next
  // run() does. False: it cannot be kept.
  template <class Run, class Args>
  bool learn_elsewhere(const Runtime& runtime, Tag op, const Run& run, const Args& args) {
    const Signature call(op, device_, args);
    Extents extents;
    Shifted shifted;
    if (!call.fits()) return false;
    each_field(args, extents);
    if (!extents.known || !shift(call, extents, &shifted)) return false;
    const Moved<Args> elsewhere(args, shifted.first.data());
    const Signature there(op, device_, elsewhere.args());
    Place place;
    take(there.hash(), &place);
    return place.header != nullptr && keep_moved(runtime, run, elsewhere.args(), there, place);
  }

 private:
  // A place that the holder is busy with.
  struct Place {
    Place() = default;
    ~Place() {
      if (header != nullptr) header->busy.store(0, std::memory_order_release);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    Header* header = nullptr;
    Record* record = nullptr;
    std::uint64_t generation = 0;
  };
  static constexpr std::size_t kSets = 32, kWays = 4;
  // Where made-up places are: far apart, the second ones each another distance from the first.
  static constexpr std::uint64_t kFirst = std::uint64_t{1} << 41, kFurther = 0x1eef000;
  static std::uint64_t made_up(std::uint64_t address, std::uint64_t first_of_part, std::uint64_t part, bool second) {
    return kFirst * (part + 1) + (second ? kFurther * (part + 1) : 0) + first_of_part % 4096 + address - first_of_part;
  }
  // The addresses of a call that is made up.
  struct Shifted {
    std::array<std::uint64_t, Signature::kMostAddresses> first, second;
    std::array<std::uint8_t, Signature::kMostAddresses> part;  // the number of its first address
  };

  bool launch(const Runtime& runtime, const Signature& call, Place* place);
  static void scrub_stack() noexcept;
  void take(std::uint64_t hash, Place* place) noexcept;
  static bool move(const Runtime& runtime, Record& record, const Signature& call);
  static bool shift(const Signature& call, const Extents& extents, Shifted* shifted) noexcept;
  static bool keep(const Runtime& runtime, const Signature& call, const Extents& extents, const Shifted& shifted,
                   const Recording& made, const Recording& first, const Recording& second, Place& place);

  template <class Run, class Args>
  [[gnu::noinline]] static bool play(const Runtime& runtime, const Run& run, const Args& args,
                                     Recording& recording) noexcept {
    scrub_stack();
    try {
      NotedMaps maps(*runtime.driver, recording);
      Runtime dry = runtime;
      dry.recording = &recording, dry.tensor_maps = &maps, dry.launched = nullptr;
      run(dry, args);
      return recording.whole();
    } catch (...) {
      return false;
    }
  }
  template <class Run, class Args>
  [[gnu::noinline]] static void run_and_keep(const Runtime& runtime, const Run& run, const Args& args,
                                             const Signature& call, Place& place) {
    Recording made(false);
    Runtime watched = runtime;
    watched.recording = &made;
    run(watched, args);
    if (made.whole()) keep_moved(runtime, run, args, call, place);
  }
  template <class Run, class Args>
  static bool keep_moved(const Runtime& runtime, const Run& run, const Args& args, const Signature& call,
                         Place& place) {
    place.header->kind = Header::Kind::unfit;
    Extents extents;
    each_field(args, extents);
    Shifted shifted;
    if (!extents.known || !shift(call, extents, &shifted)) return false;
    const Moved<Args> first(args, shifted.first.data()), second(args, shifted.second.data());
    // All three in one way: what stands between the fields of arguments is what is left on the stack.
    Recording made(true), of_first(true), of_second(true);
    return play(runtime, run, args, made) && play(runtime, run, first.args(), of_first) &&
           play(runtime, run, second.args(), of_second) &&
           keep(runtime, call, extents, shifted, made, of_first, of_second, place);
  }

  const DLDevice device_;
  std::unique_ptr<Header[]> headers_;
  std::unique_ptr<Record[]> records_;
  std::atomic<std::uint64_t> generation_{1}, repeated_{0};
  std::atomic<std::uint32_t> turn_{0};
};

}  // namespace quern::ops
