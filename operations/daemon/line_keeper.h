// Keeps each line: numbered in the store, and for the upstream if there is one.
//
// On the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "operations/daemon/daemon_settings.h"
#include "operations/daemon/upstream.h"
#include "operations/store/store_queue.h"
#include "operations/vocabulary/line.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

class Log;
class LossLog;

class LineKeeper {
 public:
  // Pointers must outlive it. `directory`: of lines that wait for the upstream; `wall`: the clock.
  LineKeeper(boost::asio::io_context& loop, std::string directory, std::function<double()> wall, StoreQueue* store,
             Log* log, LossLog* losses);

  // Begins to send lines on if the settings name an upstream. The error: its address is invalid.
  Status Open(const UpstreamSettings& settings);
  // Likewise at run time: the lines that wait go to the new upstream.
  void Apply(const UpstreamSettings& settings);
  // Ends the sending; lines that wait stay on disk.
  void Stop() { upstream_.reset(); }
  // About once a second; `running`: seconds of a clock that is never set.
  void Tick(double running);

  // `is_ours`: a step of our own clock, which concerns no other stepwatchd.
  void Keep(const Line& line, bool is_ours);
  // Later lines have numbers after this one.
  void CountFrom(int64_t number);
  Upstream::Counts counts() const { return upstream_ ? upstream_->counts() : Upstream::Counts(); }

 private:
  boost::asio::io_context& loop_;
  const std::string directory_;
  const std::function<double()> wall_;
  StoreQueue& store_;
  Log& log_;
  LossLog& losses_;
  std::unique_ptr<Upstream> upstream_;  // null without an upstream
  int64_t number_ = 0;                  // of the last line
};

}  // namespace stepwatch::operations
