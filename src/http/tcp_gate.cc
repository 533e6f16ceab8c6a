#include "src/http/tcp_gate.h"

#include <boost/asio/ip/address.hpp>
#include <boost/beast/core/string.hpp>
#include <string_view>

#include "src/base/text.h"

namespace stepwatch::http {
namespace {

namespace beast = boost::beast;

constexpr std::string_view kScheme = "Bearer ";

std::string_view View(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

// "host:port" without its port; an IPv6 host is in brackets.
std::string_view WithoutPort(std::string_view host) {
  const size_t end = host.starts_with('[') ? host.find(']') : std::string_view::npos;
  if (end != std::string_view::npos) return host.substr(1, end - 1);
  return host.substr(0, host.find(':'));
}

// The presented token; nullopt if there is no token, or more than one.
std::optional<std::string_view> ShownToken(const beast::http::fields& header) {
  if (header.count(beast::http::field::authorization) != 1) return std::nullopt;
  const std::string_view text = View(header[beast::http::field::authorization]);
  const bool is_bearer =
      text.size() > kScheme.size() && boost::beast::iequals(boost::beast::string_view(text.data(), kScheme.size()),
                                                            boost::beast::string_view(kScheme.data(), kScheme.size()));
  if (!is_bearer) return std::nullopt;
  return text.substr(text.find_first_not_of(' ', kScheme.size() - 1));
}

}  // namespace

std::optional<Answer> TcpGate::Refusal(const beast::http::fields& header_untrusted) const {
  const auto& header = header_untrusted;
  // A browser sends the origin of the page whose script makes the request; other clients send none.
  if (header.count(beast::http::field::origin) > 0)
    return Forbidden("requests from web pages are refused, and this request has a header Origin");
  if (header.count(beast::http::field::host) != 1)
    return BadRequest("a request over TCP must have exactly one header Host; found " +
                      std::to_string(header.count(beast::http::field::host)));
  // Guards against DNS rebinding: a foreign name that resolves to this address.
  const std::string_view host = View(header[beast::http::field::host]);
  if (!IsOurHost(host))
    return Forbidden("unknown host " + base::Printable(host, 100) +
                     "; accepted: the address, localhost, or the name in STEPWATCH_SOCKET_TCP_NAME");
  const std::optional<std::string_view> shown = ShownToken(header);
  if (!shown) return Unauthorized("a request over TCP must present the token of this job: Authorization: Bearer …", "");
  if (!token_.IsToken(*shown)) return Unauthorized("this is not the token of this job", "invalid_token");
  return std::nullopt;
}

bool TcpGate::IsOurHost(std::string_view host_untrusted) const {
  const std::string_view host = WithoutPort(host_untrusted);
  const boost::beast::string_view text(host.data(), host.size());
  if (boost::beast::iequals(text, "localhost")) return true;
  if (!name_.empty() && boost::beast::iequals(text, name_)) return true;
  boost::system::error_code error;
  (void)boost::asio::ip::make_address(std::string(host), error);
  return !error;
}

}  // namespace stepwatch::http
