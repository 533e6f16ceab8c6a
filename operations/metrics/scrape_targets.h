// The addresses that Prometheus scrapes, for its discovery by HTTP (http_sd) and by a file (file_sd).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/watch/loop_mailbox.h"
#include "operations/metrics/merge_expositions.h"
#include "src/base/io_executor.h"
#include "stepwatch/status.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

struct ScrapeTarget {
  std::string address;
  std::vector<std::pair<std::string, std::string>> labels;
};

// Names of this machine.
struct MachineNames {
  std::string host;
  std::string listens_as;  // the name that TCP clients may use; empty: none
};

// stepwatchd itself; empty if it has no TCP address. One that means all addresses is replaced by a name.
std::vector<ScrapeTarget> OwnTargets(const std::string& tcp_address, const MachineNames& names);
// The jobs with a control socket on TCP, by their status (answers to GET /v1/status). Sorted by address.
std::vector<ScrapeTarget> JobTargets(const JobPages& status, const MachineNames& names);

// The JSON that Prometheus reads, from HTTP and from a file.
std::string TargetsJson(const std::vector<ScrapeTarget>& targets);

// Keeps a file equal to the newest text, on a thread of its own. On the loop's thread.
class TargetsFile {
 public:
  // `on_trouble` is called from the loop when a write fails for the first time, or again after it has succeeded.
  TargetsFile(boost::asio::io_context& loop, std::string path, std::function<void(const Status&)> on_trouble);
  ~TargetsFile();
  TargetsFile(const TargetsFile&) = delete;
  TargetsFile& operator=(const TargetsFile&) = delete;

  // Replaces the file whole if the text has changed since it was last written.
  void Write(std::string text);

 private:
  struct Shared;

  const std::string path_;
  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  const std::shared_ptr<Shared> shared_;  // changed on the loop's thread
  base::IoThread thread_{"stepwatchd-sd"};
};

}  // namespace stepwatch::operations
