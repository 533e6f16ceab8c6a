// A thread for calls on files. A mount that hangs holds this thread and nobody else.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>

namespace stepwatch::base {

// Runs one piece of work after the other, in the order in which they were posted.
//
// Work may outlive whoever posted it, when a call hangs: it owns, or shares, all that it touches, and tells its result
// through something that may be closed by then.
class IoExecutor {
 public:
  virtual ~IoExecutor() = default;
  // Any thread. False: the work is discarded, because too much waits or the executor was stopped. Throws, with the work
  // discarded, if there is no memory or no thread for it.
  virtual bool Post(std::function<void()> work) = 0;
};

// The executors of a monitor: one for the config, one for the output, which may lie on different mounts.
class IoThread final : public IoExecutor {
 public:
  using Clock = std::chrono::steady_clock;
  // A queue that long belongs to a mount that has hung for a long time.
  static constexpr size_t kQueueMax = 1024;

  // `name`: of the thread, at most 15 characters; a literal.
  explicit IoThread(const char* name = "stepwatch-io");
  // Stops, and detaches the thread if that takes longer than a second.
  ~IoThread() override;
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  // The first call starts the thread. An exception ends the work that throws it, and nothing else.
  bool Post(std::function<void()> work) override;

  // Takes no more work, lets what was posted run, and joins the thread. False: a call still hangs at the deadline. Then
  // work that has not begun is discarded and the thread is detached; it ends by itself when the call returns.
  bool Stop(Clock::time_point deadline);

 private:
  struct Shared;
  static void Run(Shared* shared);

  const char* const name_;
  const std::shared_ptr<Shared> shared_;
  std::thread thread_;  // guarded by the mutex in shared_, until Stop
};

}  // namespace stepwatch::base
