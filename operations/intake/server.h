// The intake: HTTP/1.1 at a Unix socket, stepwatchd.sock, and over TCP if configured. On the loop's thread.
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
  std::string socket;   // empty: kSocketName in the first usable runtime directory
  std::string readers;  // the name or number of the group whose users may read; empty: no group
  http::TcpOptions tcp;
  http::Limits limits = UsualLimits();
  std::function<void(const std::string& note)> on_note = [](const std::string&) {};

  // The limits of a control socket, except the size of a body: 8 MiB of lines.
  static http::Limits UsualLimits();
};

class Intake {
 public:
  // `service` and the loop must outlive it; the loop must not run any more when it is destroyed.
  Intake(boost::asio::io_context& loop, IntakeOptions options, Service* service);
  ~Intake();
  Intake(const Intake&) = delete;
  Intake& operator=(const Intake&) = delete;

  // kUnavailable: another stepwatchd listens there, or the directory cannot be trusted.
  Status Open();
  // About once a second: restores a socket file that was removed, checks the token.
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
