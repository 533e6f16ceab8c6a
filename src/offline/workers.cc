#include "src/offline/workers.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "src/base/quiet_thread.h"

namespace stepwatch::offline {
namespace {

constexpr auto kBetweenReports = std::chrono::milliseconds(100);

// Everything but `state` under the mutex.
struct Crew {
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

void Fail(Crew* crew, Status status) {
  if (crew->status.ok()) crew->status = std::move(status);
  crew->state.Stop();
}

void Work(Crew* crew, const std::vector<Task>& tasks) {
  std::unique_lock lock(crew->mutex);
  while (crew->next < tasks.size() && !crew->state.stopped()) {
    const Task& task = tasks[crew->next++];
    lock.unlock();
    Status status = RunOne(task, &crew->state);
    lock.lock();
    if (!status.ok()) Fail(crew, std::move(status));
  }
  --crew->working;
  crew->changed.notify_all();
}

// Until all have ended.
void Report(Crew* crew, const std::string& stage, uint64_t total, const OnProgress& on_progress) {
  std::unique_lock lock(crew->mutex);
  while (crew->working > 0) {
    crew->changed.wait_for(lock, kBetweenReports);
    if (!on_progress) continue;
    lock.unlock();
    const bool wanted = on_progress({stage, std::min(crew->state.done(), total), total});
    lock.lock();
    if (!wanted && !crew->state.stopped()) Fail(crew, Status(StatusCode::kUnavailable, "stopped on request"));
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
  Crew crew;
  std::vector<std::thread> crew_threads;
  const size_t wanted = std::min(static_cast<size_t>(threads), tasks.size());
  {
    std::lock_guard lock(crew.mutex);
    crew.working = static_cast<int>(wanted);
  }
  for (size_t i = 0; i < wanted; ++i) {
    try {
      crew_threads.push_back(base::StartQuietThread("sw-offline", [&crew, &tasks] { Work(&crew, tasks); }));
    } catch (const std::exception& error) {
      std::lock_guard lock(crew.mutex);
      crew.working -= static_cast<int>(wanted - i);
      if (i == 0) Fail(&crew, Status(StatusCode::kExhausted, std::string("cannot start a thread: ") + error.what()));
      break;  // fewer do it, too
    }
  }
  try {
    Report(&crew, stage, total_bytes, on_progress);
  } catch (...) {
    crew.state.Stop();
    for (std::thread& thread : crew_threads) thread.join();
    throw;
  }
  for (std::thread& thread : crew_threads) thread.join();
  return crew.status;
}

}  // namespace stepwatch::offline
