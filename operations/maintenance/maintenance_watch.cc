#include "operations/maintenance/maintenance_watch.h"

#include <utility>

#include "operations/witness/run_program.h"
#include "src/base/found_file.h"
#include "src/base/pod_info.h"
#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kOutputBytesMax = size_t{1} << 20;
// A label has no end: its window lasts for this many intervals, and longer with each further look.
constexpr double kIntervalsOfLabel = 5;

// A failure has the reason.
Result<std::vector<MaintenanceWindow>> AskSlurm(const std::string& scontrol, const ProgramLimits& limits) {
  // Times in seconds, since those of the default format have no zone.
  const Result<ProgramOutput> ran =
      RunProgram({"/usr/bin/env", "SLURM_TIME_FORMAT=%s", scontrol, "--oneliner", "show", "reservation"}, limits);
  if (!ran.ok()) return ran.status();
  const ProgramOutput& output = ran.value();
  if (output.timed_out) return Status(StatusCode::kTimedOut, scontrol + " did not answer");
  if (output.exit_code != 0)
    return Status(StatusCode::kUnavailable, scontrol + " failed with exit code " + std::to_string(output.exit_code) +
                                                ": " + base::Printable(output.err, 200));
  return ReservationsIn(output.out);
}

}  // namespace

MaintenanceWatch::MaintenanceWatch(boost::asio::io_context& loop, Options options)
    : options_(std::move(options)), mailbox_(std::make_shared<watch::LoopMailbox>(loop)), timer_(loop) {}

MaintenanceWatch::~MaintenanceWatch() {
  mailbox_->Close();
  (void)::eventfd_write(stop_->get(), 1);
}

std::optional<std::vector<MaintenanceWindow>> MaintenanceWatch::windows() const {
  if (!is_known_) return std::nullopt;
  std::vector<MaintenanceWindow> windows = reserved_;
  windows.insert(windows.end(), labelled_.begin(), labelled_.end());
  return windows;
}

void MaintenanceWatch::Read() {
  const auto found = std::make_shared<Found>();
  const auto read = [this, alive = std::weak_ptr(alive_), found] {
    if (!alive.expired()) OnFound(std::move(*found));
  };
  const double now = options_.wall();
  const double label_seconds =
      kIntervalsOfLabel * std::chrono::duration<double>(options_.interval + options_.time_max).count();
  ProgramLimits limits;
  limits.time = options_.time_max;
  limits.bytes_max = kOutputBytesMax;
  limits.stop_fd = stop_->get();
  (void)thread_.Post([found, read, now, label_seconds, limits, stop = stop_, scontrol = options_.scontrol,
                      labels_file = options_.labels_file, mailbox = mailbox_] {
    if (!labels_file.empty()) {
      // A missing file has no label: kubelet removes none while the pod lives.
      const Result<std::string> text = base::ReadFound(labels_file, base::kPodInfoBytesMax, std::nullopt);
      if (text.ok()) found->labelled = LabelledIn(text.value(), now, now + label_seconds);
    }
    if (!scontrol.empty()) {
      Result<std::vector<MaintenanceWindow>> windows = AskSlurm(scontrol, limits);
      found->slurm = windows.status();
      if (windows.ok()) found->reserved = std::move(windows).value();
    }
    mailbox->Post(read);
  });
}

void MaintenanceWatch::OnFound(Found found) {
  is_known_ = is_known_ || found.slurm.ok();
  if (found.slurm.ok()) reserved_ = std::move(found.reserved);
  labelled_ = std::move(found.labelled);
  const std::string trouble = found.slurm.ok() ? "" : found.slurm.message();
  if (!trouble.empty() && trouble_.empty())
    options_.on_note("maintenance windows of Slurm cannot be read: " + trouble + "; those known stay until they end");
  if (trouble.empty() && !trouble_.empty()) options_.on_note("maintenance windows of Slurm are read again");
  trouble_ = trouble;
  options_.on_windows();
  timer_.After(options_.interval, [this] { Read(); });
}

}  // namespace stepwatch::operations
