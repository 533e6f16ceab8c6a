#include "operations/upstream/post.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "stepwatch/version.h"

namespace stepwatch::operations {
namespace {

namespace beast = boost::beast;
using boost::system::error_code;

constexpr std::string_view kScheme = "http://";
constexpr const char* kUsualPort = "9465";

// Runs one asynchronous call to its end: those alone have deadlines.
template <class Begin>
error_code Wait(boost::asio::io_context& context, const Begin& begin) {
  error_code result;
  begin([&result](const error_code& error, const auto&) { result = error; });
  context.restart();
  context.run();
  return result;
}

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

Result<int> PostBeats(const UpstreamAddress& upstream, const std::string& token, const std::string& lines, double sent,
                      std::chrono::seconds time) {
  const auto failed = [&](const char* what, const error_code& error) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("{} {}:{}: {}", what, upstream.host, upstream.port, error.message()));
  };
  boost::asio::io_context context;
  error_code error;
  boost::asio::ip::tcp::resolver resolver(context);
  const auto found = resolver.resolve(upstream.host, upstream.port, error);
  if (error) return failed("cannot find", error);
  beast::tcp_stream stream(context);
  stream.expires_after(time);
  error = Wait(context, [&](auto then) { stream.async_connect(found, then); });
  if (error) return failed("cannot connect to", error);
  beast::http::request<beast::http::string_body> request(beast::http::verb::post, "/v1/beats", 11);
  const bool is_v6 = upstream.host.find(':') != std::string::npos;
  request.set(beast::http::field::host, (is_v6 ? "[" + upstream.host + "]" : upstream.host) + ":" + upstream.port);
  request.set(beast::http::field::user_agent, std::string("stepwatchd/") + kVersion);
  request.set(beast::http::field::content_type, "application/jsonl");
  if (!token.empty()) request.set(beast::http::field::authorization, "Bearer " + token);
  request.set("Stepwatch-Sent", fmt::format("{:.6f}", sent));
  request.keep_alive(false);
  request.body() = lines;
  request.prepare_payload();
  error = Wait(context, [&](auto then) { beast::http::async_write(stream, request, then); });
  if (error) return failed("cannot send to", error);
  beast::flat_buffer buffer;
  beast::http::response<beast::http::string_body> response;
  error = Wait(context, [&](auto then) { beast::http::async_read(stream, buffer, response, then); });
  if (error) return failed("no response from", error);
  return static_cast<int>(response.result_int());
}

}  // namespace stepwatch::operations
