#include "src/sockets/acceptor.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "src/base/free_descriptors.h"
#include "src/sockets/unix_listener.h"

namespace stepwatch::sockets {
namespace {

// Pause when descriptors or memory for a connection are exhausted.
constexpr std::chrono::milliseconds kPause{100};
// Between two wake-ups, accepted connections get time to authenticate.
constexpr int kAcceptsPerWakeup = 4;
constexpr size_t kReserveMax = 64;
constexpr size_t kReservePart = 4;
constexpr size_t kFreeForEach = 3;

}  // namespace

size_t DescriptorReserve() {
  return std::min(base::DescriptorLimit() / kReservePart, kReserveMax);
}

bool HasRoomForConnection() {
  const size_t wanted = 1 + std::max(DescriptorReserve(), kFreeForEach * (base::UnforkedFd::Count() + 1));
  return base::FreeDescriptors(wanted) >= wanted;
}

Status Acceptor::Open(int listening) {
  boost::system::error_code error;
  acceptor_.assign(listening, error);
  if (error)
    return Status(StatusCode::kUnavailable,
                  "the event loop of the control socket rejected the socket: " + error.message());
  opening_ = std::make_shared<char>();
  Await();
  return Status();
}

void Acceptor::Close() {
  opening_.reset();
  pause_.cancel();
  if (acceptor_.is_open()) (void)acceptor_.release();
}

void Acceptor::Await() {
  acceptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [this, opening = std::weak_ptr(opening_)](const boost::system::error_code& error) {
                         if (!error && !opening.expired()) AcceptSome();
                       });
}

void Acceptor::AcceptSome() {
  for (int i = 0; i < kAcceptsPerWakeup && acceptor_.is_open(); ++i) {
    if (!HasRoomForConnection()) {
      if (make_room_ && make_room_()) continue;
      return Pause();
    }
    base::UnforkedFd connection = AcceptAt(acceptor_.native_handle());
    if (connection.valid()) {
      on_connection_(std::move(connection));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) break;
    // Most likely too many descriptors, while the connection still waits: retrying without a pause would be a busy
    // loop.
    return Pause();
  }
  if (acceptor_.is_open()) Await();
}

void Acceptor::Pause() {
  pause_.expires_after(kPause);
  pause_.async_wait([this, opening = std::weak_ptr(opening_)](const boost::system::error_code& error) {
    if (!error && !opening.expired()) Await();
  });
}

}  // namespace stepwatch::sockets
