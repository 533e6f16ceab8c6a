#include "controller/door/tcp_door.h"

#include <utility>

#include "src/base/text.h"

namespace stepwatch::door {

TcpDoor::TcpDoor(TcpOptions options, uid_t owner, base::FileSystem& files, boost::asio::io_context& context,
                 Callbacks callbacks)
    : options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      token_(options_.token_file, owner, files),
      gate_(options_.name, token_),
      entrance_(context, callbacks_.on_connection, callbacks_.make_room) {}

void TcpDoor::Tick() {
  if (options_.address.empty()) return;
  const std::string known = token_.sha256();
  Status usable = options_.token_file.empty()
                      ? Status(StatusCode::kInvalid, "STEPWATCH_DOOR_TOKEN_FILE names no file that holds a token")
                      : token_.Look();
  if (!known.empty() && token_.sha256() != known) callbacks_.on_new_token();
  if (usable.ok() && !listener_.valid()) usable = Open();
  if (usable.ok()) return;
  Close();
  Note("the door is not open on TCP at " + base::Printable(options_.address, 200) + ": " + usable.message() +
       "; it is tried again every second");
}

Status TcpDoor::Open() {
  auto opened = TcpListener::Open(options_.address);
  if (!opened.ok()) return opened.status();
  listener_ = std::move(opened).value();
  const Status entered = entrance_.Open(listener_.fd());
  if (!entered.ok()) return entered;
  Note("the door is open on TCP at " + listener_.address() + " for those who show the token" +
       (listener_.is_loopback() ? ""
                                : "; what is said there, the token too, can be read on the network: let a proxy with "
                                  "TLS or a tunnel carry it"));
  return Status();
}

void TcpDoor::Close() {
  entrance_.Close();
  listener_.Close();
}

void TcpDoor::Note(const std::string& note) {
  if (note == last_note_) return;
  last_note_ = note;
  callbacks_.on_note(note);
}

}  // namespace stepwatch::door
