#pragma once

#include <string>

namespace stepwatch::http {

// Where a control socket is open to the network.
struct TcpOptions {
  std::string address;  // see TcpListener::Open; empty: none
  std::string token_file;
  std::string name;  // of this machine, by which clients may ask; empty: none
};

}  // namespace stepwatch::http
