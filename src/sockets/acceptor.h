// Accepts connections of a listening socket and hands each over. Socket thread only.
//
// Descriptors belong to the training process, which fails if they run out. A connection is accepted only while enough
// of them stay free; others wait in the kernel's queue.
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
  // Ends a dispensable connection; returns false if there is none.
  using MakeRoom = std::function<bool()>;

  // The context outlives the acceptor.
  Acceptor(boost::asio::io_context& context, OnConnection on_connection, MakeRoom make_room = {})
      : acceptor_(context),
        pause_(context),
        on_connection_(std::move(on_connection)),
        make_room_(std::move(make_room)) {}
  ~Acceptor() { Close(); }
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // The caller owns `listening` and closes it after the acceptor.
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
  // A wait that ended just before the acceptor was closed detects that this has expired.
  std::shared_ptr<const void> opening_;
};

// Number of descriptors to keep free for this process: a quarter of its limit, at most 64.
size_t DescriptorReserve();
// True if one more connection leaves both the reserve free and three times as many descriptors as the monitor's own
// connections use.
bool HasRoomForConnection();

}  // namespace stepwatch::sockets
