// The step thread's side of the pulse and of reports: publishes the position of the training to outside readers.
//
// The page of the pulse is written by plain stores; individual reports (ends of steps, numbers, changes of phase) go
// through a queue that another thread empties. No call locks, allocates, waits or makes a system call (the clock is
// read without one). In a forked child, or without page and queue, calls have no effect.
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
#include "src/step/part_clock.h"
#include "src/vocabulary/pulse_page.h"
#include "stepwatch/report.h"

namespace stepwatch::step {

// One report.
struct ReportEntry {
  enum class Kind : uint8_t { kStepEnd, kNumber, kMeasured, kPhase, kCheckpoint, kSignal };

  ReportEntry() noexcept : name{} {}

  Kind kind = Kind::kStepEnd;
  Phase phase = Phase::kInit;  // current phase; kPhase: the new phase
  int64_t step = -1;  // kStepEnd: the ended step. Numbers, kCheckpoint: its step. Otherwise: last finished step
  int64_t at_ns = 0;  // of CLOCK_MONOTONIC
  double value = 0;   // of a number. kSignal: its number. kPhase: seconds until it expires, 0: never
  union {
    std::array<char, kReportedNameBytesMax + 1> name;  // of a number
    PartTimes parts;                                   // kStepEnd
  };
};

class PulseWriter {
 public:
  using Clock = std::chrono::steady_clock;

  // Enough for some thousand steps and numbers between two reads of the queue.
  static constexpr size_t kQueuePlaces = 8192;

  struct Setup {
    base::ProcessIdentity process;
    std::string run_id;
    int rank = 0;
    int world = 1;
    bool has_queue = true;  // another thread empties the queue
  };

  explicit PulseWriter(int64_t first_step);

  // Must precede the sharing of the writer with other threads. On an error there is no page; all else works.
  Status Open(const Setup& setup);

  // --- step thread, between steps ---
  void EndStep(int64_t step, Clock::time_point at) noexcept;
  void SetCollecting(bool collecting) noexcept {
    if (vocabulary::PulsePage* page = this->page())
      page->collecting.store(collecting ? 1 : 0, std::memory_order_relaxed);
  }
  // Sets the names of modules, from 0; replaces the table. Allocates. On an error the names are not published.
  Status SetModules(const std::vector<std::string>& names);

  // --- any thread of the trainer ---
  void MarkModule(uint32_t module, bool entered, int32_t micro_batch) noexcept;
  PhaseMark SetPhase(PhaseMark phase) noexcept;
  // Begins a part of the running step; returns the previous one.
  StepPart EnterPart(StepPart part, Clock::time_point at = Clock::now()) noexcept;
  PhaseMark phase() const noexcept { return vocabulary::UnpackPhase(phase_.load(std::memory_order_relaxed)); }
  void Report(const ReportedNumber* numbers, size_t count, int64_t step) noexcept {
    Report(ReportEntry::Kind::kNumber, numbers, count, step);
  }
  // Numbers that are not the program's own.
  void ReportMeasured(const ReportedNumber* numbers, size_t count, int64_t step) noexcept {
    Report(ReportEntry::Kind::kMeasured, numbers, count, step);
  }
  void ReportCheckpoint(int64_t step) noexcept;
  // Async-signal-safe. A signal whose default action ends the process is recorded as the end of the run.
  void ReportSignal(int number) noexcept;
  // Numbers, and ends of steps, that were invalid or did not fit.
  uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

  // --- one other thread at a time ---
  bool Pop(ReportEntry* entry) noexcept { return queue_ != nullptr && queue_->Pop(entry); }
  void SetRunId(std::string_view run_id) noexcept;
  // Difference of the system's clock and the monotonic clock.
  void SetWallOffset(std::chrono::nanoseconds offset) noexcept;
  // Adds a line that outlives the process. Returns false, and counts it, if there is no room.
  bool AddLastWord(uint64_t number, std::string_view line, bool is_end = false) noexcept;
  void SetEnd(vocabulary::PulseEnd end) noexcept;

  // --- any thread ---
  // The descriptor that readers map; -1: no page. Valid as long as the writer.
  int page_fd() const { return memory_.fd.get(); }
  size_t page_bytes() const { return memory_.bytes; }
  // The names of modules, in the memory that readers map.
  struct ModuleTable {
    base::SealedMemory memory;
    uint32_t generation = 0;
  };
  // The table in use; null: none. The caller's reference keeps it alive.
  std::shared_ptr<const ModuleTable> modules() const;

 private:
  // Null in a forked child, or without a page.
  vocabulary::PulsePage* page() noexcept {
    return static_cast<vocabulary::PulsePage*>(guard_.pointer().load(std::memory_order_relaxed));
  }
  void Report(ReportEntry::Kind kind, const ReportedNumber* numbers, size_t count, int64_t step) noexcept;
  void Push(const ReportEntry& entry) noexcept;
  void CountDropped() noexcept;

  base::ForkGuard guard_;
  base::SealedMemory memory_;
  std::unique_ptr<base::BoundedQueue<ReportEntry>> queue_;
  std::atomic<int64_t> step_;  // last finished step
  std::atomic<uint64_t> phase_{0};
  std::atomic<uint32_t> generation_{0};
  std::atomic<uint64_t> dropped_{0};
  PartClock parts_;
  mutable base::Mutex mutex_;
  std::shared_ptr<const ModuleTable> modules_ STEPWATCH_GUARDED_BY(mutex_);
};

}  // namespace stepwatch::step
