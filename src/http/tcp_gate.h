// Whether what comes over TCP is looked at: it shows the token, and no web page has sent a browser with it.
#pragma once

#include <boost/beast/http/fields.hpp>
#include <optional>
#include <string>

#include "src/http/answers.h"
#include "src/sockets/token_file.h"

namespace stepwatch::http {

class TcpGate {
 public:
  // `name`: of this machine, by which clients may ask for it; empty: none. `token` outlives the gate.
  TcpGate(std::string name, const sockets::TokenFile& token) : name_(std::move(name)), token_(token) {}

  // Nothing: come in. Else what to say, whatever was asked.
  std::optional<Answer> Refusal(const boost::beast::http::fields& header_untrusted) const;

 private:
  bool IsOurHost(std::string_view host_untrusted) const;

  const std::string name_;
  const sockets::TokenFile& token_;
};

}  // namespace stepwatch::http
