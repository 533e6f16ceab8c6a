// Recognises lines that others send, on a thread of its own, and passes their records on.
//
// On the loop's thread, except for the thread inside. At most kBytesMax bytes are on the way: a source waits, or sends
// its client away, until the records of earlier ones are safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/watch/loop_mailbox.h"
#include "operations/log_intake/lazy_recogniser.h"
#include "operations/log_intake/log_records.h"
#include "operations/log_intake/sent_line.h"
#include "src/base/io_executor.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

// The runs and ranks of processes on this machine, by their ids.
using ProcessesOfRuns = std::map<int64_t, std::pair<std::string, int64_t>>;

struct SentLineReaderOptions {
  std::shared_ptr<LazyRecogniser> recogniser;
  std::function<double()> wall;  // seconds; any thread
  // Patterns of paths that name runs or ranks, see operations/logs/file_pattern.h.
  std::vector<std::string> paths;
  std::function<void(std::vector<RunRecord> records, std::function<void()> then)> take;
  std::function<ProcessesOfRuns()> processes;
  // False: another part of stepwatchd reports what the driver of the GPUs writes to the kernel's log.
  std::function<bool()> reports_xids = [] { return true; };
};

class SentLineReader {
 public:
  static constexpr size_t kBytesMax = size_t{32} << 20;

  struct Work {
    size_t bytes = 0;
    std::function<std::vector<SentLine>()> lines;  // called on the thread of the reader
    std::function<void()> on_read = {};            // the lines were read, and others may follow
    std::function<void()> then = {};               // the records are safe, see LogRecords::Take
  };

  SentLineReader(boost::asio::io_context& loop, SentLineReaderOptions options);
  ~SentLineReader() { Stop(); }
  SentLineReader(const SentLineReader&) = delete;
  SentLineReader& operator=(const SentLineReader&) = delete;

  // False: too many bytes are on the way, and the work is not taken.
  bool Take(Work work);
  // About once a second: passes on what waited for its last line.
  void Tick();
  // Passes on all that was taken, within seconds, and takes nothing more.
  void Stop();

  bool is_full() const { return bytes_ >= kBytesMax; }
  int64_t lines() const { return lines_; }
  int64_t repeated() const { return repeated_; }

 private:
  class State;
  // Results that the loop has not seen yet.
  struct Results;
  struct Read {
    std::vector<RunRecord> records;
    std::vector<int64_t> pids;  // of each record; 0: unknown
    int64_t lines = 0;
    int64_t repeated = 0;
  };

  // Runs `work` on the thread, and passes its results on, one in a turn of the loop; the last one with `rest`.
  bool Post(std::function<std::vector<Read>()> work, Work rest);
  // False: no result waits.
  bool TakeResult();
  void OnRead(Read* read, size_t bytes, std::function<void()> then);

  const SentLineReaderOptions options_;
  const std::shared_ptr<State> state_;
  const std::shared_ptr<Results> results_;
  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  base::IoThread thread_{"stepwatchd-logs"};
  bool is_stopped_ = false;
  bool is_flushing_ = false;
  int flushes_left_ = 0;  // until nothing waits for its last line any more
  size_t bytes_ = 0;
  int64_t lines_ = 0;
  int64_t repeated_ = 0;
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

// The process that a line of the kernel is about: "Killed process 12 (python)", "Xid (PCI:...): 31, pid=12, ...". Pure.
std::optional<int64_t> ProcessInKernelText(std::string_view message);

}  // namespace stepwatch::operations
