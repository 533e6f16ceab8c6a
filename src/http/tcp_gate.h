// Admission of requests over TCP: they must present the token and must not come from a web page in a browser.
#pragma once

#include <boost/beast/http/fields.hpp>
#include <optional>
#include <string>

#include "src/http/answers.h"
#include "src/sockets/token_file.h"

namespace stepwatch::http {

class TcpGate {
 public:
  // `name`: host name of this machine that clients may use; empty: no name. `token` must outlive the gate.
  TcpGate(std::string name, const sockets::TokenFile& token) : name_(std::move(name)), token_(token) {}

  // nullopt if the request is admitted; otherwise the response to send.
  std::optional<Answer> Refusal(const boost::beast::http::fields& header_untrusted) const;

 private:
  bool IsOurHost(std::string_view host_untrusted) const;

  const std::string name_;
  const sockets::TokenFile& token_;
};

}  // namespace stepwatch::http
