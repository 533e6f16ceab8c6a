#include "operations/log_intake/kernel_log_reader.h"

#include <chrono>
#include <ctime>
#include <optional>
#include <utility>

#include "src/base/file.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kPositionBytesMax = 256;

// The clock of the kernel's records, as near as a process can read it.
double SinceBoot() {
  std::timespec now{};
  (void)::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

}  // namespace

// The thread has it while a batch is read, the loop in between.
struct KernelLogReader::Shared {
  std::optional<KernelRecords> records;
  std::string position;  // to be kept; empty: nothing new
  KernelBatch batch;
  std::string note;
};

KernelLogReader::KernelLogReader(boost::asio::io_context& loop, Options options, SentLineReader* reader)
    : options_(std::move(options)),
      reader_(*reader),
      shared_(std::make_shared<Shared>()),
      mailbox_(std::make_shared<watch::LoopMailbox>(loop)) {
  Read();
}

KernelLogReader::~KernelLogReader() {
  constexpr std::chrono::seconds kStopTime{1};
  mailbox_->Close();
  (void)thread_.Stop(base::IoThread::Clock::now() + kStopTime);
}

void KernelLogReader::Tick() {
  if (std::exchange(is_waiting_, false)) return Pass();
  if (!is_busy_) Read();
}

void KernelLogReader::Read() {
  const auto done = [this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) OnBatch();
  };
  is_busy_ = thread_.Post([shared = shared_, options = options_, mailbox = mailbox_, done] {
    Shared& s = *shared;
    s.note.clear();
    if (!s.position.empty()) {
      const Status kept = base::ReplaceFile(options.position_file, std::exchange(s.position, {}));
      if (!kept.ok()) s.note = "the position in the kernel's log cannot be kept: " + kept.message();
    }
    if (!s.records) {
      const Result<std::string> position = base::ReadFile(options.position_file, kPositionBytesMax);
      s.records.emplace(position.ok() ? position.value() : "", *options.files);
    }
    s.batch = s.records->Read(options.wall(), SinceBoot());
    if (!s.batch.is_readable)
      s.note = std::string("logs.kmsg: ") + KernelRecords::kDevice +
               " cannot be opened for reading; stepwatchd needs the capability CAP_SYSLOG, or a kernel with "
               "dmesg_restrict = 0; it is retried every second";
    mailbox->Post(done);
  });
}

void KernelLogReader::OnBatch() {
  overruns_ += shared_->batch.overruns;
  if (!shared_->note.empty() && shared_->note != std::exchange(last_note_, shared_->note)) options_.log(shared_->note);
  if (shared_->batch.lines.empty())
    is_busy_ = false;
  else
    Pass();
}

void KernelLogReader::Pass() {
  SentLineReader::Work work;
  work.bytes = shared_->batch.bytes;
  work.lines = [lines = shared_->batch.lines] { return lines; };
  work.then = [this, position = shared_->batch.position, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    shared_->position = position;
    is_busy_ = false;
    Read();
  };
  is_waiting_ = !reader_.Take(std::move(work));
}

}  // namespace stepwatch::operations
