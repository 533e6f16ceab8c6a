#include "src/base/io_executor.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "src/base/worker_thread.h"

namespace stepwatch::base {
namespace {

constexpr std::chrono::seconds kStopTime{1};

}  // namespace

// The thread shares it: a detached one outlives the executor.
struct IoThread::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;  // guarded by mutex, as all below
  bool stopping = false;
  bool finished = false;  // the thread touches nothing of anybody's any more
};

IoThread::IoThread(const char* name) : name_(name), shared_(std::make_shared<Shared>()) {}

IoThread::~IoThread() {
  (void)Stop(Clock::now() + kStopTime);
}

bool IoThread::Post(std::function<void()> work) {
  const std::lock_guard<std::mutex> lock(shared_->mutex);
  if (shared_->stopping || shared_->queue.size() >= kQueueMax) return false;
  if (!thread_.joinable()) thread_ = StartWorkerThread(name_, [shared = shared_] { Run(shared.get()); });
  shared_->queue.push_back(std::move(work));
  shared_->changed.notify_all();
  return true;
}

bool IoThread::Stop(Clock::time_point deadline) {
  std::deque<std::function<void()>> discarded;  // destroyed without the lock
  std::unique_lock<std::mutex> lock(shared_->mutex);
  shared_->stopping = true;
  shared_->changed.notify_all();
  if (!thread_.joinable()) return true;
  const bool finished = shared_->changed.wait_until(lock, deadline, [this] { return shared_->finished; });
  if (!finished) discarded.swap(shared_->queue);
  lock.unlock();
  if (finished)
    thread_.join();
  else
    thread_.detach();
  return finished;
}

void IoThread::Run(Shared* shared) {
  std::unique_lock<std::mutex> lock(shared->mutex);
  for (;;) {
    shared->changed.wait(lock, [shared] { return shared->stopping || !shared->queue.empty(); });
    if (shared->queue.empty()) break;
    std::function<void()> work = std::move(shared->queue.front());
    shared->queue.pop_front();
    lock.unlock();
    try {
      work();
    } catch (...) {  // whoever posted it has made sure that nothing is lost by that
    }
    work = nullptr;
    lock.lock();
  }
  shared->finished = true;
  shared->changed.notify_all();
}

}  // namespace stepwatch::base
