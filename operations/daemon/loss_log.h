// Logs that data was dropped because a limit was reached: each kind of loss once; the metrics count every time.
#pragma once

#include <cstddef>
#include <set>
#include <string>

namespace stepwatch::operations {

class Log;

class LossLog {
 public:
  // The log must outlive it.
  explicit LossLog(Log* log) : log_(*log) {}

  void Write(const std::string& what);

 private:
  static constexpr size_t kMax = 100;

  Log& log_;
  std::set<std::string> logged_;
};

}  // namespace stepwatch::operations
