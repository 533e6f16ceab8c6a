#include "operations/logs/outputs/file_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "operations/store/spool.h"
#include "src/base/found_file.h"
#include "stepwatch/status.h"

namespace stepwatch::operations::outputs {
namespace {

constexpr std::chrono::seconds kLastWriteTime{2};
constexpr size_t kWriteBytesMax = size_t{1} << 20;
constexpr mode_t kFileMode = 0640;

}  // namespace

struct FileOutput::Written {
  Status status;
  std::string unwritten;
  int64_t records = 0;
};

// The part that runs on the thread.
class FileOutput::Writer {
 public:
  Writer(OutputSettings settings, base::FileSystem& files) : settings_(std::move(settings)), files_(files) {}

  Written Write(std::string_view lines) {
    Written written;
    while (!lines.empty() && written.status.ok()) {
      const std::string_view some = FirstLines(lines, kWriteBytesMax);
      written.status = Append(some);
      if (!written.status.ok()) break;
      written.records += std::count(some.begin(), some.end(), '\n');
      lines.remove_prefix(some.size());
    }
    written.unwritten = std::string(lines);
    return written;
  }

 private:
  // Opened for each write: somebody may have moved or removed the file.
  Status Append(std::string_view lines) {
    const std::string& path = settings_.path;
    Result<base::UniqueFd> file = OpenIt();
    if (!file.ok()) return file.status();
    struct stat about {};
    if (files_.Fstat(file.value().get(), &about) != 0) return base::ErrnoStatus("cannot look at", path, errno);
    if (about.st_size > 0 && about.st_size + static_cast<off_t>(lines.size()) > settings_.file_mib << 20) {
      Rotate();
      file = OpenIt();
      if (!file.ok()) return file.status();
      if (files_.Fstat(file.value().get(), &about) != 0) return base::ErrnoStatus("cannot look at", path, errno);
    }
    const bool is_half = !std::exchange(is_checked_, true) && EndsInHalfALine(file.value().get(), about.st_size);
    const Status written = base::WriteAll(file.value().get(), is_half ? "\n" + std::string(lines) : lines, files_);
    // A half-written batch is removed; it is written again.
    if (!written.ok()) (void)files_.Truncate(file.value().get(), about.st_size);
    return written;
  }

  Result<base::UniqueFd> OpenIt() {
    return base::OpenFound(settings_.path, O_RDWR | O_CREAT | O_APPEND, ::geteuid(), files_, kFileMode);
  }

  bool EndsInHalfALine(int fd, off_t size) {
    char last = '\n';
    return size > 0 && files_.Read(fd, &last, 1, size - 1) == 1 && last != '\n';
  }

  void Rotate() {
    const auto name = [&](int64_t i) { return i == 0 ? settings_.path : settings_.path + "." + std::to_string(i); };
    // A failed rename leaves the file, which then grows until one succeeds.
    if (settings_.files == 1) (void)files_.Unlink(settings_.path.c_str());
    for (int64_t i = settings_.files - 1; i > 0; --i) (void)files_.Rename(name(i - 1).c_str(), name(i).c_str());
  }

  const OutputSettings settings_;
  base::FileSystem& files_;
  bool is_checked_ = false;
};

FileOutput::FileOutput(boost::asio::io_context& loop, FileOutputOptions options)
    : options_(std::move(options)),
      mailbox_(std::make_shared<watch::LoopMailbox>(loop)),
      writer_(std::make_shared<Writer>(options_.settings, *options_.files)) {}

FileOutput::~FileOutput() {
  mailbox_->Close();
  if (!pending_.empty())
    (void)thread_.Post([writer = writer_, lines = std::move(pending_)] { (void)writer->Write(lines); });
  (void)thread_.Stop(base::IoThread::Clock::now() + kLastWriteTime);
}

void FileOutput::Add(std::string_view /*id*/, std::string_view json) {
  for (const char c : json) pending_ += c == '\n' ? ' ' : c;
  pending_ += '\n';
  ++counts_.taken;
  safe_ += DropOldest(&pending_, &counts_.dropped_bytes);
  if (pending_.size() > kWriteBytesMax) Write();
}

void FileOutput::Tick(double running) {
  running_ = running;
  Write();
}

void FileOutput::Write() {
  if (is_writing_ || pending_.empty() || running_ < next_) return;
  const auto write = [this, writer = writer_, mailbox = mailbox_, alive = std::weak_ptr<bool>(alive_),
                      lines = std::make_shared<std::string>(std::exchange(pending_, {}))] {
    auto written = std::make_shared<Written>(writer->Write(*lines));
    mailbox->Post([this, alive, written] {
      if (!alive.expired()) OnWritten(std::move(*written));
    });
  };
  is_writing_ = thread_.Post(write);
}

void FileOutput::OnWritten(Written written) {
  is_writing_ = false;
  counts_.accepted += written.records;
  safe_ += written.records;
  pending_.insert(0, written.unwritten);
  safe_ += DropOldest(&pending_, &counts_.dropped_bytes);
  if (written.status.ok()) {
    retry_.Reset();
    in_trouble_ = false;
    return;
  }
  ++counts_.failures;
  next_ = running_ + retry_.Next();
  if (!std::exchange(in_trouble_, true)) options_.log(written.status.message());
}

OutputCounts FileOutput::counts() const {
  OutputCounts counts = counts_;
  counts.waiting_bytes = static_cast<int64_t>(pending_.size());
  return counts;
}

}  // namespace stepwatch::operations::outputs
