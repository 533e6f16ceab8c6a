// Where `stepwatch top` has its answers from: a thread that asks the job again and again.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "controller/cli/top_view.h"
#include "controller/control_socket/find_jobs.h"
#include "src/base/file.h"
#include "src/base/mutex.h"
#include "src/http/client.h"

namespace stepwatch::cli {

// Which kind of sites is asked for.
struct TopKind {
  std::string name;  // empty: the first with values
  int steps = 0;     // that many kinds with values further; below 0: back
};

// Asks once. Nothing: the job has ended.
std::optional<TopAnswers> AskForTop(const control_socket::FoundJob& job, const TopKind& kind);

class TopSource {
 public:
  TopSource(const control_socket::FoundJob& job, const std::string& kind, std::chrono::milliseconds interval);
  ~TopSource();
  TopSource(const TopSource&) = delete;
  TopSource& operator=(const TopSource&) = delete;

  // Becomes readable when there are new answers.
  int wake_up() const { return wake_up_.get(); }
  // The newest; nothing: the job has ended.
  std::optional<TopAnswers> Answers();
  // Asks for the next kind with values, or the one before, now.
  void Move(int steps);

 private:
  void Run();
  void Keep(std::optional<TopAnswers> answers, bool has_moved) STEPWATCH_REQUIRES(mutex_);

  const control_socket::FoundJob job_;
  const std::chrono::milliseconds interval_;
  base::UniqueFd wake_up_;
  base::Mutex mutex_;
  base::Condition asked_;
  TopKind kind_ STEPWATCH_GUARDED_BY(mutex_);
  std::optional<TopAnswers> answers_ STEPWATCH_GUARDED_BY(mutex_);
  bool asks_now_ STEPWATCH_GUARDED_BY(mutex_) = false;
  bool ends_ STEPWATCH_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace stepwatch::cli
