// Where people come in: waits at a listening socket and hands each connection over. Door thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>

#include "src/base/unforked_fd.h"
#include "stepwatch/status.h"

namespace stepwatch::door {

class Entrance {
 public:
  using OnConnection = std::function<void(base::UnforkedFd connection)>;

  // The context runs nothing any more when the entrance is destroyed.
  Entrance(boost::asio::io_context& context, OnConnection on_connection)
      : acceptor_(context), pause_(context), on_connection_(std::move(on_connection)) {}
  ~Entrance() { Close(); }
  Entrance(const Entrance&) = delete;
  Entrance& operator=(const Entrance&) = delete;

  // `listening` stays the caller's, who closes it after the entrance.
  Status Open(int listening);
  void Close();

 private:
  void Await();
  void AcceptSome();

  boost::asio::posix::stream_descriptor acceptor_;
  boost::asio::steady_timer pause_;
  const OnConnection on_connection_;
  uint64_t opening_ = 0;  // a wait that ended just before the entrance was closed finds another number
};

}  // namespace stepwatch::door
