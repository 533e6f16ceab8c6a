// A separate stepwatchd for a benchmark.
#pragma once

#include <sys/types.h>

#include <string>

namespace stepwatch::bench {

class StepwatchdProcess {
 public:
  // Starts the program with its state and its socket in `directory`. It looks for jobs in the directory of this
  // process's control sockets.
  StepwatchdProcess(const std::string& program, const std::string& directory);
  // Kills the process.
  ~StepwatchdProcess();
  StepwatchdProcess(const StepwatchdProcess&) = delete;
  StepwatchdProcess& operator=(const StepwatchdProcess&) = delete;

  // Waits until it responds and has found this many runs; throws after a timeout.
  void AwaitRuns(int runs) const;
  // Stops the process while its connections stay open.
  void Hang() const;

 private:
  const std::string socket_;
  pid_t pid_ = -1;
};

}  // namespace stepwatch::bench
