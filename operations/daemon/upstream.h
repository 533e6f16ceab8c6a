// Sends lines on to another stepwatchd, in order, and keeps them on disk while it is away.
//
// Lines leave about once a second. Accepted lines may be sent again after a kill of either side; observers count a
// repeated beat once. All methods run on the thread of `loop`; files and network have a thread of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>

#include "controller/watch/loop_mailbox.h"
#include "operations/daemon/post.h"
#include "operations/store/spool.h"
#include "src/base/io_executor.h"
#include "src/base/retry.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

// The destination of lines, and the number that waits on disk.
struct UpstreamTarget {
  UpstreamAddress address;
  std::string token_file;  // empty: not shown
  int64_t spool_bytes = int64_t{256} << 20;
};

struct UpstreamOptions {
  UpstreamTarget target;
  std::string directory;                               // of the spool
  std::function<double()> wall;                        // now
  std::function<void(const std::string&)> on_trouble;  // why it accepts no lines: once, until it accepts again
  std::function<void()> on_recovery;
  std::function<void(const std::string&)> on_loss = {};  // why lines are dropped: each time
};

class Upstream {
 public:
  // Lines that wait in memory for the thread; beyond this the oldest are dropped.
  static constexpr size_t kPendingBytesMax = size_t{16} << 20;
  // The body of one request: far below the limit of a stepwatchd.
  static constexpr size_t kPostBytesMax = size_t{1} << 20;
  static constexpr double kPauseSecondsMax = 60;

  struct Counts {
    int64_t waiting_bytes = 0;
    int64_t dropped_bytes = 0;
  };

  Upstream(boost::asio::io_context& loop, UpstreamOptions options);
  // Spools waiting lines, for two seconds at most.
  ~Upstream();
  Upstream(const Upstream&) = delete;
  Upstream& operator=(const Upstream&) = delete;

  // One line, without its newline.
  void Add(const std::string& line);
  // From now on sends waiting and later lines there.
  void SetTarget(UpstreamTarget target);
  // About once a second; `running`: seconds of a clock that is never set.
  void Tick(double running);
  Counts counts() const;

 private:
  class Sender;
  struct Sent {
    Status status;
    bool has_tried = false;
    std::string unspooled;  // that could not be written either
    int64_t waiting_bytes = 0;
    int64_t dropped_bytes = 0;
    std::string loss;  // why some were dropped; empty: no drops
  };
  void OnSent(Sent sent);
  void Bound();

  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  const std::function<void(const std::string&)> on_trouble_;
  const std::function<void()> on_recovery_;
  const std::function<void(const std::string&)> on_loss_;
  const std::shared_ptr<Sender> sender_;  // shared with work that hangs
  std::string pending_;
  bool is_sending_ = false;
  bool in_trouble_ = false;
  base::Retry retry_{1, kPauseSecondsMax};
  double next_ = 0;
  double running_ = 0;
  Counts counts_;                // as counted by the thread
  int64_t pending_dropped_ = 0;  // bytes that never reached it
  std::minstd_rand dice_{std::random_device{}()};
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  base::IoThread thread_{"stepwatch-up"};
};

}  // namespace stepwatch::operations
