#include "controller/control_socket/server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <new>
#include <utility>

#include "controller/control_socket/forward.h"
#include "controller/control_socket/guests.h"
#include "controller/control_socket/left_end.h"
#include "controller/control_socket/perform.h"
#include "controller/control_socket/request_log.h"
#include "controller/control_socket/session.h"
#include "src/base/file.h"
#include "src/base/free_descriptors.h"
#include "src/base/io_executor.h"
#include "src/base/mutex.h"
#include "src/base/worker_thread.h"
#include "src/http/answers.h"
#include "src/http/tcp_endpoint.h"
#include "src/sockets/acceptor.h"
#include "src/sockets/runtime_directory.h"
#include "src/sockets/tcp_listener.h"
#include "src/sockets/unix_listener.h"

namespace stepwatch::control_socket {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kStopTime{1};
constexpr uint64_t kLinesLeft = 32;

// For whom there is not even a session.
void TurnAway(int fd, const http::Answer& answer) {
  const std::string text =
      "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: " + std::to_string(answer.retry_after) +
      "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(answer.body.size()) + "\r\n\r\n" +
      answer.body;
  (void)::send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

// Everything but the methods named below belongs to the control socket's thread.
class Server::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(ServerOptions options, std::shared_ptr<Job> job) : options_(std::move(options)), job_(std::move(job)) {}

  void Run() noexcept;

  // --- any thread ---
  void Wake() noexcept;
  void AnswerForwarded(int rank, std::string text_untrusted, std::function<void(std::string)> then);
  bool OnWorker(std::function<void()> work) { return worker_.Post(std::move(work)); }
  void BeginToFinish();
  bool AwaitEnd(steady_clock::time_point deadline);
  bool StopWorker(steady_clock::time_point deadline) { return worker_.Stop(deadline); }
  std::string path() const;
  std::string tcp_address() const;

 private:
  using Sort = Guests::Sort;
  using Room = Guests::Room;

  void Prepare();
  void Tick();
  bool IsInPlace() const;
  void Open();
  Result<sockets::UnixListener> Bind();
  void Close();
  void LeaveLastLines();
  void TellTrouble(const std::string& why);
  void TellNote(const std::string& note);
  void FindReaders();
  void SetPaths();
  void AdmitPeer(base::UnforkedFd fd);
  void AdmitTcp(base::UnforkedFd fd);
  // `refusal`: said to this one whatever is asked.
  void Admit(base::UnforkedFd fd, Session::Caller caller, const std::optional<http::Answer>& refusal);
  void Finish();
  void OnEnd(Session* session);
  void EndTcp();

  const ServerOptions options_;
  std::shared_ptr<Job> job_;
  sockets::Admission admission_{::geteuid(), std::nullopt, sockets::OverflowUid(), sockets::OverflowGid()};

  // The sessions refer to these, and handlers that were never called hold sessions: destroyed after the context.
  Session::Around around_;
  Guests guests_;
  sockets::UnixListener listener_;
  base::IoThread worker_{"stepwatch-ask"};

  boost::asio::io_context context_{1};
  sockets::Acceptor entrance_{context_, [this](base::UnforkedFd fd) { AdmitPeer(std::move(fd)); },
                              [this] { return guests_.EndSomebody(); }};
  http::TcpEndpoint tcp_{
      options_.tcp,
      admission_.owner,
      *options_.files,
      context_,
      {[this](base::UnforkedFd fd) { AdmitTcp(std::move(fd)); }, [this] { return guests_.EndSomebody(); },
       [this](const std::string& note) { TellNote(note); }, [this] { EndTcp(); }}};
  boost::asio::steady_timer tick_{context_};
  boost::asio::steady_timer finish_time_{context_};
  bool trouble_told_ = false;
  bool finishes_ = false;
  std::atomic<bool> is_woken_{false};

  mutable base::Mutex mutex_;
  base::Condition end_;
  std::string path_ STEPWATCH_GUARDED_BY(mutex_);
  std::string tcp_address_ STEPWATCH_GUARDED_BY(mutex_);
  bool ended_ STEPWATCH_GUARDED_BY(mutex_) = false;
};

void Server::Core::Run() noexcept {
  try {
    Prepare();
  } catch (const std::exception&) {  // no memory: nobody will ever ask
  }
  for (;;) {
    try {
      context_.run();
      break;
    } catch (const std::exception&) {  // of one connection, or one tick: the others go on
    }
  }
  try {
    for (const auto& session : guests_.All()) session->End();
    context_.restart();
    context_.poll();
  } catch (const std::exception&) {
  }
  job_.reset();
  around_.place.job.reset();
  const base::MutexLock lock(&mutex_);
  ended_ = true;
  end_.NotifyAll();
}

void Server::Core::Prepare() {
  around_ = {&context_,
             &options_.limits,
             {job_, &worker_, std::make_shared<RequestLog>(), weak_from_this()},
             [this](Session* session) { OnEnd(session); }};
  FindReaders();
  tick_.expires_after(milliseconds(0));
  tick_.async_wait([this](const boost::system::error_code& error) {
    if (!error) Tick();
  });
}

void Server::Core::Tick() {
  tick_.expires_after(options_.limits.tick);
  tick_.async_wait([this](const boost::system::error_code& error) {
    if (!error) Tick();
  });
  if (finishes_) return;
  job_->Tick();
  // The process has opened files meanwhile.
  while (base::FreeDescriptors(sockets::DescriptorReserve()) < sockets::DescriptorReserve() && guests_.EndSomebody()) {
  }
  if (!IsInPlace()) Open();
  tcp_.Tick();
  SetPaths();
}

// --- the socket ---

// A directory that is led elsewhere, or opened to others, is one that clients do not look into. One that comes before
// it in the list, and was not there when the socket was made, may be there by now.
bool Server::Core::IsInPlace() const {
  const std::string directory = base::DirectoryOf(listener_.path());
  if (!listener_.IsInPlace() || !sockets::CheckRuntimeDirectory(directory, admission_.owner, *options_.files).ok())
    return false;
  const auto own = std::find(options_.directories.begin(), options_.directories.end(), directory);
  const std::vector<std::string> before(options_.directories.begin(), own);
  return before.empty() || !sockets::OpenRuntimeDirectory(before, admission_.owner, *options_.files).ok();
}

Result<sockets::UnixListener> Server::Core::Bind() {
  base::FileSystem& files = *options_.files;
  const Result<std::string> directory = sockets::OpenRuntimeDirectory(options_.directories, admission_.owner, files);
  if (!directory.ok()) return directory.status();
  if (admission_.readers)
    if (const Status shared = sockets::LetGroupThrough(*admission_.readers, directory.value(), files); !shared.ok()) {
      admission_.readers.reset();
      TellNote("the control socket admits no readers' group: " + shared.message());
    }
  Result<sockets::UnixListener> opened =
      sockets::UnixListener::Open(directory.value(), ::getpid(), files, admission_.readers);
  if (!opened.ok()) return opened;
  // Somebody may have put another directory there since it was checked.
  Status still = sockets::CheckRuntimeDirectory(directory.value(), admission_.owner, files);
  if (still.ok()) return opened;
  opened.value().Close();
  return still;
}

void Server::Core::Open() {
  const std::string before = listener_.path();
  Close();
  Result<sockets::UnixListener> opened = Bind();
  if (!opened.ok()) return TellTrouble(opened.status().message());
  listener_ = std::move(opened).value();
  if (const Status entered = entrance_.Open(listener_.fd()); !entered.ok()) {
    listener_.Close();
    return TellTrouble(entered.message());
  }
  trouble_told_ = false;
  if (!before.empty() && before != listener_.path())
    TellNote("the socket of this job has moved from " + before + " to " + listener_.path());
}

// Without them the control socket opens all the same, for the user alone.
void Server::Core::FindReaders() {
  if (options_.readers.empty()) return;
  const Result<gid_t> group = sockets::FindGroup(options_.readers);
  if (!group.ok()) return TellNote("the control socket admits no readers' group: " + group.status().message());
  if (group.value() == admission_.overflow_gid)
    return TellNote("the control socket admits no readers' group: group " + std::to_string(group.value()) +
                    " stands for every group that is not mapped in this user namespace");
  admission_.readers = group.value();
}

void Server::Core::TellTrouble(const std::string& why) {
  if (!std::exchange(trouble_told_, true) && options_.on_trouble) options_.on_trouble(why);
}

void Server::Core::TellNote(const std::string& note) {
  if (options_.on_note) options_.on_note(note);
}

void Server::Core::Close() {
  entrance_.Close();
  listener_.Close();
}

// Beside the socket. Where that cannot be done, whoever looks later knows no end, as of a process that was killed.
void Server::Core::LeaveLastLines() {
  if (!listener_.valid()) return;
  const uint64_t newest = job_->BeatsAfter(0, 1).newest;
  if (newest == 0) return;
  base::FileSystem& files = *options_.files;
  const LeftEnd end{base::ThisProcess(files),
                    job_->BeatsAfter(newest > kLinesLeft ? newest - kLinesLeft : 0, kLinesLeft).lines};
  (void)LeaveEnd(base::DirectoryOf(listener_.path()), end, admission_.readers, files);
}

void Server::Core::SetPaths() {
  const base::MutexLock lock(&mutex_);
  path_ = listener_.valid() ? listener_.path() : "";
  tcp_address_ = tcp_.address();
}

std::string Server::Core::path() const {
  const base::MutexLock lock(&mutex_);
  return path_;
}

std::string Server::Core::tcp_address() const {
  const base::MutexLock lock(&mutex_);
  return tcp_address_;
}

// --- connections ---

void Server::Core::AdmitPeer(base::UnforkedFd fd) {
  Session::Caller caller;
  caller.peer = options_.credentials_of(fd.get());
  caller.access = sockets::AccessOf(caller.peer, admission_);
  std::optional<http::Answer> refusal;
  if (caller.access == sockets::Access::kNone) refusal = http::Forbidden(sockets::WhoMayAsk(admission_));
  Admit(std::move(fd), std::move(caller), refusal);
}

void Server::Core::AdmitTcp(base::UnforkedFd fd) {
  sockets::SetUpConnection(fd.get(), static_cast<int>(options_.limits.send_time.count()));
  Session::Caller caller;
  caller.gate = &tcp_.gate();
  Admit(std::move(fd), std::move(caller), std::nullopt);
}

void Server::Core::Admit(base::UnforkedFd fd, Session::Caller caller, const std::optional<http::Answer>& refusal) {
  const size_t most = options_.limits.connections;
  const Sort sort = caller.gate != nullptr                   ? Sort::kNetwork
                    : caller.access == sockets::Access::kAll ? Sort::kOwner
                                                             : Sort::kOtherUser;
  const size_t few = std::min(options_.limits.strangers, most);
  const bool is_stranger = refusal || caller.gate != nullptr;
  const bool has_room = refusal || guests_.Count(sort, Room::kServed) < most || guests_.EndOldestSilent(sort);
  const auto busy = [&] {
    return http::Busy("the control socket accepts at most " + std::to_string(most) +
                      " connections, and that many are open; try again");
  };
  if (!has_room && guests_.Count(sort, Room::kBusy) >= few) return TurnAway(fd.get(), busy());
  if (has_room && is_stranger && guests_.Count(sort, Room::kStrangers) >= few) guests_.EndOldestStranger(sort);
  const auto session = std::make_shared<Session>(&around_, std::move(fd), std::move(caller));
  guests_.Add(session, sort, !has_room);
  if (refusal)
    session->Refuse(*refusal);
  else if (!has_room && sort == Sort::kOwner)
    session->StartUrgent(busy());
  else if (!has_room)
    session->Refuse(busy());
  else
    session->Start();
}

void Server::Core::EndTcp() {
  for (const auto& session : guests_.All(Sort::kNetwork)) session->End();
}

void Server::Core::OnEnd(Session* session) {
  guests_.Remove(session);
  if (finishes_ && guests_.empty()) context_.stop();
}

void Server::Core::Wake() noexcept {
  if (is_woken_.exchange(true)) return;
  try {
    boost::asio::post(context_, [this] {
      is_woken_ = false;
      for (const auto& session : guests_.All()) session->Wake();
    });
  } catch (const std::bad_alloc&) {  // with the next event, or the next heartbeat
    is_woken_ = false;
  }
}

void Server::Core::AnswerForwarded(int rank, std::string text_untrusted, std::function<void(std::string)> then) {
  boost::asio::post(context_, [this, rank, text = std::move(text_untrusted), then = std::move(then)] {
    const bool is_open = !finishes_ && around_.place.worker != nullptr;
    const bool is_taken = is_open && control_socket::AnswerForwarded(around_.place, rank, text, then);
    if (!is_taken) then(AnswerText(http::Busy("the control socket of rank 0 is overloaded or closing; try again")));
  });
}

// --- the end ---

void Server::Core::BeginToFinish() {
  boost::asio::post(context_, [this] { Finish(); });
}

void Server::Core::Finish() {
  finishes_ = true;
  LeaveLastLines();
  Close();
  tcp_.Close();
  SetPaths();
  finish_time_.expires_after(options_.limits.finish_time);
  finish_time_.async_wait([this](const boost::system::error_code&) { context_.stop(); });
  for (const auto& session : guests_.All()) session->Finish();
  if (guests_.empty()) context_.stop();
}

bool Server::Core::AwaitEnd(steady_clock::time_point deadline) {
  const base::MutexLock lock(&mutex_);
  while (!ended_ && end_.WaitUntil(&mutex_, deadline)) {
  }
  return ended_;
}

// --- Server ---

Server::Server(ServerOptions options, std::shared_ptr<Job> job)
    : core_(std::make_shared<Core>(std::move(options), std::move(job))) {}

Server::~Server() {
  if (guard_.InOwner()) {
    (void)Stop(steady_clock::now() + kStopTime);
    return;
  }
  // The threads are not here, and everything else is as it was at the fork, in the midst of whatever they did.
  new std::shared_ptr<Core>(std::move(core_));
  new std::thread(std::move(thread_));
}

void Server::Start() {
  thread_ = base::StartWorkerThread("stepwatch-http", [core = core_] { core->Run(); });
}

void Server::Wake() noexcept {
  core_->Wake();
}

void Server::AnswerForwarded(int rank, std::string text_untrusted, std::function<void(std::string)> then) {
  core_->AnswerForwarded(rank, std::move(text_untrusted), std::move(then));
}

bool Server::OnWorker(std::function<void()> work) {
  return core_->OnWorker(std::move(work));
}

bool Server::Stop(steady_clock::time_point deadline) {
  if (!thread_.joinable()) return true;
  core_->BeginToFinish();
  const bool has_ended = core_->AwaitEnd(deadline);
  if (has_ended)
    thread_.join();
  else
    thread_.detach();
  return core_->StopWorker(deadline) && has_ended;
}

std::string Server::path() const {
  return core_->path();
}

std::string Server::tcp_address() const {
  return core_->tcp_address();
}

}  // namespace stepwatch::control_socket
