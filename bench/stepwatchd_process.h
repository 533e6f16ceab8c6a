// A stepwatchd of a benchmark's own.
#pragma once

#include <sys/types.h>

#include <string>

namespace stepwatch::bench {

class StepwatchdProcess {
 public:
  // Starts the program with its state and its socket in `directory`. It looks for jobs where this process opens control
  // sockets.
  StepwatchdProcess(const std::string& program, const std::string& directory);
  // Kills it.
  ~StepwatchdProcess();
  StepwatchdProcess(const StepwatchdProcess&) = delete;
  StepwatchdProcess& operator=(const StepwatchdProcess&) = delete;

  // It answers, and has found so many runs; throws if it does not.
  void AwaitRuns(int runs) const;
  // It hangs, with its connections open.
  void Hang() const;

 private:
  const std::string socket_;
  pid_t pid_ = -1;
};

}  // namespace stepwatch::bench
