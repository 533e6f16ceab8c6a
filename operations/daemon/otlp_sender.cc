#include "operations/daemon/otlp_sender.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "src/base/found_file.h"

namespace stepwatch::operations {
namespace {

constexpr std::chrono::seconds kOtlpTime{10};
constexpr size_t kOtlpHeaderBytesMax = size_t{16} << 10;
constexpr size_t kOtlpHeadersMax = 16;

bool IsNameByte(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '-' ||
         byte == '_';
}

bool IsValueByte(char byte) {
  return byte >= ' ' && byte <= '~';
}

Status Send(const UpstreamAddress& address, const std::string& headers_file, std::string body) {
  PostRequest message{"/v1/metrics", "application/json", {}, std::move(body)};
  if (!headers_file.empty()) {
    const Result<std::string> text = base::ReadFound(headers_file, kOtlpHeaderBytesMax, std::nullopt);
    if (!text.ok()) return text.status();
    auto headers = ParseHeaders(text.value());
    if (!headers.ok()) return Status(StatusCode::kInvalid, headers_file + ": " + headers.status().message());
    message.headers = std::move(headers).value();
  }
  const Result<int> status = Post(address, message, kOtlpTime);
  if (!status.ok()) return status.status();
  if (status.value() / 100 == 2) return Status();
  return Status(StatusCode::kUnavailable, "the collector returned status " + std::to_string(status.value()));
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> ParseHeaders(std::string_view text_untrusted) {
  std::vector<std::pair<std::string, std::string>> headers;
  for (size_t number = 1; !text_untrusted.empty(); ++number) {
    std::string_view line = text_untrusted.substr(0, text_untrusted.find('\n'));
    text_untrusted.remove_prefix(std::min(text_untrusted.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    const size_t colon = std::min(line.size(), line.find(':'));
    const std::string_view name = line.substr(0, colon);
    std::string_view value = line.substr(std::min(line.size(), colon + 1));
    value.remove_prefix(std::min(value.size(), value.find_first_not_of(' ')));
    const bool is_header = !name.empty() && colon < line.size() && !value.empty() &&
                           std::all_of(name.begin(), name.end(), IsNameByte) &&
                           std::all_of(value.begin(), value.end(), IsValueByte);
    if (!is_header || headers.size() == kOtlpHeadersMax)
      return Status(StatusCode::kInvalid, "line " + std::to_string(number) +
                                              " is not a header \"Name: value\" in ASCII, or there are more than " +
                                              std::to_string(kOtlpHeadersMax));
    headers.emplace_back(name, value);
  }
  return headers;
}

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
