// Where people come in: waits at a listening socket and hands each connection over. Socket thread only.
//
// Descriptors are the process's own, and it ends where it finds none. A connection is taken only while enough of them
// stay free; whoever comes meanwhile waits in the kernel's queue.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "src/base/unforked_fd.h"
#include "stepwatch/status.h"

namespace stepwatch::sockets {

class Acceptor {
 public:
  using OnConnection = std::function<void(base::UnforkedFd connection)>;
  // Ends a connection that nobody misses; false: there is none.
  using MakeRoom = std::function<bool()>;

  // The context outlives it.
  Acceptor(boost::asio::io_context& context, OnConnection on_connection, MakeRoom make_room = {})
      : acceptor_(context),
        pause_(context),
        on_connection_(std::move(on_connection)),
        make_room_(std::move(make_room)) {}
  ~Acceptor() { Close(); }
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // `listening` stays the caller's, who closes it after the acceptor.
  Status Open(int listening);
  void Close();

 private:
  void Await();
  void AcceptSome();
  void Pause();

  boost::asio::posix::stream_descriptor acceptor_;
  boost::asio::steady_timer pause_;
  const OnConnection on_connection_;
  const MakeRoom make_room_;
  // A wait that ended just before the acceptor was closed finds that this has expired.
  std::shared_ptr<const void> opening_;
};

// How many descriptors this process shall have free, whoever comes: a quarter of its limit, and not more than 64.
size_t DescriptorReserve();
// The reserve stays free with one more connection, and so do three times as many as our connections take.
bool HasRoomForConnection();

}  // namespace stepwatch::sockets
