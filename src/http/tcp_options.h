#pragma once

#include <string>

namespace stepwatch::http {

// Network address of a control socket.
struct TcpOptions {
  std::string address;  // see TcpListener::Open; empty: TCP is off
  std::string token_file;
  std::string name;  // host name of this machine that clients may use; empty: no name
};

}  // namespace stepwatch::http
