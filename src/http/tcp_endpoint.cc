#include "src/http/tcp_endpoint.h"

#include <utility>

#include "src/base/text.h"

namespace stepwatch::http {

TcpEndpoint::TcpEndpoint(TcpOptions options, uid_t owner, base::FileSystem& files, boost::asio::io_context& context,
                         Callbacks callbacks)
    : options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      token_(options_.token_file, owner, files),
      gate_(options_.name, token_),
      acceptor_(context, callbacks_.on_connection, callbacks_.make_room) {}

void TcpEndpoint::Tick() {
  if (options_.address.empty()) return;
  const std::string known = token_.sha256();
  Status usable = options_.token_file.empty()
                      ? Status(StatusCode::kInvalid,
                               "STEPWATCH_SOCKET_TOKEN_FILE is not set; it must name a file that holds a token")
                      : token_.Look();
  if (!known.empty() && token_.sha256() != known) callbacks_.on_new_token();
  if (usable.ok() && !listener_.valid()) usable = Open();
  if (usable.ok()) return;
  Close();
  Note("the control socket is not open on TCP at " + base::Printable(options_.address, 200) + ": " + usable.message() +
       "; it is retried every second");
}

Status TcpEndpoint::Open() {
  auto opened = sockets::TcpListener::Open(options_.address);
  if (!opened.ok()) return opened.status();
  listener_ = std::move(opened).value();
  const Status entered = acceptor_.Open(listener_.fd());
  if (!entered.ok()) return entered;
  Note("the control socket is open on TCP at " + listener_.address() + " for clients that present the token" +
       (listener_.is_loopback() ? ""
                                : "; its traffic, including the token, can be read on the network: use a TLS proxy or "
                                  "a tunnel"));
  return Status();
}

void TcpEndpoint::Close() {
  acceptor_.Close();
  listener_.Close();
}

void TcpEndpoint::Note(const std::string& note) {
  if (note == last_note_) return;
  last_note_ = note;
  callbacks_.on_note(note);
}

}  // namespace stepwatch::http
