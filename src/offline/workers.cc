#include "src/offline/workers.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "src/base/worker_thread.h"

namespace stepwatch::offline {
namespace {

constexpr auto kBetweenReports = std::chrono::milliseconds(100);

// Everything but `state` under the mutex.
struct TaskPool {
  WorkState state;
  std::mutex mutex;
  std::condition_variable changed;
  size_t next = 0;
  int working = 0;
  Status status;
};

Status RunOne(const Task& task, WorkState* state) try { return task(state); } catch (const std::exception& error) {
  return Status(StatusCode::kExhausted, std::string("cannot go on: ") + error.what());
}

void Fail(TaskPool* pool, Status status) {
  if (pool->status.ok()) pool->status = std::move(status);
  pool->state.Stop();
}

void Work(TaskPool* pool, const std::vector<Task>& tasks) {
  std::unique_lock lock(pool->mutex);
  while (pool->next < tasks.size() && !pool->state.stopped()) {
    const Task& task = tasks[pool->next++];
    lock.unlock();
    Status status = RunOne(task, &pool->state);
    lock.lock();
    if (!status.ok()) Fail(pool, std::move(status));
  }
  --pool->working;
  pool->changed.notify_all();
}

// Until all have ended.
void Report(TaskPool* pool, const std::string& stage, uint64_t total, const OnProgress& on_progress) {
  std::unique_lock lock(pool->mutex);
  while (pool->working > 0) {
    pool->changed.wait_for(lock, kBetweenReports);
    if (!on_progress) continue;
    lock.unlock();
    const bool wanted = on_progress({stage, std::min(pool->state.done(), total), total});
    lock.lock();
    if (!wanted && !pool->state.stopped()) Fail(pool, Status(StatusCode::kUnavailable, "stopped on request"));
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
    std::lock_guard lock(pool.mutex);
    pool.working = static_cast<int>(wanted);
  }
  for (size_t i = 0; i < wanted; ++i) {
    try {
      crew_threads.push_back(base::StartWorkerThread("sw-offline", [&pool, &tasks] { Work(&pool, tasks); }));
    } catch (const std::exception& error) {
      std::lock_guard lock(pool.mutex);
      pool.working -= static_cast<int>(wanted - i);
      if (i == 0) Fail(&pool, Status(StatusCode::kExhausted, std::string("cannot start a thread: ") + error.what()));
      break;  // fewer do it, too
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
  return pool.status;
}

}  // namespace stepwatch::offline
