#include "operations/discovery/left_ends.h"

#include <cmath>
#include <utility>

namespace stepwatch::operations {
namespace {

constexpr double kReadSecondsMax = 1;

}  // namespace

LeftEnds::LeftEnds(base::IoExecutor& files_thread, std::shared_ptr<watch::LoopMailbox> mailbox,
                   std::vector<std::string> directories, base::FileSystem& files, Found found)
    : thread_(files_thread),
      mailbox_(std::move(mailbox)),
      directories_(std::move(directories)),
      files_(files),
      found_(std::move(found)) {}

void LeftEnds::Find(const KnownProcess& process, double now) {
  waiting_.push_back(process);
  if (!reading_) Read(now);
}

void LeftEnds::Tick(double now) {
  if (reading_ && std::abs(now - asked_at_) > kReadSecondsMax) Report({});
  if (!reading_ && !waiting_.empty()) Read(now);
}

void LeftEnds::Read(double now) {
  asked_ = std::exchange(waiting_, {});
  asked_at_ = now;
  reading_ = std::make_shared<const bool>(true);
  const auto ends = std::make_shared<std::vector<control_socket::LeftEnd>>();
  // The answer is dropped if this object was destroyed, or no longer waits.
  const auto report = [this, ends, reading = std::weak_ptr(reading_)] {
    if (!reading.expired()) Report(*ends);
  };
  const bool is_posted = thread_.Post([directories = directories_, files = &files_, ends, mailbox = mailbox_, report] {
    for (const std::string& directory : directories)
      for (control_socket::LeftEnd& end : control_socket::ReadLeftEnds(directory, *files))
        ends->push_back(std::move(end));
    mailbox->Post(report);
  });
  if (!is_posted) Report({});
}

void LeftEnds::Report(const std::vector<control_socket::LeftEnd>& ends) {
  reading_.reset();
  for (const KnownProcess& process : std::exchange(asked_, {})) found_(process, ends);
}

}  // namespace stepwatch::operations
