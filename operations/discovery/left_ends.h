// Finds the last words of processes whose end was not seen, in files beside their control sockets.
//
// Another thread reads the files. If a directory hangs, the answer comes late and lacks its files.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "controller/control_socket/left_end.h"
#include "controller/watch/loop_mailbox.h"
#include "operations/vocabulary/known_process.h"
#include "src/base/io_executor.h"

namespace stepwatch::operations {

// Lives on the loop's thread.
class LeftEnds {
 public:
  using Found = std::function<void(const KnownProcess& process, const std::vector<control_socket::LeftEnd>& ends)>;

  // `found` is called from the loop, once for each process, with all files that were left.
  LeftEnds(base::IoExecutor& files_thread, std::shared_ptr<watch::LoopMailbox> mailbox,
           std::vector<std::string> directories, base::FileSystem& files, Found found);

  void Find(const KnownProcess& process, double now);
  // A few times a second.
  void Tick(double now);

 private:
  void Read(double now);
  void Report(const std::vector<control_socket::LeftEnd>& ends);

  base::IoExecutor& thread_;
  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  const std::vector<std::string> directories_;
  base::FileSystem& files_;
  const Found found_;
  std::vector<KnownProcess> waiting_;
  std::vector<KnownProcess> asked_;  // for which the running read is made
  double asked_at_ = 0;
  std::shared_ptr<const bool> reading_;  // null: no read is running
};

}  // namespace stepwatch::operations
