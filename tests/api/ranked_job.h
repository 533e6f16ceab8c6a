// Several monitors in one process behave as the ranks of a job: one store, a thread for each rank's steps.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "stepwatch/stores.h"
#include "tests/api/job.h"

namespace stepwatch::testing {

using std::chrono::milliseconds;

// A memory store whose answers can be held back from one rank.
class SlowStore final : public Store {
 public:
  explicit SlowStore(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  void Set(const std::string& key, const std::string& value, Done done) override {
    if (holds_written_ && key.find("/w/") != std::string::npos) {
      const std::lock_guard<std::mutex> lock(mutex_);
      return held_.push_back([this, key, value, done] { store_->Set(key, value, done); });
    }
    if (holds_after_vote_ && key.find("/v/") != std::string::npos) Hold();
    store_->Set(key, value, Through(std::move(done)));
  }
  void Get(const std::string& key, Done done) override {
    if (key.find("/w/") != std::string::npos) ++written_asked_;
    store_->Get(key, Through(std::move(done)));
  }
  void SetOnce(const std::string& key, const std::string& value, Done done) override {
    store_->SetOnce(key, value, Through(std::move(done)));
  }

  // How often the rank has asked who has written its rows.
  int written_asked() const { return written_asked_; }
  size_t held() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return held_.size();
  }
  void Hold() { is_held_ = true; }
  // Does not perform the writes that report written rows.
  void HoldWritten() { holds_written_ = true; }
  // From the answer to the next vote on.
  void HoldAfterVote() { holds_after_vote_ = true; }
  void LetGo() {
    std::vector<std::function<void()>> held;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_held_ = holds_after_vote_ = holds_written_ = false;
      held.swap(held_);
    }
    for (const auto& each : held) each();
  }

 private:
  Done Through(Done done) {
    return [this, done = std::move(done)](Answer answer) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!is_held_) return done(std::move(answer));
      held_.push_back([done, answer] { done(answer); });
    };
  }

  const std::shared_ptr<Store> store_;
  std::mutex mutex_;
  std::atomic<bool> is_held_{false};
  std::atomic<bool> holds_after_vote_{false};
  std::atomic<bool> holds_written_{false};
  std::atomic<int> written_asked_{0};
  std::vector<std::function<void()>> held_;  // guarded by mutex_
};

// A store that changes the bytes of proposals: it stands for any fault of one rank.
class Garbling final : public Store {
 public:
  explicit Garbling(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  void Set(const std::string& key, const std::string& value, Done done) override { store_->Set(key, value, done); }
  void SetOnce(const std::string& key, const std::string& value, Done done) override {
    store_->SetOnce(key, value, done);
  }
  void Get(const std::string& key, Done done) override {
    store_->Get(key, [this, done](Answer answer) {
      if (garbles && answer.ok() && answer.value() && answer.value()->find('{') != std::string::npos)
        answer.value()->replace(answer.value()->find('{'), 1, "[");
      done(std::move(answer));
    });
  }
  std::atomic<bool> garbles{false};

 private:
  const std::shared_ptr<Store> store_;
};

// The ranks share rank 0's file and output base; each has steps of its own length.
class RankedJob {
 public:
  explicit RankedJob(int world, const std::string& config) {
    const auto memory = MakeMemoryStore();
    for (int rank = 0; rank < world; ++rank) {
      stores.push_back(std::make_shared<SlowStore>(memory));
      ranks.push_back(std::make_unique<Job>(rank == 0 ? config : ""));
      Options& options = ranks.back()->options;
      options.store = stores.back();
      options.rank = rank;
      options.world_size = world;
      options.store_poll = milliseconds(2);
      // A rank that is late with its decision on a busy machine is not in doubt; tests of doubt set their own time.
      options.decision_wait = std::chrono::minutes(5);
      options.config_path = ranks[0]->config_path;
      options.output_dir = ranks[0]->directory / "out";
    }
  }
  ~RankedJob() { Stop(); }

  void Start() {
    for (auto& rank : ranks) rank->Start();
  }
  // Every rank's thread steps for itself, some faster than others.
  void Run(milliseconds step) {
    stop_ = false;
    for (size_t i = 0; i < ranks.size(); ++i)
      threads_.emplace_back([this, i, step] {
        while (!stop_) {
          // As with a collective now and then: nobody runs away.
          if (ranks[i]->monitor->step() > Slowest() + 3) {
            std::this_thread::sleep_for(milliseconds(1));
            continue;
          }
          if (in_step) in_step(*ranks[i]);
          ranks[i]->TrainStep();
          if (keeps_up && ranks[i]->monitor->step() % 8 == 0) (void)ranks[i]->monitor->Flush(std::chrono::seconds(60));
          std::this_thread::sleep_for(step + milliseconds(i % 2));
        }
      });
  }
  int64_t Slowest() const {
    int64_t step = INT64_MAX;
    for (const auto& rank : ranks) step = std::min(step, rank->monitor->step());
    return step;
  }
  void Stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  void Close() {
    Stop();
    for (auto& rank : ranks) rank->Close();
  }
  bool WaitForAll(EventKind kind, size_t count = 1) {
    return std::all_of(ranks.begin(), ranks.end(), [&](auto& rank) { return rank->WaitFor(kind, count); });
  }
  // Until all ranks have drained `count` plans, and rank 0 has written the last one back.
  bool Settle(size_t count) {
    return WaitForAll(EventKind::kDrained, count) && ranks[0]->WaitFor(EventKind::kWroteBack, count);
  }
  // One step of each rank, on this thread.
  void TrainSteps(int count) {
    for (int i = 0; i < count; ++i)
      for (auto& rank : ranks) rank->TrainStep();
  }
  Job& operator[](size_t rank) { return *ranks[rank]; }

  // Now and then a rank's steps wait for its rows to be written: none is dropped, however busy the machine is.
  bool keeps_up = false;
  std::vector<std::shared_ptr<SlowStore>> stores;
  std::vector<std::unique_ptr<Job>> ranks;
  std::function<void(Job&)> in_step;  // of each rank, before the rest of the step

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

// All ranks have started.
struct StartedRankedJob : RankedJob {
  StartedRankedJob(int world, const std::string& config) : RankedJob(world, config) { Start(); }
};

}  // namespace stepwatch::testing
