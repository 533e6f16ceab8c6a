// Receives syslog over TCP: RFC 5424 in both framings of RFC 6587. It has no acknowledgements, so a client that is
// ahead is slowed down by not reading its socket.
//
// On the loop's thread. There is no authentication: whoever can connect can send lines.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "operations/log_intake/sent_line_reader.h"
#include "src/sockets/acceptor.h"
#include "src/sockets/tcp_listener.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

struct SyslogCounts {
  int64_t lines_lost = 0;   // for lack of room
  int64_t connections = 0;  // open now
  int64_t refused = 0;      // connections beyond the limit
  int64_t broken = 0;       // connections that were closed: no syslog, or a message that did not end
};

class SyslogServer {
 public:
  struct Options {
    std::string address;  // "127.0.0.1:5514"
    size_t connections_max = 64;
    double message_seconds_max = 60;  // from the first byte of a message to its end
    std::function<void(const std::string& note)> log;
  };

  // `reader` must outlive it.
  SyslogServer(boost::asio::io_context& loop, Options options, SentLineReader* reader);
  ~SyslogServer();
  SyslogServer(const SyslogServer&) = delete;
  SyslogServer& operator=(const SyslogServer&) = delete;

  // About once a second; `running`: seconds of a clock that is never set. Opens the address, again if it failed.
  void Tick(double running);
  // Empty: it is not open.
  std::string address() const { return listener_.valid() ? listener_.address() : ""; }
  SyslogCounts counts() const;

 private:
  class Session;

  void Open();
  void OnConnection(base::UnforkedFd connection);
  void Note(const std::string& note);

  boost::asio::io_context& loop_;
  const Options options_;
  SentLineReader& reader_;
  sockets::TcpListener listener_;
  sockets::Acceptor acceptor_;
  std::map<const Session*, std::shared_ptr<Session>> sessions_;
  SyslogCounts counts_;
  std::string last_note_;
};

}  // namespace stepwatch::operations
