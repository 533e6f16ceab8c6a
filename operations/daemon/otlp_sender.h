// Sends the metrics to a collector by OTLP/HTTP: the newest ones only, so that nothing waits while it is away.
//
// All methods run on the thread of `loop`; files and network have a thread of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "controller/watch/loop_mailbox.h"
#include "operations/daemon/post.h"
#include "src/base/io_executor.h"
#include "src/base/retry.h"
#include "stepwatch/status.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

struct OtlpOptions {
  UpstreamAddress address;
  std::string headers_file;  // empty: none; read before each request
  double seconds = 15;       // between two requests
  // Why the collector accepts no metrics: once, until it accepts some again.
  std::function<void(const std::string& why)> on_trouble;
};

class OtlpSender {
 public:
  static constexpr size_t kBodyBytesMax = size_t{16} << 20;

  OtlpSender(boost::asio::io_context& loop, OtlpOptions options);
  ~OtlpSender();
  OtlpSender(const OtlpSender&) = delete;
  OtlpSender& operator=(const OtlpSender&) = delete;

  // About once a second; `running`: seconds of a clock that is never set. `make_body` is called if a request is due.
  void Tick(double running, const std::function<std::string()>& make_body);
  int64_t sent() const { return sent_; }
  int64_t failed() const { return failed_; }

 private:
  void OnDone(const Status& status);

  const OtlpOptions options_;
  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  base::Retry retry_{1, 60};
  std::minstd_rand dice_{std::random_device{}()};
  bool is_sending_ = false;
  bool in_trouble_ = false;
  double next_ = 0;
  double running_ = 0;
  int64_t sent_ = 0;
  int64_t failed_ = 0;
  base::IoThread thread_{"stepwatchd-otlp"};
};

}  // namespace stepwatch::operations
