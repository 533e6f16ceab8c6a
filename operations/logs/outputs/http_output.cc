#include "operations/logs/outputs/http_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "operations/delivery/headers.h"
#include "operations/store/spool.h"
#include "src/base/found_file.h"

namespace stepwatch::operations::outputs {
namespace {

constexpr std::chrono::seconds kSpoolTime{2};
constexpr double kRejectionPauseSeconds = 60;
constexpr size_t kHeaderFileBytesMax = size_t{16} << 10;

// The headers of a request, read from their files right before it.
Result<std::vector<std::string>> ReadHeaders(const OutputSettings& settings, base::FileSystem& files) {
  std::vector<std::string> headers;
  const auto add = [&](const std::string& path, bool is_key) -> Status {
    if (path.empty()) return Status();
    const Result<std::string> text = base::ReadFound(path, kHeaderFileBytesMax, std::nullopt, files);
    if (!text.ok()) return text.status();
    const auto parsed = delivery::ParseHeaders(is_key ? "Authorization: ApiKey " + text.value() : text.value());
    if (!parsed.ok()) return Status(StatusCode::kInvalid, path + ": " + parsed.status().message());
    for (const auto& [name, value] : parsed.value()) headers.push_back(name + ": " + value);
    return Status();
  };
  if (Status read = add(settings.api_key_file, true); !read.ok()) return read;
  if (Status read = add(settings.headers_file, false); !read.ok()) return read;
  return headers;
}

}  // namespace

// The result of a look at the disk.
struct HttpOutput::Looked {
  bool may_send = false;  // the headers were read
  Status spool;
  Status secrets;
  std::string unspooled;  // lines that could not be written
  int64_t spooled = 0;    // lines written
  std::string batch;
  int64_t batch_number = -1;
  std::vector<std::string> headers;
  int64_t waiting_bytes = 0;
  int64_t dropped_bytes = 0;
};

// The part that runs on the thread.
class HttpOutput::Disk {
 public:
  Disk(OutputSettings settings, std::string directory, base::FileSystem& files)
      : settings_(std::move(settings)), files_(files), spool_(std::move(directory), settings_.spool_mib << 20, files) {}

  // Spools lines, removes the file of number `done`, and reads the next one if `wants_batch`.
  Looked Look(const std::string& lines, int64_t done, bool wants_batch, bool wants_headers) {
    Looked looked;
    looked.may_send = wants_headers;
    if (!is_open_) {
      looked.spool = spool_.Open();
      is_open_ = looked.spool.ok();
    }
    if (done >= 0 && !spool_.empty() && spool_.oldest_number() == done) spool_.RemoveOldest();
    Append(lines, &looked);
    while (wants_batch && !spool_.empty() && looked.batch.empty()) ReadOldest(&looked);
    if (wants_headers) {
      Result<std::vector<std::string>> headers = ReadHeaders(settings_, files_);
      if (!headers.ok())
        looked.secrets = headers.status();
      else
        looked.headers = std::move(headers).value();
    }
    looked.waiting_bytes = spool_.bytes();
    looked.dropped_bytes = spool_.bytes_dropped() + unread_bytes_;
    return looked;
  }

 private:
  void Append(std::string_view rest, Looked* looked) {
    while (!rest.empty()) {
      const std::string_view some = FirstLines(rest, static_cast<size_t>(Spool::kFileBytesMax));
      if (Status spooled = is_open_ ? spool_.Append(some) : looked->spool; !spooled.ok()) {
        looked->spool = std::move(spooled);
        looked->unspooled = std::string(rest);
        return;
      }
      looked->spooled += std::count(some.begin(), some.end(), '\n');
      rest.remove_prefix(some.size());
    }
  }

  void ReadOldest(Looked* looked) {
    const Result<std::string> oldest = spool_.Oldest();
    spool_.Seal();
    looked->batch_number = spool_.oldest_number();
    // The file of a killed process may end in half a line.
    if (oldest.ok())
      for (const EntryView& entry : EntriesOf(oldest.value())) looked->batch += LineOf(entry.id, entry.json);
    else
      looked->spool = oldest.status();
    if (!looked->batch.empty()) return;
    unread_bytes_ += spool_.oldest_bytes();
    spool_.RemoveOldest();
  }

  const OutputSettings settings_;
  base::FileSystem& files_;
  Spool spool_;
  bool is_open_ = false;
  int64_t unread_bytes_ = 0;
};

HttpOutput::HttpOutput(boost::asio::io_context& loop, HttpOutputOptions options)
    : options_(std::move(options)),
      mailbox_(std::make_shared<watch::LoopMailbox>(loop)),
      disk_(std::make_shared<Disk>(options_.settings, options_.directory, *options_.files)) {}

HttpOutput::~HttpOutput() {
  mailbox_->Close();
  if (unsafe_ > 0) pending_.insert(0, batch_);
  if (!pending_.empty())
    (void)thread_.Post([disk = disk_, lines = std::move(pending_)] { (void)disk->Look(lines, -1, false, false); });
  (void)thread_.Stop(base::IoThread::Clock::now() + kSpoolTime);
}

void HttpOutput::Add(std::string_view id, std::string_view json) {
  pending_ += LineOf(id, json);
  ++counts_.taken;
  safe_ += DropOldest(&pending_, &pending_dropped_bytes_);
  // Many records arrive at a time when a log is caught up with.
  if (pending_.size() > kRequestBytesMax) Work();
}

void HttpOutput::Tick(double running) {
  running_ = running;
  Work();
}

void HttpOutput::Work() {
  if (is_disk_busy_) return;
  const bool may_send = !is_sending_ && running_ >= next_;
  const bool wants_batch = may_send && batch_.empty();
  const int64_t done = batch_.empty() ? std::exchange(batch_number_, -1) : -1;
  if (pending_.empty() && !may_send && done < 0) return;
  const auto look = [this, disk = disk_, mailbox = mailbox_, alive = std::weak_ptr<bool>(alive_), done, wants_batch,
                     may_send, lines = std::make_shared<std::string>(std::exchange(pending_, {}))] {
    auto looked = std::make_shared<Looked>(disk->Look(*lines, done, wants_batch, may_send));
    mailbox->Post([this, alive, looked] {
      if (!alive.expired()) OnLooked(std::move(*looked));
    });
  };
  is_disk_busy_ = thread_.Post(look);
}

void HttpOutput::OnLooked(Looked looked) {
  is_disk_busy_ = false;
  safe_ += looked.spooled;
  counts_.waiting_bytes = looked.waiting_bytes;
  counts_.dropped_bytes = looked.dropped_bytes;
  if (!looked.batch.empty()) {
    batch_ = std::move(looked.batch);
    batch_number_ = looked.batch_number;
  }
  if (looked.spooled > 0) in_disk_trouble_ = false;
  if (!looked.spool.ok() && !std::exchange(in_disk_trouble_, true)) options_.log(looked.spool.message());
  TakeBack(std::move(looked.unspooled));
  if (!looked.secrets.ok()) {
    Outcome outcome;
    outcome.reason = looked.secrets.message();
    return Pause(outcome);
  }
  if (is_sending_ || batch_.empty() || running_ < next_) return;
  if (!looked.may_send) return Work();
  piece_ = std::string(FirstLines(batch_, piece_bytes_max_));
  delivery::Outgoing request = options_.settings.type == OutputType::kElasticsearch
                                   ? MakeBulk(options_.settings, piece_)
                                   : MakeOtlpLogs(options_.settings, piece_);
  for (std::string& header : looked.headers) {
    request.secrets.push_back(header.substr(header.find(' ') + 1));
    request.headers.push_back(std::move(header));
  }
  Send(std::move(request));
}

// A disk that fails costs persistence, never the sending.
void HttpOutput::TakeBack(std::string lines) {
  if (lines.empty()) return;
  if (!is_sending_ && batch_.empty()) {
    batch_ = std::string(FirstLines(lines, kRequestBytesMax));
    unsafe_ = std::count(batch_.begin(), batch_.end(), '\n');
    lines.erase(0, batch_.size());
  }
  pending_.insert(0, lines);
  safe_ += DropOldest(&pending_, &pending_dropped_bytes_);
}

void HttpOutput::Send(delivery::Outgoing request) {
  is_sending_ = true;
  options_.transport->Send(std::move(request),
                           [this, mailbox = mailbox_, alive = std::weak_ptr<bool>(alive_)](delivery::Reply reply) {
                             mailbox->Post([this, alive, reply = std::make_shared<delivery::Reply>(std::move(reply))] {
                               if (!alive.expired()) OnReply(*reply);
                             });
                           });
}

void HttpOutput::OnReply(const delivery::Reply& reply) {
  is_sending_ = false;
  Outcome outcome =
      options_.settings.type == OutputType::kElasticsearch ? JudgeBulk(reply, piece_) : JudgeOtlpLogs(reply, piece_);
  const bool is_fault = outcome.step == Step::kAgain && (reply.status == 500 || reply.status == 200);
  server_faults_ = is_fault ? server_faults_ + 1 : 0;
  if (server_faults_ >= kServerFaultsMax) outcome.step = Step::kSendLess;
  switch (outcome.step) {
    case Step::kGoOn: return Take(outcome);
    case Step::kSendLess: return SendLess(outcome);
    case Step::kAgain: return Pause(outcome);
  }
}

void HttpOutput::Take(const Outcome& outcome) {
  counts_.accepted += outcome.accepted;
  counts_.duplicates += outcome.duplicates;
  counts_.rejected += outcome.rejected;
  batch_.replace(0, piece_.size(), outcome.again);
  if (batch_.empty()) safe_ += std::exchange(unsafe_, 0);
  if (outcome.rejected > 0 && running_ >= rejection_logged_ + kRejectionPauseSeconds) {
    rejection_logged_ = running_;
    options_.log(fmt::format("records are rejected, {} of them now: {}", outcome.rejected, outcome.reason));
  }
  piece_bytes_max_ = std::min(kRequestBytesMax, piece_bytes_max_ * 2);
  if (!outcome.again.empty()) return Pause(outcome);
  retry_.Reset();
  next_ = running_;
  in_trouble_ = false;
  Work();
}

void HttpOutput::SendLess(const Outcome& outcome) {
  server_faults_ = 0;
  const auto records = std::count(piece_.begin(), piece_.end(), '\n');
  if (records > 1) {
    piece_bytes_max_ = piece_.size() / 2;
    return Work();
  }
  Outcome alone;
  alone.rejected = records;
  alone.reason = outcome.reason;
  Take(alone);
}

void HttpOutput::Pause(const Outcome& outcome) {
  ++counts_.failures;
  Report(outcome.reason);
  // Half of the pause is random, so that many hosts do not come back at the same time.
  const double pause = retry_.Next() * (0.5 + 0.5 * options_.dice());
  next_ = running_ + std::max(pause, std::min(outcome.retry_after.value_or(0), kAskedPauseSecondsMax));
}

void HttpOutput::Report(const std::string& why) {
  if (!std::exchange(in_trouble_, true)) options_.log(why);
}

OutputCounts HttpOutput::counts() const {
  OutputCounts counts = counts_;
  counts.waiting_bytes += static_cast<int64_t>(pending_.size());
  counts.dropped_bytes += pending_dropped_bytes_;
  return counts;
}

}  // namespace stepwatch::operations::outputs
