#include "operations/intake/server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "operations/intake/session.h"
#include "src/base/file.h"
#include "src/http/tcp_endpoint.h"
#include "src/http/tcp_gate.h"
#include "src/sockets/acceptor.h"
#include "src/sockets/peer.h"
#include "src/sockets/runtime_directory.h"
#include "src/sockets/tcp_listener.h"
#include "src/sockets/unix_listener.h"

namespace stepwatch::operations {
namespace {

constexpr std::string_view kBusy =
    "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";

enum class Sort : uint8_t { kOwner, kOtherUser, kNetwork };

}  // namespace

http::Limits IntakeOptions::UsualLimits() {
  http::Limits limits;
  limits.body_bytes = uint64_t{8} << 20;
  return limits;
}

class Intake::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(boost::asio::io_context& loop, IntakeOptions options, Service* service)
      : loop_(loop), options_(std::move(options)), around_{service, options_.limits, &room_} {}

  Status Open();
  void Tick();
  void Close();
  void SetTcp(http::TcpOptions tcp);
  void Wake();

  const sockets::UnixListener& listener() const { return listener_; }
  std::string tcp_address() const { return tcp_ ? tcp_->address() : ""; }
  size_t connections() const { return guests_.size(); }

 private:
  struct Guest {
    std::shared_ptr<IntakeSession> session;
    Sort sort = Sort::kOwner;
    const http::TcpGate* gate = nullptr;
    uint64_t number = 0;   // the order in which they came
    bool is_shed = false;  // and about to end
  };
  // A control socket that was closed for another: connections that are about to end still ask its gate, and what its
  // entrance waited for is told to it on the way out.
  struct RetiredEndpoint {
    std::unique_ptr<http::TcpEndpoint> server;
    bool was_seen = false;  // by a tick, before which all of the latter was told
  };

  Result<std::string> FindPath();
  Status FindReaders();
  void AdmitPeer(const base::UnforkedFd& fd);
  void Admit(const base::UnforkedFd& fd, IntakeSession::Caller caller, Sort sort);
  // Of those who have not shown the token there are few: the oldest goes.
  void ShedStranger();
  void EndAll(std::optional<Sort> sort);
  void FreeRetired();

  boost::asio::io_context& loop_;
  IntakeOptions options_;
  base::ByteRoom room_{size_t{64} << 20};
  const IntakeSession::Around around_;
  sockets::Admission admission_{::geteuid(), std::nullopt, sockets::OverflowUid(), sockets::OverflowGid()};
  sockets::UnixListener listener_;
  sockets::Acceptor entrance_{loop_, [this](base::UnforkedFd fd) { AdmitPeer(fd); }};
  std::unique_ptr<http::TcpEndpoint> tcp_;
  std::vector<RetiredEndpoint> retired_;
  std::map<IntakeSession*, Guest> guests_;
  uint64_t guests_in_all_ = 0;
  bool trouble_told_ = false;
};

Status Intake::Core::FindReaders() {
  if (options_.readers.empty() || admission_.readers) return Status();
  const Result<gid_t> group = sockets::FindGroup(options_.readers);
  if (!group.ok()) return group.status();
  if (group.value() == admission_.overflow_gid)
    return Status(StatusCode::kUnavailable, "the readers' group cannot be identified in this user namespace");
  admission_.readers = group.value();
  return Status();
}

Result<std::string> Intake::Core::FindPath() {
  std::string directory = options_.socket.empty() ? "" : base::DirectoryOf(options_.socket);
  if (directory.empty()) {
    Result<std::string> found =
        sockets::OpenRuntimeDirectory(sockets::RuntimeDirectories(admission_.owner), admission_.owner);
    if (!found.ok()) return found;
    directory = std::move(found).value();
  } else if (const Status checked = sockets::CheckRuntimeDirectory(directory, admission_.owner); !checked.ok()) {
    return checked;
  }
  if (admission_.readers)
    if (Status shared = sockets::LetGroupThrough(*admission_.readers, directory); !shared.ok()) return shared;
  return options_.socket.empty() ? base::JoinPath(directory, kSocketName) : options_.socket;
}

Status Intake::Core::Open() {
  entrance_.Close();
  listener_.Close();
  if (Status readers = FindReaders(); !readers.ok()) return readers;
  const Result<std::string> path = FindPath();
  if (!path.ok()) return path.status();
  Result<sockets::UnixListener> opened =
      sockets::UnixListener::OpenAt(path.value(), base::FileSystem::Real(), admission_.readers);
  if (!opened.ok()) return opened.status();
  listener_ = std::move(opened).value();
  if (!tcp_) SetTcp(options_.tcp);
  return entrance_.Open(listener_.fd());
}

void Intake::Core::SetTcp(http::TcpOptions tcp) {
  if (tcp_) {
    tcp_->Close();
    EndAll(Sort::kNetwork);
    retired_.push_back({std::move(tcp_)});
  }
  options_.tcp = std::move(tcp);
  tcp_ = std::make_unique<http::TcpEndpoint>(
      options_.tcp, admission_.owner, base::FileSystem::Real(), loop_,
      http::TcpEndpoint::Callbacks{[this](base::UnforkedFd fd) {
                                     sockets::SetUpConnection(fd.get(),
                                                              static_cast<int>(options_.limits.send_time.count()));
                                     Admit(fd, {sockets::Access::kAll, &tcp_->gate()}, Sort::kNetwork);
                                   },
                                   {},
                                   [this](const std::string& note) { options_.on_note(note); },
                                   [this] { EndAll(Sort::kNetwork); }});
  tcp_->Tick();
}

void Intake::Core::FreeRetired() {
  std::erase_if(retired_, [&](RetiredEndpoint& retired) {
    const http::TcpGate* const gate = &retired.server->gate();
    const auto asks_it = [gate](const auto& entry) { return entry.second.gate == gate; };
    return std::exchange(retired.was_seen, true) && std::none_of(guests_.begin(), guests_.end(), asks_it);
  });
}

void Intake::Core::Tick() {
  FreeRetired();
  if (tcp_) tcp_->Tick();
  if (listener_.IsInPlace()) return;
  const Status opened = Open();
  if (!opened.ok() && !std::exchange(trouble_told_, true))
    options_.on_note("stepwatchd accepts no requests on its socket: " + opened.message());
  if (opened.ok() && std::exchange(trouble_told_, false))
    options_.on_note("stepwatchd accepts requests on its socket again");
}

void Intake::Core::AdmitPeer(const base::UnforkedFd& fd) {
  const std::optional<sockets::Peer> peer = sockets::PeerOf(fd.get());
  const sockets::Access access = sockets::AccessOf(peer, admission_);
  if (access == sockets::Access::kNone) return;
  Admit(fd, {access, nullptr}, access == sockets::Access::kAll ? Sort::kOwner : Sort::kOtherUser);
}

// Each sort has as many connections of its own: strangers keep the owner out as little as the network.
void Intake::Core::Admit(const base::UnforkedFd& fd, IntakeSession::Caller caller, Sort sort) {
  size_t count = 0;
  for (const auto& [session, guest] : guests_)
    count += guest.sort == sort && (sort != Sort::kNetwork || guest.session->is_known()) ? 1 : 0;
  if (count >= options_.limits.connections) {
    (void)::send(fd.get(), kBusy.data(), kBusy.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return;
  }
  if (sort == Sort::kNetwork) ShedStranger();
  const int own = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0);
  if (own < 0) return;
  const auto session = std::make_shared<IntakeSession>(loop_, &around_, own, caller);
  guests_[session.get()] = {session, sort, caller.gate, ++guests_in_all_};
  IntakeSession::Run(session, [weak = weak_from_this(), key = session.get()] {
    if (const auto self = weak.lock()) self->guests_.erase(key);
  });
}

void Intake::Core::ShedStranger() {
  size_t count = 0;
  Guest* oldest = nullptr;
  for (auto& [key, guest] : guests_) {
    if (guest.sort != Sort::kNetwork || guest.is_shed || guest.session->is_known()) continue;
    ++count;
    if (oldest == nullptr || guest.number < oldest->number) oldest = &guest;
  }
  if (oldest == nullptr || count < std::min(options_.limits.strangers, options_.limits.connections)) return;
  oldest->is_shed = true;
  oldest->session->Close();
}

void Intake::Core::EndAll(std::optional<Sort> sort) {
  for (const auto& [key, guest] : guests_)
    if (!sort || guest.sort == *sort) guest.session->Close();
}

void Intake::Core::Wake() {
  for (const auto& [key, guest] : guests_) guest.session->Wake();
}

void Intake::Core::Close() {
  entrance_.Close();
  listener_.Close();
  if (tcp_) tcp_->Close();
  EndAll(std::nullopt);
}

Intake::Intake(boost::asio::io_context& loop, IntakeOptions options, Service* service)
    : core_(std::make_shared<Core>(loop, std::move(options), service)) {}
Intake::~Intake() {
  core_->Close();
}

Status Intake::Open() {
  return core_->Open();
}
void Intake::Tick() {
  core_->Tick();
}
void Intake::Wake() {
  core_->Wake();
}
void Intake::SetTcp(http::TcpOptions tcp) {
  core_->SetTcp(std::move(tcp));
}
void Intake::Close() {
  core_->Close();
}
std::string Intake::path() const {
  return core_->listener().valid() ? core_->listener().path() : "";
}
std::string Intake::tcp_address() const {
  return core_->tcp_address();
}
size_t Intake::connections() const {
  return core_->connections();
}

}  // namespace stepwatch::operations
