// The pulse: a page of shared memory in which a process publishes the position of its training to outside readers.
//
// The process writes with plain stores; a reader that has mapped the page, perhaps of a process long dead, copies it
// with ReadPulse. Writers never wait for readers. A reader trusts no content: the other side may be any program.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/process_identity.h"
#include "stepwatch/report.h"
#include "stepwatch/status.h"

namespace stepwatch::vocabulary {

// The layout below. A reader rejects any other; a later version may append fields under the same number.
inline constexpr uint64_t kPulseMagic = 0x65736c7570777473;  // "stwpulse" in memory
inline constexpr uint32_t kPulseLayout = 1;
inline constexpr size_t kPulseBytesMax = size_t{1} << 20;

// A text that one thread at a time changes and others read. Longer texts are cut.
template <size_t kBytes>
class PulseText {
  static_assert(kBytes % sizeof(uint64_t) == 0);

 public:
  void Write(std::string_view text) noexcept {
    const uint32_t sequence = sequence_.load(std::memory_order_relaxed);
    sequence_.store(sequence + 1, std::memory_order_relaxed);
    text = text.substr(0, kBytes);
    for (size_t word = 0; word < words_.size(); ++word) {
      uint64_t value = 0;
      for (size_t i = 0; i < sizeof value && word * sizeof value + i < text.size(); ++i)
        value |= uint64_t{static_cast<unsigned char>(text[word * sizeof value + i])} << (8 * i);
      words_[word].store(value, std::memory_order_release);
    }
    sequence_.store(sequence + 2, std::memory_order_release);
  }
  // nullopt: a write was in progress at every attempt.
  std::optional<std::string> Read() const {
    for (int attempt = 0; attempt < 1000; ++attempt) {
      const uint32_t before = sequence_.load(std::memory_order_acquire);
      std::array<char, kBytes> text;
      for (size_t word = 0; word < words_.size(); ++word) {
        const uint64_t value = words_[word].load(std::memory_order_acquire);
        for (size_t i = 0; i < sizeof value; ++i)
          text[word * sizeof value + i] = static_cast<char>(value >> (8 * i) & 0xff);
      }
      if (before % 2 == 0 && sequence_.load(std::memory_order_relaxed) == before)
        return std::string(text.begin(), std::find(text.begin(), text.end(), '\0'));
    }
    return std::nullopt;
  }

 private:
  std::atomic<uint32_t> sequence_;
  std::array<std::atomic<uint64_t>, kBytes / sizeof(uint64_t)> words_;
};

// The reason of the process's end, as far as it was recorded. A page with kRuns may belong to a dead process.
enum class PulseEnd : uint32_t { kRuns, kOk, kError, kSignal };

// The page in memory. Times are nanoseconds of CLOCK_MONOTONIC.
struct PulsePage {
  // Written before the page is shared.
  std::atomic<uint64_t> magic;
  std::atomic<uint32_t> layout;
  std::atomic<uint32_t> bytes;
  std::atomic<uint64_t> started;        // base::ProcessIdentity::started
  std::atomic<uint64_t> pid_namespace;  // its inode; 0: unknown
  std::atomic<int32_t> pid;
  std::atomic<int32_t> rank;
  std::atomic<int32_t> world;
  PulseText<40> boot_id;
  PulseText<64> host;

  // Written by the step thread, between steps; odd during the write.
  alignas(64) std::atomic<uint64_t> sequence;
  std::atomic<int64_t> step;         // last finished step
  std::atomic<int64_t> boundary_ns;  // time of its end; before the first end: time of the attachment
  std::atomic<uint32_t> collecting;  // the current step is collected

  // Written by any thread of the trainer, each field separately.
  alignas(64) std::atomic<uint64_t> phase;  // PackPhase
  std::atomic<uint64_t> module;             // PackModule
  std::atomic<uint64_t> signal;             // PackSignal; the last signal
  std::atomic<uint64_t> signals;            // number of signals

  // Written by other threads of the monitor.
  alignas(64) std::atomic<int64_t> wall_offset_ns;  // added to a time, gives the system's clock
  std::atomic<uint32_t> names_generation;           // of the table of modules; 0: no table yet
  std::atomic<uint32_t> end;                        // PulseEnd
  std::atomic<uint64_t> numbers_dropped;            // reported values that were lost
  PulseText<64> run_id;

  // Lines that outlive the process: exceptions and its end. Each is the number of a beat line, a blank and the line
  // (docs/formats/beats.md). Bytes below `words_bytes` never change.
  alignas(64) std::atomic<uint32_t> words_bytes;
  std::atomic<uint32_t> words_dropped;
  static constexpr size_t kWordsBytes = 12288;
  char words[kWordsBytes];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);
static_assert(offsetof(PulsePage, sequence) == 192 && offsetof(PulsePage, phase) == 256 &&
                  offsetof(PulsePage, wall_offset_ns) == 320 && offsetof(PulsePage, words_bytes) == 448,
              "another layout has another number");

// A phase and its expiry in milliseconds of CLOCK_MONOTONIC; 0: never.
uint64_t PackPhase(PhaseMark phase);
PhaseMark UnpackPhase(uint64_t word);

struct PulseModule {
  uint32_t module = 0;      // position in the table of this generation
  bool entered = true;      // false: left
  int32_t micro_batch = 0;  // below kMicroBatchesMax
  uint32_t generation = 0;  // lowest bits of the table's generation
};
inline constexpr uint32_t kPulseModulesMax = 1U << 24;
inline constexpr int32_t kMicroBatchesMax = 1 << 16;
inline constexpr uint32_t kGenerationMask = (1U << 20) - 1;
// 0: the position of the process is unknown.
uint64_t PackModule(const PulseModule& module);
std::optional<PulseModule> UnpackModule(uint64_t word);

// A copy of a page.
struct Pulse {
  base::ProcessIdentity process;
  uint64_t pid_namespace_inode = 0;
  std::string run_id;
  int rank = 0;
  int world = 1;
  int64_t step = -1;  // last finished step; -1: none
  int64_t boundary_ns = 0;
  int64_t wall_offset_ns = 0;
  PhaseMark phase;
  bool collecting = false;
  std::optional<PulseModule> module;  // nullopt: unknown
  int signal = 0;                     // last recorded signal; 0: none
  int64_t signal_ms = 0;              // its time
  uint64_t signals = 0;
  PulseEnd end = PulseEnd::kRuns;
  uint32_t names_generation = 0;
  uint64_t numbers_dropped = 0;
  uint32_t words_dropped = 0;

  // Time of the boundary by the system's clock.
  double boundary_unix() const { return static_cast<double>(boundary_ns + wall_offset_ns) * 1e-9; }
};

// Copies a page of `bytes` bytes, at least sizeof(PulsePage). Fails if it is not a page of this layout, or its writer
// was in the middle of a step's end at every attempt (it was killed there).
Result<Pulse> ReadPulse(const PulsePage& page_untrusted, size_t bytes);
// The lines that outlive the process: number and text of each.
struct LastWord {
  uint64_t number = 0;
  std::string line;
};
std::vector<LastWord> ReadLastWords(const PulsePage& page_untrusted);

// The names of modules, each ended by a zero byte: name 0, name 1, …, as `0:layers.3.attn`, chunk and name.
inline constexpr size_t kPulseNamesBytesMax = size_t{4} << 20;
// Names that do not fit are left out.
std::string PulseNames(const std::vector<std::string>& names);
std::vector<std::string> ReadPulseNames(std::string_view bytes_untrusted);

}  // namespace stepwatch::vocabulary
