// Reads the journal of systemd on a thread of its own, one batch after the other, and keeps the position in the state
// directory once the records of a batch are safe.
//
// On the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "controller/watch/loop_mailbox.h"
#include "operations/log_intake/sent_line_reader.h"
#include "operations/log_intake/systemd_journal.h"
#include "src/base/io_executor.h"

namespace stepwatch::operations {

class JournalReader {
 public:
  struct Options {
    JournalOptions journal;
    std::string cursor_file;
    std::function<void(const std::string& note)> log;
  };

  // `reader` must outlive it.
  JournalReader(boost::asio::io_context& loop, Options options, SentLineReader* reader);
  ~JournalReader();
  JournalReader(const JournalReader&) = delete;
  JournalReader& operator=(const JournalReader&) = delete;

  // About once a second.
  void Tick();

 private:
  struct Shared;

  void Read();
  void OnBatch();
  void Pass();

  const Options options_;
  SentLineReader& reader_;
  const std::shared_ptr<Shared> shared_;
  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  base::IoThread thread_{"stepwatchd-jrnl"};
  bool is_busy_ = false;     // a batch is read, or on its way
  bool is_waiting_ = false;  // a batch waits for room in the reader
  std::string last_note_;
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace stepwatch::operations
