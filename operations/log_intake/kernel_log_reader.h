// Passes on the records of the kernel's log, once a second.
//
// On the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "controller/watch/loop_mailbox.h"
#include "operations/log_intake/kernel_records.h"
#include "operations/log_intake/sent_line_reader.h"
#include "src/base/io_executor.h"

namespace stepwatch::operations {

class KernelLogReader {
 public:
  struct Options {
    std::string position_file;
    std::function<double()> wall;  // any thread
    std::function<void(const std::string& note)> log;
    base::FileSystem* files = &base::FileSystem::Real();  // of the device
  };

  // `reader` must outlive it.
  KernelLogReader(boost::asio::io_context& loop, Options options, SentLineReader* reader);
  ~KernelLogReader();
  KernelLogReader(const KernelLogReader&) = delete;
  KernelLogReader& operator=(const KernelLogReader&) = delete;

  // About once a second.
  void Tick();
  int64_t overruns() const { return overruns_; }

 private:
  struct Shared;

  void Read();
  void OnBatch();
  void Pass();

  const Options options_;
  SentLineReader& reader_;
  const std::shared_ptr<Shared> shared_;
  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  base::IoThread thread_{"stepwatchd-klog"};
  bool is_busy_ = false;     // a batch is read, or on its way
  bool is_waiting_ = false;  // a batch waits for room in the reader
  int64_t overruns_ = 0;
  std::string last_note_;
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace stepwatch::operations
