// Sends records to Elasticsearch or an OTLP collector. Each record goes through a spool on disk, so that neither a
// receiver that is away nor a kill of this process loses any; a batch that was being sent is then sent again.
//
// All methods run on the thread of `loop`; files have a thread of their own, and requests the transport's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "controller/watch/loop_mailbox.h"
#include "operations/delivery/transport.h"
#include "operations/logs/outputs/output.h"
#include "operations/logs/outputs/output_settings.h"
#include "operations/logs/outputs/protocol.h"
#include "src/base/file_system.h"
#include "src/base/io_executor.h"
#include "src/base/retry.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations::outputs {

struct HttpOutputOptions {
  OutputSettings settings;
  std::string directory;                     // of the spool
  delivery::Transport* transport = nullptr;  // must outlive the output
  std::function<double()> dice = {};         // from 0 to 1
  // Trouble, once until it is over; rejected records, once a minute.
  std::function<void(const std::string&)> log;
  base::FileSystem* files = &base::FileSystem::Real();
};

class HttpOutput final : public Output {
 public:
  static constexpr size_t kRequestBytesMax = size_t{1} << 20;
  static constexpr double kPauseSecondsMax = 60;
  static constexpr double kAskedPauseSecondsMax = 3600;
  // Failures of the same request with status 500, or 200 without a result, after which it is split: one record may be
  // the cause.
  static constexpr int kServerFaultsMax = 8;

  HttpOutput(boost::asio::io_context& loop, HttpOutputOptions options);
  // Spools waiting records, for two seconds at most.
  ~HttpOutput() override;
  HttpOutput(const HttpOutput&) = delete;
  HttpOutput& operator=(const HttpOutput&) = delete;

  void Add(std::string_view id, std::string_view json) override;
  void Tick(double running) override;
  OutputCounts counts() const override;
  int64_t safe() const override { return safe_; }

 private:
  class Disk;
  struct Looked;
  void Work();
  void OnLooked(Looked looked);
  void TakeBack(std::string lines);
  void Send(delivery::Outgoing request);
  void OnReply(const delivery::Reply& reply);
  void Take(const Outcome& outcome);
  void SendLess(const Outcome& outcome);
  void Pause(const Outcome& outcome);
  void Report(const std::string& why);

  const HttpOutputOptions options_;
  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  const std::shared_ptr<Disk> disk_;  // shared with work that hangs
  std::string pending_;
  std::string batch_;          // the rest of a file of the spool
  int64_t batch_number_ = -1;  // of the file; -1: there is no batch
  std::string piece_;          // the part of `batch_` in the request
  size_t piece_bytes_max_ = kRequestBytesMax;
  bool is_disk_busy_ = false;
  bool is_sending_ = false;
  bool in_trouble_ = false;
  bool in_disk_trouble_ = false;
  double rejection_logged_ = -1e9;  // never
  int server_faults_ = 0;
  base::Retry retry_{1, kPauseSecondsMax};
  double next_ = 0;
  double running_ = 0;
  OutputCounts counts_;
  int64_t safe_ = 0;
  int64_t unsafe_ = 0;  // records of a batch that is in no file of the spool
  int64_t pending_dropped_bytes_ = 0;
  base::IoThread thread_{"stepwatch-logs"};
};

}  // namespace stepwatch::operations::outputs
