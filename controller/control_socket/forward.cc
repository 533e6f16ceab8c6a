#include "controller/control_socket/forward.h"

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/text.h"
#include "src/json/members.h"
#include "src/sockets/peer.h"

namespace stepwatch::control_socket {
namespace {

constexpr size_t kForwardHeadBytesMax = size_t{64} << 10;
constexpr size_t kExeBytesMax = 4096;

// A head line of JSON, followed by the unmodified body.
struct Parts {
  Json head;
  std::string body;
};

Result<Parts> PartsFrom(std::string_view text_untrusted) {
  const size_t end = text_untrusted.find('\n');
  if (end == std::string_view::npos || end > kForwardHeadBytesMax)
    return Status(StatusCode::kInvalid, "the message of another rank has no head line");
  Result<Json> head = json::Parse(text_untrusted.substr(0, end));
  if (!head.ok() || !head.value().is_object())
    return Status(StatusCode::kInvalid, "the head line of the message of another rank is not a JSON object");
  return Parts{std::move(head).value(), std::string(text_untrusted.substr(end + 1))};
}

int SmallNumber(const Json& object, const char* name, int none) {
  const int64_t number = json::Whole(object, name, none);
  return number < 0 || number > std::numeric_limits<int>::max() ? none : static_cast<int>(number);
}

}  // namespace

Result<std::string> ForwardText(const Forwarded& forwarded) {
  const Request& request = forwarded.request;
  if (base::ValidUtf8(request.body) != request.body)
    return Status(StatusCode::kInvalid, "the body is not valid UTF-8 and was not forwarded to rank 0");
  Json head = {{"version", http::kAnswerVersion}, {"method", forwarded.method},   {"target", request.target},
               {"accept", request.accept},        {"if_match", request.if_match}, {"request_id", request.request_id}};
  if (!request.exe.empty()) head["exe"] = base::Printable(request.exe, kExeBytesMax);
  if (request.peer) head["uid"] = request.peer->uid, head["pid"] = request.peer->pid;
  return json::Dump(head) + "\n" + request.body;
}

Result<Forwarded> ForwardedFrom(int rank, std::string_view text_untrusted) {
  Result<Parts> parts = PartsFrom(text_untrusted);
  if (!parts.ok()) return parts.status();
  const Json& head = parts.value().head;
  Forwarded forwarded;
  forwarded.method = json::RawText(head, "method");
  Request& request = forwarded.request;
  request.target = json::RawText(head, "target");
  request.accept = json::RawText(head, "accept");
  request.if_match = json::RawText(head, "if_match");
  request.request_id = json::RawText(head, "request_id");
  request.exe = base::Printable(json::RawText(head, "exe"), kExeBytesMax);
  request.body = std::move(parts.value().body);
  request.from_rank = rank;
  if (const int uid = SmallNumber(head, "uid", -1); uid >= 0)
    request.peer = sockets::Peer{static_cast<pid_t>(SmallNumber(head, "pid", 0)), static_cast<uid_t>(uid)};
  return forwarded;
}

std::string AnswerText(const http::Answer& answer) {
  return json::Dump({{"version", http::kAnswerVersion},
                     {"status", answer.status},
                     {"content_type", answer.content_type},
                     {"etag", answer.etag},
                     {"allow", answer.allow},
                     {"retry_after", answer.retry_after}}) +
         "\n" + answer.body;
}

Result<http::Answer> AnswerFrom(std::string_view text_untrusted) {
  Result<Parts> parts = PartsFrom(text_untrusted);
  if (!parts.ok()) return parts.status();
  const Json& head = parts.value().head;
  http::Answer answer;
  answer.status = SmallNumber(head, "status", 0);
  answer.content_type = json::RawText(head, "content_type");
  answer.etag = json::RawText(head, "etag");
  answer.allow = json::RawText(head, "allow");
  answer.retry_after = SmallNumber(head, "retry_after", 0);
  answer.body = std::move(parts.value().body);
  const auto is_header = [](const std::string& text) { return base::Printable(text, text.size()) == text; };
  if (answer.status < 200 || answer.status > 599 || !is_header(answer.content_type) || !is_header(answer.etag) ||
      !is_header(answer.allow))
    return Status(StatusCode::kInvalid, "the answer of rank 0 is malformed");
  return answer;
}

}  // namespace stepwatch::control_socket
