#include "operations/daemon/post.h"

#include <fmt/format.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/beast/http/field.hpp>
#include <utility>

#include "src/http/client_connection.h"
#include "stepwatch/version.h"

namespace stepwatch::operations {
namespace {

using boost::beast::http::field;
using boost::system::error_code;

constexpr std::string_view kScheme = "http://";
constexpr const char* kUsualPort = "9465";
constexpr uint64_t kAnswerBytesMax = uint64_t{8} << 20;

}  // namespace

Result<UpstreamAddress> ParseUpstream(const std::string& url) {
  const Status refusal(StatusCode::kInvalid, "an upstream must be http://HOST:PORT");
  if (!url.starts_with(kScheme)) return refusal;
  std::string rest = url.substr(kScheme.size());
  while (!rest.empty() && rest.back() == '/') rest.pop_back();
  const size_t bracket = rest.starts_with('[') ? rest.find(']') : std::string::npos;
  const size_t colon = rest.find(':', bracket == std::string::npos ? 0 : bracket);
  UpstreamAddress address{rest.substr(0, colon), colon == std::string::npos ? kUsualPort : rest.substr(colon + 1)};
  if (bracket != std::string::npos) address.host = rest.substr(1, bracket - 1);
  if (address.host.empty() || address.port.empty() || rest.find('/') != std::string::npos) return refusal;
  return address;
}

Result<int> Post(const UpstreamAddress& to, const PostRequest& message, std::chrono::seconds time) {
  const auto failed = [&](const char* what, const error_code& error) {
    return Status(StatusCode::kUnavailable, fmt::format("{} {}:{}: {}", what, to.host, to.port, error.message()));
  };
  return http::RunWithConnection<Result<int>>(
      [&](http::ClientConnection& connection) -> boost::asio::awaitable<Result<int>> {
        error_code error;
        boost::asio::ip::tcp::resolver resolver(co_await boost::asio::this_coro::executor);
        const auto found = resolver.resolve(to.host, to.port, error);
        if (error) co_return failed("cannot find", error);
        connection.SetDeadline(http::ClientConnection::Clock::now() + time);
        error = co_await connection.Connect(found);
        if (error) co_return failed("cannot connect to", error);
        auto request = http::ClientConnection::MakeMessage("POST", message.path);
        const bool is_v6 = to.host.find(':') != std::string::npos;
        request.set(field::host, (is_v6 ? "[" + to.host + "]" : to.host) + ":" + to.port);
        request.set(field::user_agent, std::string("stepwatchd/") + kVersion);
        request.set(field::content_type, message.content_type);
        for (const auto& [name, value] : message.headers) request.set(name, value);
        request.keep_alive(false);
        request.body() = message.body;
        request.prepare_payload();
        http::ClientConnection::ReplyLimits limits;
        limits.body_bytes = kAnswerBytesMax;
        const http::ClientConnection::Received received = co_await connection.Ask(request, std::move(limits));
        if (received.unsent) co_return failed("cannot send to", received.unsent);
        if (received.error) co_return failed("no response from", received.error);
        co_return received.reply.status;
      });
}

Result<int> PostBeats(const UpstreamAddress& upstream, const std::string& token, const std::string& lines, double sent,
                      std::chrono::seconds time) {
  PostRequest message{"/v1/beats", "application/jsonl", {{"Stepwatch-Sent", fmt::format("{:.6f}", sent)}}, lines};
  if (!token.empty()) message.headers.emplace_back("Authorization", "Bearer " + token);
  return Post(upstream, message, time);
}

}  // namespace stepwatch::operations
