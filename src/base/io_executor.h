// A thread for calls on files. A mount that hangs blocks only this thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>

namespace stepwatch::base {

// Runs work items one after the other, in the order of posting.
//
// A hanging call lets work outlive its poster: it owns, or shares, all that it touches, and reports its result through
// an object that may be closed by then.
class IoExecutor {
 public:
  virtual ~IoExecutor() = default;
  // Any thread. Returns false, and discards the work, if the queue is full or the executor was stopped. Throws, with
  // the work discarded, if there is no memory or no thread for it.
  virtual bool Post(std::function<void()> work) = 0;
};

// The executors of a monitor: one for the config, one for the output, which may lie on different mounts.
class IoThread final : public IoExecutor {
 public:
  using Clock = std::chrono::steady_clock;
  // A queue of this length means that the mount has hung for a long time.
  static constexpr size_t kQueueMax = 1024;

  // `name`: of the thread, at most 15 characters; a literal.
  explicit IoThread(const char* name = "stepwatch-io");
  // Stops, and detaches the thread if stopping takes longer than a second.
  ~IoThread() override;
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  // The first call starts the thread. An exception ends only the work that throws it.
  bool Post(std::function<void()> work) override;

  // Rejects new work, runs the posted work, and joins the thread. Returns false if a call still hangs at the deadline.
  // Then work that has not begun is discarded and the thread is detached; it ends when the call returns.
  bool Stop(Clock::time_point deadline);

 private:
  struct Shared;
  static void Run(Shared* shared);

  const char* const name_;
  const std::shared_ptr<Shared> shared_;
  std::thread thread_;  // guarded by the mutex in shared_, until Stop
};

}  // namespace stepwatch::base
