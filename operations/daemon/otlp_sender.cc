#include "operations/daemon/otlp_sender.h"

#include <chrono>
#include <optional>

#include "operations/delivery/headers.h"
#include "src/base/found_file.h"

namespace stepwatch::operations {
namespace {

constexpr std::chrono::seconds kOtlpTime{10};
constexpr size_t kOtlpHeaderBytesMax = size_t{16} << 10;

Status Send(const UpstreamAddress& address, const std::string& headers_file, std::string body) {
  PostRequest message{"/v1/metrics", "application/json", {}, std::move(body)};
  if (!headers_file.empty()) {
    const Result<std::string> text = base::ReadFound(headers_file, kOtlpHeaderBytesMax, std::nullopt);
    if (!text.ok()) return text.status();
    auto headers = delivery::ParseHeaders(text.value());
    if (!headers.ok()) return Status(StatusCode::kInvalid, headers_file + ": " + headers.status().message());
    message.headers = std::move(headers).value();
  }
  const Result<int> status = Post(address, message, kOtlpTime);
  if (!status.ok()) return status.status();
  if (status.value() / 100 == 2) return Status();
  return Status(StatusCode::kUnavailable, "the collector returned status " + std::to_string(status.value()));
}

}  // namespace

OtlpSender::OtlpSender(boost::asio::io_context& loop, OtlpOptions options)
    : options_(std::move(options)), mailbox_(std::make_shared<watch::LoopMailbox>(loop)) {}

OtlpSender::~OtlpSender() {
  mailbox_->Close();
}

void OtlpSender::Tick(double running, const std::function<std::string()>& make_body) {
  running_ = running;
  if (is_sending_ || running < next_) return;
  std::string body = make_body();
  if (body.size() > kBodyBytesMax)
    return OnDone(Status(StatusCode::kExhausted, "the metrics have more than 16 MiB as JSON"));
  is_sending_ = thread_.Post([this, alive = std::weak_ptr<bool>(alive_), mailbox = mailbox_, address = options_.address,
                              headers_file = options_.headers_file, body = std::move(body)]() mutable {
    const Status status = Send(address, headers_file, std::move(body));
    mailbox->Post([this, alive, status] {
      if (!alive.expired()) OnDone(status);
    });
  });
}

void OtlpSender::OnDone(const Status& status) {
  is_sending_ = false;
  if (status.ok()) {
    ++sent_;
    retry_.Reset();
    in_trouble_ = false;
    next_ = running_ + options_.seconds;
    return;
  }
  ++failed_;
  if (!std::exchange(in_trouble_, true)) options_.on_trouble(status.message());
  // Half of the pause is random, so that many hosts do not come back at the same time.
  next_ = running_ + retry_.Next() * std::uniform_real_distribution<double>(0.5, 1.0)(dice_);
}

}  // namespace stepwatch::operations
