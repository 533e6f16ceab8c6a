// Runs tasks on several threads and reports the progress to the calling thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "stepwatch/offline.h"
#include "stepwatch/status.h"

namespace stepwatch::offline {

// State shared by the tasks.
class WorkState {
 public:
  // Adds bytes of processed input. Returns false if the task must stop because its result is not needed.
  bool Advance(uint64_t bytes) {
    done_.fetch_add(bytes, std::memory_order_relaxed);
    return !stop_.load(std::memory_order_relaxed);
  }
  void Stop() { stop_.store(true, std::memory_order_relaxed); }
  bool stopped() const { return stop_.load(std::memory_order_relaxed); }
  uint64_t done() const { return done_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> done_{0};
  std::atomic<bool> stop_{false};
};

// Reports the progress of reading one file to a WorkState periodically.
class ReadMeter {
 public:
  explicit ReadMeter(WorkState* state) : state_(*state) {}
  // Call after each row; kUnavailable if the result is not needed any more.
  Status Row(uint64_t bytes_read) { return ++rows_ % 1024 == 0 ? End(bytes_read) : Status(); }
  Status End(uint64_t bytes_read) {
    const bool is_needed = state_.Advance(bytes_read - reported_);
    reported_ = bytes_read;
    return is_needed ? Status() : Status(StatusCode::kUnavailable, "stopped");
  }

 private:
  WorkState& state_;
  uint64_t rows_ = 0;
  uint64_t reported_ = 0;
};

using Task = std::function<Status(WorkState*)>;

// kOutOfRange unless 1 to 128.
Status CheckProcessNum(int process_num);

// Runs all tasks on `threads` threads. The first error of any, an exception included, or a false result of
// `on_progress` stops all of them and is returned.
Status RunTasks(int threads, const std::vector<Task>& tasks, const std::string& stage, uint64_t total_bytes,
                const OnProgress& on_progress);

}  // namespace stepwatch::offline
