#include "operations/daemon/upstream.h"

#include <algorithm>
#include <utility>

#include "src/base/found_file.h"

namespace stepwatch::operations {
namespace {

constexpr std::chrono::seconds kPostTime{10};
constexpr std::chrono::seconds kStopTime{2};
constexpr size_t kTokenBytesMax = 1024;
constexpr int kTooLarge = 413;
// Limit of bytes at one time, so that new lines do not wait for long.
constexpr int kFilesAtOnce = 16;

// Lines that the receiver has read and rejected: sending them again changes nothing.
bool IsRefusedForGood(int status) {
  return status >= 400 && status < 500 && status != 401 && status != 403 && status != 408 && status != 429;
}

}  // namespace

// The part that runs on the thread.
class Upstream::Sender {
 public:
  explicit Sender(UpstreamOptions options)
      : target_(std::move(options.target)),
        wall_(std::move(options.wall)),
        spool_(options.directory, target_.spool_bytes) {}

  void SetTarget(UpstreamTarget target) {
    target_ = std::move(target);
    spool_.SetBytesMax(target_.spool_bytes);
  }

  Sent Deliver(std::string lines, bool may_send) {
    Sent sent;
    sent.has_tried = may_send;
    if (!is_open_) {
      sent.status = spool_.Open();
      is_open_ = sent.status.ok();
    }
    loss_.clear();
    std::string_view rest = lines;
    if (may_send && spool_.empty() && !rest.empty()) sent.status = PostAll(&rest, kPostBytesMax);
    while (!rest.empty()) {
      const std::string_view some = FirstLines(rest, static_cast<size_t>(Spool::kFileBytesMax));
      if (const Status spooled = spool_.Append(some); !spooled.ok()) {
        sent.status = spooled;
        sent.unspooled = std::string(rest);
        break;
      }
      rest.remove_prefix(some.size());
    }
    for (int i = 0; may_send && i < kFilesAtOnce && !spool_.empty() && sent.status.ok(); ++i) SendOldest(&sent.status);
    sent.waiting_bytes = spool_.bytes();
    sent.dropped_bytes = spool_.bytes_dropped() + lost_bytes_;
    if (spool_.bytes_dropped() > spool_dropped_)
      loss_ = "the spool is full: " + std::to_string(spool_.bytes_dropped() - spool_dropped_) +
              " bytes of the oldest lines are dropped";
    spool_dropped_ = spool_.bytes_dropped();
    sent.loss = loss_;
    return sent;
  }

 private:
  void SendOldest(Status* status) {
    const Result<std::string> oldest = spool_.Oldest();
    if (oldest.ok()) {
      std::string_view lines = oldest.value();
      *status = PostAll(&lines, kPostBytesMax);
    } else {
      Lose(spool_.oldest_bytes(), "a file of the spool cannot be read: " + oldest.status().message());
    }
    if (status->ok()) spool_.RemoveOldest();
  }

  // Sends the lines in pieces, and removes those that need not be sent again.
  Status PostAll(std::string_view* lines, size_t bytes_max) {
    while (!lines->empty()) {
      const std::string_view piece = FirstLines(*lines, bytes_max);
      if (Status posted = Post(piece); !posted.ok()) return posted;
      lines->remove_prefix(piece.size());
    }
    return Status();
  }

  void Lose(int64_t bytes, const std::string& why) {
    lost_bytes_ += bytes;
    loss_ = why + "; " + std::to_string(bytes) + " bytes of lines are dropped";
  }

  Status Post(std::string_view lines) {
    std::string token;
    if (!target_.token_file.empty()) {
      const Result<std::string> text = base::ReadFound(target_.token_file, kTokenBytesMax, std::nullopt);
      if (!text.ok()) return text.status();
      token = text.value().substr(0, text.value().find_last_not_of(" \t\r\n") + 1);
    }
    const Result<int> status = PostBeats(target_.address, token, std::string(lines), wall_(), kPostTime);
    if (!status.ok()) return status.status();
    if (status.value() == 200) return Status();
    // The receiver accepts less at a time.
    if (status.value() == kTooLarge && FirstLines(lines, lines.size() / 2).size() < lines.size())
      return PostAll(&lines, lines.size() / 2);
    if (IsRefusedForGood(status.value())) {
      Lose(static_cast<int64_t>(lines.size()), "the upstream returned status " + std::to_string(status.value()));
      return Status();
    }
    return Status(StatusCode::kUnavailable, "the upstream returned status " + std::to_string(status.value()));
  }

  UpstreamTarget target_;
  const std::function<double()> wall_;
  Spool spool_;
  bool is_open_ = false;
  int64_t lost_bytes_ = 0;
  int64_t spool_dropped_ = 0;
  std::string loss_;  // since the last delivery
};

Upstream::Upstream(boost::asio::io_context& loop, UpstreamOptions options)
    : mailbox_(std::make_shared<watch::LoopMailbox>(loop)),
      on_trouble_(options.on_trouble),
      on_recovery_(options.on_recovery),
      on_loss_(options.on_loss),
      sender_(std::make_shared<Sender>(std::move(options))) {}

Upstream::~Upstream() {
  mailbox_->Close();
  if (!pending_.empty())
    (void)thread_.Post([sender = sender_, lines = std::move(pending_)] { (void)sender->Deliver(lines, false); });
  (void)thread_.Stop(base::IoThread::Clock::now() + kStopTime);
}

void Upstream::Add(const std::string& line) {
  pending_ += line;
  pending_ += '\n';
  Bound();
}

void Upstream::SetTarget(UpstreamTarget target) {
  (void)thread_.Post([sender = sender_, target = std::move(target)] { sender->SetTarget(target); });
  retry_.Reset();
  next_ = 0;
}

void Upstream::Bound() {
  if (pending_.size() <= kPendingBytesMax) return;
  // Removes more than necessary, so that this is not done for every line.
  const size_t end = pending_.find('\n', pending_.size() - kPendingBytesMax / 8 * 7);
  const size_t cut = end == std::string::npos ? pending_.size() : end + 1;
  pending_dropped_ += static_cast<int64_t>(cut);
  pending_.erase(0, cut);
  if (on_loss_)
    on_loss_("lines arrive faster than the upstream accepts them: " + std::to_string(cut) +
             " bytes of the oldest are dropped");
}

void Upstream::Tick(double running) {
  running_ = running;
  if (is_sending_) return;
  const bool may_send = running >= next_;
  if (pending_.empty() && !may_send) return;
  is_sending_ = true;
  const auto deliver = [this, sender = sender_, mailbox = mailbox_, alive = std::weak_ptr<bool>(alive_), may_send,
                        lines = std::make_shared<std::string>(std::exchange(pending_, {}))] {
    auto sent = std::make_shared<Sent>(sender->Deliver(std::move(*lines), may_send));
    mailbox->Post([this, alive, sent] {
      if (alive.expired()) return;
      is_sending_ = false;
      OnSent(std::move(*sent));
    });
  };
  if (!thread_.Post(deliver)) is_sending_ = false;
}

void Upstream::OnSent(Sent sent) {
  counts_.waiting_bytes = sent.waiting_bytes;
  counts_.dropped_bytes = sent.dropped_bytes;
  if (!sent.loss.empty() && on_loss_) on_loss_(sent.loss);
  if (!sent.unspooled.empty()) pending_.insert(0, sent.unspooled);
  Bound();
  // Spooled during a pause, which continues.
  if (!sent.has_tried) return;
  if (sent.status.ok()) {
    retry_.Reset();
    if (std::exchange(in_trouble_, false)) on_recovery_();
    return;
  }
  if (!std::exchange(in_trouble_, true)) on_trouble_(sent.status.message());
  // Half of the pause is random, so that many clients of one upstream do not come back at the same time.
  next_ = running_ + retry_.Next() * std::uniform_real_distribution<double>(0.5, 1.0)(dice_);
}

Upstream::Counts Upstream::counts() const {
  Counts counts = counts_;
  counts.waiting_bytes += static_cast<int64_t>(pending_.size());
  counts.dropped_bytes += pending_dropped_;
  return counts;
}

}  // namespace stepwatch::operations
