#include "src/http/server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "src/base/free_descriptors.h"
#include "src/sockets/tcp_listener.h"

namespace stepwatch::http {
namespace {

using Sort = Connections::Sort;
using Room = Connections::Room;

// Sends an answer on a connection that has no session.
void RejectAt(int fd, const Answer& answer) {
  std::string text =
      "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: " + std::to_string(answer.retry_after) +
      "\r\n";
  if (!answer.body.empty()) text += "Content-Type: " + answer.content_type + "\r\n";
  text += "Content-Length: " + std::to_string(answer.body.size()) + "\r\n\r\n" + answer.body;
  (void)::send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

Server::Server(boost::asio::io_context& context, ServerOptions options, Handler* handler)
    : context_(context),
      options_(std::move(options)),
      handler_(handler),
      admission_{::geteuid(), std::nullopt, sockets::OverflowUid(), sockets::OverflowGid()},
      shared_(std::make_shared<Session::Shared>(Session::Shared{context, handler, options_.limits, options_.name,
                                                                options_.heartbeat, options_.bodies, options_.owner,
                                                                [this](Session* session) {
                                                                  connections_.Remove(session);
                                                                  if (on_empty_ && connections_.size() == 0)
                                                                    on_empty_();
                                                                }})),
      acceptor_(
          context, [this](base::UnforkedFd fd) { AdmitPeer(std::move(fd)); }, MakeRoom()) {}

sockets::Acceptor::MakeRoom Server::MakeRoom() {
  if (!options_.sheds_silent) return {};
  return [this] { return connections_.EndAny(); };
}

// --- sockets ---

Status Server::Open() {
  acceptor_.Close();
  listener_.Close();
  Result<sockets::UnixListener> opened = options_.bind(&admission_);
  if (!opened.ok()) return opened.status();
  listener_ = std::move(opened).value();
  Status accepts = acceptor_.Open(listener_.fd());
  if (!accepts.ok()) listener_.Close();
  return accepts;
}

Status Server::Tick() {
  // The process may have opened files since the last check.
  while (options_.sheds_silent && base::FreeDescriptors(sockets::DescriptorReserve()) < sockets::DescriptorReserve() &&
         connections_.EndAny()) {
  }
  Status opened;
  if (!options_.is_in_place(listener_)) opened = Open();
  if (tcp_) tcp_->Tick();
  return opened;
}

void Server::SetTcp(TcpOptions tcp) {
  if (tcp_) tcp_->Close();
  EndAll(Sort::kNetwork);
  tcp_ = std::make_shared<TcpEndpoint>(
      std::move(tcp), admission_.owner, *options_.files, context_,
      TcpEndpoint::Callbacks{[this](base::UnforkedFd fd) { AdmitTcp(std::move(fd)); }, MakeRoom(),
                             [this](const std::string& note) {
                               if (options_.on_note) options_.on_note(note);
                             },
                             [this] { EndAll(Sort::kNetwork); }});
}

void Server::CloseSockets() {
  acceptor_.Close();
  listener_.Close();
  if (tcp_) tcp_->Close();
}

// --- connections ---

void Server::AdmitPeer(base::UnforkedFd fd) {
  Caller caller;
  caller.peer = options_.credentials_of(fd.get());
  caller.access = sockets::AccessOf(caller.peer, admission_);
  std::optional<Answer> rejection;
  if (caller.access == sockets::Access::kNone) {
    rejection = handler_->WhenForbidden(admission_);
    if (!rejection) return;
  }
  Admit(std::move(fd), std::move(caller), rejection);
}

void Server::AdmitTcp(base::UnforkedFd fd) {
  sockets::SetUpConnection(fd.get(), static_cast<int>(options_.limits.send_time.count()));
  Caller caller;
  caller.gate = std::shared_ptr<const TcpGate>(tcp_, &tcp_->gate());
  Admit(std::move(fd), std::move(caller), std::nullopt);
}

void Server::Admit(base::UnforkedFd fd, Caller caller, const std::optional<Answer>& rejection) {
  const size_t most = options_.limits.connections;
  const Sort sort = caller.gate != nullptr                   ? Sort::kNetwork
                    : caller.access == sockets::Access::kAll ? Sort::kOwner
                                                             : Sort::kOtherUser;
  const size_t few = std::min(options_.limits.strangers, most);
  const bool is_stranger = rejection || caller.gate != nullptr;
  const bool has_room = rejection || connections_.Count(sort, Room::kServed) < most ||
                        (options_.sheds_silent && connections_.EndOldestSilent(sort));
  if (!has_room && (!options_.sheds_silent || connections_.Count(sort, Room::kBusy) >= few))
    return RejectAt(fd.get(), handler_->WhenFull(most));
  if (has_room && is_stranger && connections_.Count(sort, Room::kStrangers) >= few)
    connections_.EndOldestStranger(sort, options_.sheds_silent);
  const auto session = std::make_shared<Session>(shared_, std::move(fd), std::move(caller));
  connections_.Add(session, sort, !has_room);
  if (rejection)
    session->Reject(*rejection);
  else if (!has_room && sort == Sort::kOwner)
    session->StartUrgent(handler_->WhenFull(most));
  else if (!has_room)
    session->Reject(handler_->WhenFull(most));
  else
    session->Start();
}

void Server::EndAll(std::optional<Sort> sort) {
  for (const auto& session : connections_.All(sort)) session->End();
}

void Server::Wake() {
  for (const auto& session : connections_.All()) session->Wake();
}

// --- the end ---

void Server::Finish(std::function<void()> then) {
  CloseSockets();
  for (const auto& session : connections_.All()) session->Finish();
  if (connections_.size() == 0) return then();
  on_empty_ = std::move(then);
}

void Server::Close() {
  CloseSockets();
  EndAll(std::nullopt);
}

}  // namespace stepwatch::http
