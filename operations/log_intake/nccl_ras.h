// Asks NCCL's RAS (since 2.24) about the state of the job on this machine. Its threads answer while the job hangs.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "controller/watch/loop_mailbox.h"
#include "src/base/io_executor.h"
#include "stepwatch/status.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

inline constexpr size_t kRasBytesMax = size_t{32} << 10;  // the rest of an answer is left out

// The answer to VERBOSE STATUS, as text that is safe to print. Blocks until the deadline at most. kNotFound: nobody
// listens there; kInvalid: it is no RAS.
Result<std::string> AskNcclRas(const std::string& address, std::chrono::steady_clock::time_point deadline);

// On the loop's thread.
class NcclRas {
 public:
  struct Options {
    std::string address;  // "localhost:28028"; empty: never ask
    std::chrono::seconds time{20};
    std::function<void(const std::string& run, const std::string& text)> report;
    std::function<void(const std::string& note)> log;
  };

  NcclRas(boost::asio::io_context& loop, Options options);
  ~NcclRas();
  NcclRas(const NcclRas&) = delete;
  NcclRas& operator=(const NcclRas&) = delete;

  // Asks about a run that is stuck, unless a question is under way already.
  void Ask(const std::string& run);

 private:
  const Options options_;
  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  base::IoThread thread_{"stepwatchd-ras"};
  bool is_asking_ = false;
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace stepwatch::operations
