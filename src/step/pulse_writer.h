// Where the training is, left for whoever looks from outside: the step thread's side of the pulse and of reports.
//
// The page of the pulse takes plain stores; what has to be told one by one (the ends of steps, numbers, changes of
// phase) goes through a queue, which another thread empties. No call locks, allocates, waits or makes a system call
// (the clock is read without one). In a forked child, and where there is neither page nor queue, nothing happens.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/bounded_queue.h"
#include "src/base/fork_guard.h"
#include "src/base/mutex.h"
#include "src/base/process_identity.h"
#include "src/base/sealed_memory.h"
#include "src/vocabulary/pulse_page.h"
#include "stepwatch/report.h"

namespace stepwatch::step {

// One thing that was told.
struct ReportEntry {
  enum class Kind : uint8_t { kStepEnd, kNumber, kPhase, kCheckpoint, kSignal };

  Kind kind = Kind::kStepEnd;
  Phase phase = Phase::kInit;  // at that time; kPhase: from then on
  int64_t step = -1;  // kStepEnd: that is over. kNumber, kCheckpoint: that it is about. Otherwise: finished last
  int64_t at_ns = 0;  // of CLOCK_MONOTONIC
  double value = 0;   // kNumber. kSignal: which. kPhase: seconds until it expires, 0: never
  std::array<char, kReportedNameBytesMax + 1> name{};  // kNumber
};

class PulseWriter {
 public:
  using Clock = std::chrono::steady_clock;

  // For some thousand steps and numbers between two looks of whoever empties it.
  static constexpr size_t kQueuePlaces = 8192;

  struct Setup {
    base::ProcessIdentity process;
    std::string run_id;
    int rank = 0;
    int world = 1;
    bool has_queue = true;  // somebody will empty it
  };

  explicit PulseWriter(int64_t first_step) : step_(first_step - 1) {}

  // Before other threads know of the writer. Not Ok: there is no page, and everything else works.
  Status Open(const Setup& setup);

  // --- step thread, between steps ---
  void EndStep(int64_t step, Clock::time_point at) noexcept;
  void SetCollecting(bool collecting) noexcept {
    if (vocabulary::PulsePage* page = this->page())
      page->collecting.store(collecting ? 1 : 0, std::memory_order_relaxed);
  }
  // The names of modules, from 0; replaces the table. Allocates. Not Ok: they have no names outside.
  Status SetModules(const std::vector<std::string>& names);

  // --- any thread of the trainer ---
  void MarkModule(uint32_t module, bool entered, int32_t micro_batch) noexcept;
  PhaseMark SetPhase(PhaseMark phase) noexcept;
  PhaseMark phase() const noexcept { return vocabulary::UnpackPhase(phase_.load(std::memory_order_relaxed)); }
  void Report(const ReportedNumber* numbers, size_t count, int64_t step) noexcept;
  void ReportCheckpoint(int64_t step) noexcept;
  // Async-signal-safe. One whose action is the default, to end the process, is how the run ends.
  void ReportSignal(int number) noexcept;
  // Numbers, and ends of steps, that found no room or were unusable.
  uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

  // --- one other thread at a time ---
  bool Pop(ReportEntry* entry) noexcept { return queue_ != nullptr && queue_->Pop(entry); }
  void SetRunId(std::string_view run_id) noexcept;
  // What has to be added to the monotonic clock for the system's.
  void SetWallOffset(std::chrono::nanoseconds offset) noexcept;
  // A line that outlives the process. False: there is no room, which is counted.
  bool AddLastWord(uint64_t number, std::string_view line, bool is_end = false) noexcept;
  void SetEnd(vocabulary::PulseEnd end) noexcept;

  // --- any thread ---
  // What readers map; -1: there is none. Valid as long as the writer.
  int page_fd() const { return memory_.fd.get(); }
  size_t page_bytes() const { return memory_.bytes; }
  // The names of modules, as readers map them.
  struct ModuleTable {
    base::SealedMemory memory;
    uint32_t generation = 0;
  };
  // The table now in use; null: there is none. Kept by whoever hands it on.
  std::shared_ptr<const ModuleTable> modules() const;

 private:
  // Null in a forked child, and without a page.
  vocabulary::PulsePage* page() noexcept {
    return static_cast<vocabulary::PulsePage*>(guard_.pointer().load(std::memory_order_relaxed));
  }
  void Push(const ReportEntry& entry) noexcept;
  void CountDropped() noexcept;
  int64_t last_step() const noexcept { return step_.load(std::memory_order_relaxed); }

  base::ForkGuard guard_;
  base::SealedMemory memory_;
  std::unique_ptr<base::BoundedQueue<ReportEntry>> queue_;
  std::atomic<int64_t> step_;  // finished last
  std::atomic<uint64_t> phase_{0};
  std::atomic<uint32_t> generation_{0};
  std::atomic<uint64_t> dropped_{0};
  mutable base::Mutex mutex_;
  std::shared_ptr<const ModuleTable> modules_ STEPWATCH_GUARDED_BY(mutex_);
};

}  // namespace stepwatch::step
