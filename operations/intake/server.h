// The intake: HTTP/1.1 at a Unix socket, stepwatchd.sock, and over TCP where that is wanted. Of the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "operations/intake/service.h"
#include "src/http/limits.h"
#include "src/http/tcp_options.h"
#include "stepwatch/status.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

inline constexpr const char* kSocketName = "stepwatchd.sock";

struct IntakeOptions {
  std::string socket;   // empty: kSocketName in the first runtime directory that is usable
  std::string readers;  // the name or number of the group whose users may read; empty: none
  http::TcpOptions tcp;
  http::Limits limits = UsualLimits();
  std::function<void(const std::string& note)> on_note = [](const std::string&) {};

  // As a control socket's, but for the size of a body: 8 MiB of lines.
  static http::Limits UsualLimits();
};

class Intake {
 public:
  // `service` and the loop outlive it; the loop runs nothing any more when it is destroyed.
  Intake(boost::asio::io_context& loop, IntakeOptions options, Service* service);
  ~Intake();
  Intake(const Intake&) = delete;
  Intake& operator=(const Intake&) = delete;

  // kUnavailable: another stepwatchd listens there, or the directory is not to be trusted.
  Status Open();
  // About once a second: puts a socket that somebody has removed back into its place, looks after the token.
  void Tick();
  // There are new changes of incidents.
  void Wake();
  void SetTcp(http::TcpOptions tcp);
  void Close();
  std::string path() const;
  // Empty: it is not open.
  std::string tcp_address() const;
  size_t connections() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace stepwatch::operations
