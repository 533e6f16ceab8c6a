#include "controller/reload/displaced_watch.h"

#include <chrono>
#include <utility>
#include <vector>

namespace stepwatch::reload {
namespace {

using Clock = writeback::DisplacedFiles::Clock;

constexpr std::chrono::seconds kAfterFault{1};

}  // namespace

class DisplacedWatch::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(boost::asio::io_context& loop, std::function<void(const Finding&)> tell)
      : tell_(std::move(tell)), timer_(loop) {}

  void TakeOver(const std::string& config_path, base::FileSystem& files) {
    files_.Add(writeback::FindDisplaced(config_path, files));
    LookNow();
  }

  void Add(writeback::WriteBackResult* result) {
    files_.AddOurs(result->sha256);
    if (result->displaced) files_.Add(std::move(*result->displaced));
    result->displaced.reset();
    LookAt(files_.look_at());
  }

  void LookNow() {
    try {
      TellAll(files_.Look(Clock::now()));
      LookAt(files_.look_at());
    } catch (...) {
      LookAt(Clock::now() + kAfterFault);
    }
  }

  void Stop() {
    timer_.cancel();
    try {
      TellAll(files_.LastLook(Clock::now()));
    } catch (...) {  // the files keep their names, and the next process finds them
    }
  }

  void Cancel() { timer_.cancel(); }

 private:
  void TellAll(const std::vector<Finding>& findings) {
    for (const Finding& finding : findings) tell_(finding);
  }

  void LookAt(std::optional<Clock::time_point> time) {
    if (!time) return;
    timer_.expires_at(*time);
    timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
      const auto self = weak.lock();
      if (!error && self) self->LookNow();
    });
  }

  const std::function<void(const Finding&)> tell_;
  writeback::DisplacedFiles files_;
  boost::asio::steady_timer timer_;
};

DisplacedWatch::DisplacedWatch(boost::asio::io_context& loop, std::function<void(const Finding&)> tell)
    : impl_(std::make_shared<Impl>(loop, std::move(tell))) {}
DisplacedWatch::~DisplacedWatch() {
  impl_->Cancel();
}

void DisplacedWatch::TakeOver(const std::string& config_path, base::FileSystem& files) {
  impl_->TakeOver(config_path, files);
}
void DisplacedWatch::Add(writeback::WriteBackResult* result) {
  impl_->Add(result);
}
void DisplacedWatch::LookNow() {
  impl_->LookNow();
}
void DisplacedWatch::Stop() {
  impl_->Stop();
}

}  // namespace stepwatch::reload
