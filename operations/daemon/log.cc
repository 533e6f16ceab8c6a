#include "operations/daemon/log.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "src/base/file_system.h"
#include "src/base/io_executor.h"
#include "src/base/mutex.h"
#include "src/base/text.h"
#include "src/base/time_text.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kLogLineBytesMax = 8 << 10;
constexpr size_t kWaitingBytesMax = 1 << 20;
// A line is written before the next action, as long as this takes no longer.
constexpr std::chrono::milliseconds kWriteTime{20};

const char* NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo: return "info";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kError: return "error";
  }
  return "";
}

std::string LineOf(LogLevel level, std::string_view text) {
  return base::UtcText(std::time(nullptr)) + " " + NameOf(level) + ": " + base::Printable(text, kLogLineBytesMax) +
         "\n";
}

// Waits while a pipe is full. False: it cannot be written, for instance to a full disk.
bool WriteWhole(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = base::FileSystem::Real().Write(STDERR_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {  // a process that shares the pipe has made it non-blocking
      pollfd pipe{STDERR_FILENO, POLLOUT, 0};
      (void)::poll(&pipe, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

class Log::Writer {
 public:
  void Post(LogLevel level, std::string line) {
    base::MutexLock lock(&shared_->mutex);
    if (shared_->waiting_bytes + line.size() > kWaitingBytesMax) {
      ++shared_->dropped;
      return;
    }
    shared_->waiting_bytes += line.size();
    const int64_t number = ++shared_->posted;
    lock.Unlock();
    const size_t bytes = line.size();
    const bool is_posted =
        Start([shared = shared_, level, line = std::move(line)] { Write(shared.get(), level, line); });
    lock.Lock();
    if (!is_posted) {
      shared_->waiting_bytes -= bytes;
      ++shared_->done;
      ++shared_->dropped;
    }
    const auto deadline = std::chrono::steady_clock::now() + kWriteTime;
    while (!shared_->is_late && shared_->done < number)
      if (!shared_->changed.WaitUntil(&shared_->mutex, deadline)) shared_->is_late = true;
  }
  int64_t dropped() const {
    const base::MutexLock lock(&shared_->mutex);
    return shared_->dropped;
  }

 private:
  // Shared with the thread: a thread that hangs in a write outlives this.
  struct Shared {
    base::Mutex mutex;
    base::Condition changed;
    size_t waiting_bytes STEPWATCH_GUARDED_BY(mutex) = 0;
    int64_t posted STEPWATCH_GUARDED_BY(mutex) = 0;
    int64_t done STEPWATCH_GUARDED_BY(mutex) = 0;
    int64_t dropped STEPWATCH_GUARDED_BY(mutex) = 0;
    int64_t reported STEPWATCH_GUARDED_BY(mutex) = 0;
    bool is_late STEPWATCH_GUARDED_BY(mutex) = false;  // no caller waits for the thread until it has written everything
  };

  bool Start(std::function<void()> work) {
    try {
      return thread_.Post(std::move(work));
    } catch (const std::exception&) {  // no memory, or no thread
      return false;
    }
  }

  static void Write(Shared* shared, LogLevel level, const std::string& line) {
    base::MutexLock lock(&shared->mutex);
    const int64_t dropped = shared->dropped;
    const int64_t unreported = dropped - shared->reported;
    lock.Unlock();
    const bool reports =
        unreported > 0 &&
        WriteWhole(LineOf(
            level, "the log was not writable, or not read in time: " + std::to_string(unreported) + " lines are lost"));
    const bool is_written = WriteWhole(line);
    lock.Lock();
    if (reports) shared->reported = dropped;
    if (!is_written) ++shared->dropped;
    shared->waiting_bytes -= line.size();
    if (++shared->done == shared->posted) shared->is_late = false;
    shared->changed.NotifyAll();
  }

  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  base::IoThread thread_{"stepwatchd-log"};
};

Log::Log() : writer_(std::make_unique<Writer>()) {}
Log::~Log() = default;

void Log::Write(LogLevel level, std::string_view text) {
  writer_->Post(level, LineOf(level, text));
}

int64_t Log::lines_dropped() const {
  return writer_->dropped();
}

}  // namespace stepwatch::operations
