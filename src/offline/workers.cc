#include "src/offline/workers.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

#include "src/base/mutex.h"
#include "src/base/worker_thread.h"

namespace stepwatch::offline {
namespace {

constexpr auto kBetweenReports = std::chrono::milliseconds(100);

struct TaskPool {
  WorkState state;
  base::Mutex mutex;
  base::Condition changed;
  size_t next STEPWATCH_GUARDED_BY(mutex) = 0;
  int working STEPWATCH_GUARDED_BY(mutex) = 0;
  Status status STEPWATCH_GUARDED_BY(mutex);
};

Status RunOne(const Task& task, WorkState* state) try { return task(state); } catch (const std::exception& error) {
  return Status(StatusCode::kExhausted, std::string("cannot continue: ") + error.what());
}

void Fail(TaskPool* pool, Status status) STEPWATCH_REQUIRES(pool->mutex) {
  if (pool->status.ok()) pool->status = std::move(status);
  pool->state.Stop();
}

void Work(TaskPool* pool, const std::vector<Task>& tasks) {
  base::MutexLock lock(&pool->mutex);
  while (pool->next < tasks.size() && !pool->state.stopped()) {
    const Task& task = tasks[pool->next++];
    lock.Unlock();
    Status status = RunOne(task, &pool->state);
    lock.Lock();
    if (!status.ok()) Fail(pool, std::move(status));
  }
  --pool->working;
  pool->changed.NotifyAll();
}

// Returns when all have ended.
void Report(TaskPool* pool, const std::string& stage, uint64_t total, const OnProgress& on_progress) {
  base::MutexLock lock(&pool->mutex);
  while (pool->working > 0) {
    (void)pool->changed.WaitUntil(&pool->mutex, std::chrono::steady_clock::now() + kBetweenReports);
    if (!on_progress) continue;
    lock.Unlock();
    const bool is_needed = on_progress({stage, std::min(pool->state.done(), total), total});
    lock.Lock();
    if (!is_needed && !pool->state.stopped()) Fail(pool, Status(StatusCode::kUnavailable, "stopped on request"));
  }
}

}  // namespace

Status CheckProcessNum(int process_num) {
  if (process_num >= 1 && process_num <= 128) return Status();
  return Status(StatusCode::kOutOfRange,
                "process_num(" + std::to_string(process_num) + ") is not a positive integer of at most 128");
}

Status RunTasks(int threads, const std::vector<Task>& tasks, const std::string& stage, uint64_t total_bytes,
                const OnProgress& on_progress) {
  TaskPool pool;
  std::vector<std::thread> crew_threads;
  const size_t wanted = std::min(static_cast<size_t>(threads), tasks.size());
  {
    const base::MutexLock lock(&pool.mutex);
    pool.working = static_cast<int>(wanted);
  }
  for (size_t i = 0; i < wanted; ++i) {
    try {
      crew_threads.push_back(base::StartWorkerThread("sw-offline", [&pool, &tasks] { Work(&pool, tasks); }));
    } catch (const std::exception& error) {
      const base::MutexLock lock(&pool.mutex);
      pool.working -= static_cast<int>(wanted - i);
      if (i == 0) Fail(&pool, Status(StatusCode::kExhausted, std::string("cannot start a thread: ") + error.what()));
      break;  // continues with fewer threads
    }
  }
  try {
    Report(&pool, stage, total_bytes, on_progress);
  } catch (...) {
    pool.state.Stop();
    for (std::thread& thread : crew_threads) thread.join();
    throw;
  }
  for (std::thread& thread : crew_threads) thread.join();
  const base::MutexLock lock(&pool.mutex);
  return pool.status;
}

}  // namespace stepwatch::offline
