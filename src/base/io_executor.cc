#include "src/base/io_executor.h"

#include <deque>
#include <utility>

#include "src/base/mutex.h"
#include "src/base/worker_thread.h"

namespace stepwatch::base {
namespace {

constexpr std::chrono::seconds kStopTime{1};

}  // namespace

// Shared with the thread: a detached one outlives the executor.
struct IoThread::Shared {
  Mutex mutex;
  Condition changed;
  std::deque<std::function<void()>> queue STEPWATCH_GUARDED_BY(mutex);
  bool stopping STEPWATCH_GUARDED_BY(mutex) = false;
  bool finished STEPWATCH_GUARDED_BY(mutex) = false;  // the thread accesses no other objects any more
};

IoThread::IoThread(const char* name) : name_(name), shared_(std::make_shared<Shared>()) {}

IoThread::~IoThread() {
  (void)Stop(Clock::now() + kStopTime);
}

bool IoThread::Post(std::function<void()> work) {
  const MutexLock lock(&shared_->mutex);
  if (shared_->stopping || shared_->queue.size() >= kQueueMax) return false;
  if (!thread_.joinable()) thread_ = StartWorkerThread(name_, [shared = shared_] { Run(shared.get()); });
  shared_->queue.push_back(std::move(work));
  shared_->changed.NotifyAll();
  return true;
}

bool IoThread::Stop(Clock::time_point deadline) {
  std::deque<std::function<void()>> discarded;  // destroyed without the lock
  MutexLock lock(&shared_->mutex);
  shared_->stopping = true;
  shared_->changed.NotifyAll();
  if (!thread_.joinable()) return true;
  while (!shared_->finished && shared_->changed.WaitUntil(&shared_->mutex, deadline)) {
  }
  const bool finished = shared_->finished;
  if (!finished) discarded.swap(shared_->queue);
  lock.Unlock();
  if (finished)
    thread_.join();
  else
    thread_.detach();
  return finished;
}

void IoThread::Run(Shared* shared) {
  MutexLock lock(&shared->mutex);
  for (;;) {
    while (!shared->stopping && shared->queue.empty()) shared->changed.Wait(&shared->mutex);
    if (shared->queue.empty()) break;
    std::function<void()> work = std::move(shared->queue.front());
    shared->queue.pop_front();
    lock.Unlock();
    try {
      work();
    } catch (...) {  // the poster of the work has made this harmless
    }
    work = nullptr;
    lock.Lock();
  }
  shared->finished = true;
  shared->changed.NotifyAll();
}

}  // namespace stepwatch::base
