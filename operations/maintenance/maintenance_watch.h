// Reads the maintenance windows of the scheduler now and then.
//
// On the loop's thread. A thread of its own runs scontrol and reads the file, so that neither delays an answer.
#pragma once

#include <sys/eventfd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/watch/loop_mailbox.h"
#include "controller/watch/timer.h"
#include "operations/maintenance/windows.h"
#include "src/base/file.h"
#include "src/base/io_executor.h"
#include "stepwatch/status.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

class MaintenanceWatch {
 public:
  struct Options {
    std::string scontrol;     // the path of the program; empty: Slurm is not asked
    std::string labels_file;  // of Kubernetes' downward API; empty: none
    std::chrono::milliseconds interval{60000};
    std::chrono::milliseconds time_max{10000};  // of scontrol
    std::function<double()> wall;
    std::function<void(const std::string& note)> on_note;
    std::function<void()> on_windows;  // they have been read
  };

  MaintenanceWatch(boost::asio::io_context& loop, Options options);
  ~MaintenanceWatch();
  MaintenanceWatch(const MaintenanceWatch&) = delete;
  MaintenanceWatch& operator=(const MaintenanceWatch&) = delete;

  void Start() { Read(); }
  // Those read last; nullopt: none have been read yet. While Slurm does not answer, its windows stay until they end.
  std::optional<std::vector<MaintenanceWindow>> windows() const;

 private:
  struct Found {
    Status slurm;
    std::vector<MaintenanceWindow> reserved, labelled;
  };

  void Read();
  void OnFound(Found found);

  const Options options_;
  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  const std::shared_ptr<const base::UniqueFd> stop_ =
      std::make_shared<const base::UniqueFd>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  base::IoThread thread_{"stepwatchd-plan"};
  watch::Timer timer_;
  std::string trouble_;
  bool is_known_ = false;
  std::vector<MaintenanceWindow> reserved_, labelled_;
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace stepwatch::operations
