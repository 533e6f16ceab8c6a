#include "operations/intake/server.h"

#include <charconv>
#include <optional>
#include <utility>

#include "operations/intake/routes.h"
#include "src/base/byte_room.h"
#include "src/base/file.h"
#include "src/http/handler.h"
#include "src/http/server.h"
#include "src/sockets/peer.h"
#include "src/sockets/runtime_directory.h"
#include "src/sockets/unix_listener.h"
#include "stepwatch/version.h"

namespace stepwatch::operations {
namespace {

// Limit of all large bodies at one time.
constexpr size_t kBodiesBytesMax = size_t{64} << 20;

// Events after the one that the reader names; without a number, only later events.
http::EventSource EventsFor(const http::Head& head_untrusted, Service* service) {
  int64_t last = service->incidents().number_last();
  const std::string text = http::FieldOf(head_untrusted, "Last-Event-ID");
  int64_t number = 0;
  const bool is_number = std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc();
  if (is_number && number >= 0 && number <= last) last = number;
  return [service, last]() mutable -> std::optional<std::string> { return EventTextAfter(&last, service); };
}

http::Response Perform(Service* service, http::Request sent, const http::OnAnswer& then) {
  http::Response response;
  IntakeRequest request{std::string(sent.head.method_string()),
                        std::string(sent.head.target()),
                        std::move(sent.body),
                        http::FieldOf(sent.head, "Stepwatch-Sent"),
                        sent.caller.access == sockets::Access::kAll,
                        http::FieldOf(sent.head, "Accept"),
                        http::FieldOf(sent.head, "Content-Type"),
                        http::FieldOf(sent.head, "Content-Encoding")};
  if (IsEventStream(request.method, request.target)) {
    response.events = EventsFor(sent.head, service);
    return response;
  }
  response.on_timeout = [] { return http::Busy("stepwatchd did not respond in time; try again"); };
  AnswerIntake(request, service, then);
  return response;
}

class IntakeHandler final : public http::Handler {
 public:
  explicit IntakeHandler(Service* service) : service_(service) {}

  // A request is checked when it is complete.
  http::Verdict Accept(const http::Head&, const http::Caller&, const http::Answer*) override {
    return {std::nullopt, [service = service_](http::Request sent, const http::OnAnswer& then) {
              return Perform(service, std::move(sent), then);
            }};
  }
  bool AdmitsAnyone(const http::Head& head_untrusted) override {
    const Deliveries* deliveries = service_->deliveries();
    return deliveries != nullptr && deliveries->HasLinks() && IsLink(std::string(head_untrusted.target()));
  }
  http::Answer WhenFull(size_t) override {
    http::Answer answer = http::Busy("");
    answer.body.clear();
    return answer;
  }
  std::optional<http::Answer> WhenForbidden(const sockets::Admission&) override { return std::nullopt; }
  http::Answer WhenBodiesFull() override {
    service_->CountLeftOut();
    return http::Busy("stepwatchd is reading other large bodies; try again in a second");
  }

 private:
  Service* const service_;
};

}  // namespace

http::Limits IntakeOptions::UsualLimits() {
  http::Limits limits;
  limits.body_bytes = uint64_t{8} << 20;
  // A client that may only read cannot send.
  limits.reader_body_bytes = uint64_t{64} << 10;
  return limits;
}

class Intake::Core {
 public:
  Core(boost::asio::io_context& loop, IntakeOptions options, Service* service)
      : options_(std::move(options)), handler_(service), http_(loop, HttpOptions(), &handler_) {}

  Status Open();
  void Tick();
  void SetTcp(http::TcpOptions tcp);
  http::Server& http() { return http_; }

 private:
  http::ServerOptions HttpOptions();
  Result<sockets::UnixListener> Bind(sockets::Admission* admission) const;
  Result<std::string> FindPath(const sockets::Admission& admission) const;
  Status FindReaders(sockets::Admission* admission) const;

  const IntakeOptions options_;
  // Expires with the session: later answers have no receiver.
  const std::shared_ptr<const void> owner_ = std::make_shared<char>();
  IntakeHandler handler_;
  http::Server http_;
  bool has_tcp_ = false;
  bool trouble_reported_ = false;
};

http::ServerOptions Intake::Core::HttpOptions() {
  http::ServerOptions http;
  http.bind = [this](sockets::Admission* admission) { return Bind(admission); };
  http.is_in_place = [](const sockets::UnixListener& listener) { return listener.IsInPlace(); };
  http.name = std::string("stepwatchd/") + kVersion;
  http.heartbeat = ": stepwatchd is running\n\n";
  http.limits = options_.limits;
  http.bodies = base::ByteRoom(kBodiesBytesMax);
  http.owner = owner_;
  http.on_note = options_.on_note;
  return http;
}

Status Intake::Core::FindReaders(sockets::Admission* admission) const {
  if (options_.readers.empty() || admission->readers) return Status();
  const Result<gid_t> group = sockets::FindGroup(options_.readers);
  if (!group.ok()) return group.status();
  if (group.value() == admission->overflow_gid)
    return Status(StatusCode::kUnavailable, "the readers' group cannot be identified in this user namespace");
  admission->readers = group.value();
  return Status();
}

Result<std::string> Intake::Core::FindPath(const sockets::Admission& admission) const {
  std::string directory = options_.socket.empty() ? "" : base::DirectoryOf(options_.socket);
  if (directory.empty()) {
    Result<std::string> found =
        sockets::OpenRuntimeDirectory(sockets::RuntimeDirectories(admission.owner), admission.owner);
    if (!found.ok()) return found;
    directory = std::move(found).value();
  } else if (const Status checked = sockets::CheckRuntimeDirectory(directory, admission.owner); !checked.ok()) {
    return checked;
  }
  if (admission.readers)
    if (Status shared = sockets::LetGroupThrough(*admission.readers, directory); !shared.ok()) return shared;
  return options_.socket.empty() ? base::JoinPath(directory, kSocketName) : options_.socket;
}

Result<sockets::UnixListener> Intake::Core::Bind(sockets::Admission* admission) const {
  if (Status readers = FindReaders(admission); !readers.ok()) return readers;
  const Result<std::string> path = FindPath(*admission);
  if (!path.ok()) return path.status();
  return sockets::UnixListener::OpenAt(path.value(), base::FileSystem::Real(), admission->readers);
}

Status Intake::Core::Open() {
  Status opened = http_.Open();
  if (opened.ok() && !has_tcp_) SetTcp(options_.tcp);
  return opened;
}

void Intake::Core::SetTcp(http::TcpOptions tcp) {
  has_tcp_ = true;
  http_.SetTcp(std::move(tcp));
  Tick();
}

void Intake::Core::Tick() {
  const Status opened = http_.Tick();
  if (!opened.ok() && !std::exchange(trouble_reported_, true))
    options_.on_note("stepwatchd accepts no requests on its socket: " + opened.message());
  if (opened.ok() && std::exchange(trouble_reported_, false))
    options_.on_note("stepwatchd accepts requests on its socket again");
}

Intake::Intake(boost::asio::io_context& loop, IntakeOptions options, Service* service)
    : core_(std::make_unique<Core>(loop, std::move(options), service)) {}
Intake::~Intake() = default;

Status Intake::Open() {
  return core_->Open();
}
void Intake::Tick() {
  core_->Tick();
}
void Intake::Wake() {
  core_->http().Wake();
}
void Intake::SetTcp(http::TcpOptions tcp) {
  core_->SetTcp(std::move(tcp));
}
void Intake::Close() {
  core_->http().Close();
}
std::string Intake::path() const {
  return core_->http().path();
}
std::string Intake::tcp_address() const {
  return core_->http().tcp_address();
}
size_t Intake::connections() const {
  return core_->http().connections();
}

}  // namespace stepwatch::operations
