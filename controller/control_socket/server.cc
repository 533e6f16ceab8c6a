#include "controller/control_socket/server.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <new>
#include <optional>
#include <utility>

#include "controller/control_socket/forward.h"
#include "controller/control_socket/handler.h"
#include "controller/control_socket/left_end.h"
#include "controller/control_socket/perform.h"
#include "controller/control_socket/request_log.h"
#include "src/base/file.h"
#include "src/base/io_executor.h"
#include "src/base/mutex.h"
#include "src/base/worker_thread.h"
#include "src/http/answers.h"
#include "src/http/server.h"
#include "src/sockets/runtime_directory.h"
#include "src/sockets/unix_listener.h"
#include "stepwatch/version.h"

namespace stepwatch::control_socket {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kStopTime{1};
constexpr uint64_t kLinesLeft = 32;

}  // namespace

// Members belong to the control socket's thread, except the methods listed under "any thread".
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
  void Prepare();
  http::ServerOptions HttpOptions();
  void Tick();
  bool IsInPlace(const sockets::UnixListener& listener) const;
  Result<sockets::UnixListener> Bind(sockets::Admission* admission);
  void LeaveLastLines();
  void ReportNote(const std::string& note);
  void FindReaders();
  void SetPaths();
  void Finish();

  const ServerOptions options_;
  std::shared_ptr<Job> job_;
  base::IoThread worker_{"stepwatch-ask"};

  boost::asio::io_context context_{1};
  // Created by the thread, which may run out of memory.
  std::optional<JobHandler> handler_;
  std::optional<http::Server> http_;
  boost::asio::steady_timer tick_{context_};
  boost::asio::steady_timer finish_time_{context_};
  std::string last_path_;  // path at which the socket was last opened
  bool trouble_reported_ = false;
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
  } catch (const std::exception&) {  // no memory: the server answers no requests
  }
  for (;;) {
    try {
      context_.run();
      break;
    } catch (const std::exception&) {  // ends one connection or tick; the others continue
    }
  }
  try {
    if (http_) http_->Close();
    context_.restart();
    context_.poll();
  } catch (const std::exception&) {
  }
  job_.reset();
  if (handler_) handler_->LetGoOfJob();
  const base::MutexLock lock(&mutex_);
  ended_ = true;
  end_.NotifyAll();
}

void Server::Core::Prepare() {
  handler_.emplace(Workplace{job_, &worker_, std::make_shared<RequestLog>(), weak_from_this()}, options_.limits);
  http_.emplace(context_, HttpOptions(), &*handler_);
  http_->SetTcp(options_.tcp);
  FindReaders();
  tick_.expires_after(milliseconds(0));
  tick_.async_wait([this](const boost::system::error_code& error) {
    if (!error) Tick();
  });
}

http::ServerOptions Server::Core::HttpOptions() {
  http::ServerOptions http;
  http.bind = [this](sockets::Admission* admission) { return Bind(admission); };
  http.is_in_place = [this](const sockets::UnixListener& listener) { return IsInPlace(listener); };
  http.name = std::string("stepwatch/") + kVersion;
  http.heartbeat = ": the control socket is open\n\n";
  http.limits = options_.limits;
  http.sheds_silent = true;
  http.owner = weak_from_this();
  http.on_note = [this](const std::string& note) { ReportNote(note); };
  http.credentials_of = options_.credentials_of;
  http.files = options_.files;
  return http;
}

void Server::Core::Tick() {
  tick_.expires_after(options_.limits.tick);
  tick_.async_wait([this](const boost::system::error_code& error) {
    if (!error) Tick();
  });
  if (finishes_) return;
  job_->Tick();
  const Status opened = http_->Tick();
  if (!opened.ok() && !std::exchange(trouble_reported_, true) && options_.on_trouble)
    options_.on_trouble(opened.message());
  if (opened.ok()) {
    trouble_reported_ = false;
    const std::string before = std::exchange(last_path_, http_->path());
    if (!before.empty() && before != last_path_)
      ReportNote("the socket of this job has moved from " + before + " to " + last_path_);
  }
  SetPaths();
}

// --- the socket ---

// Clients ignore a directory that is a symlink or accessible to others. A directory that precedes it in the list may
// have been created after the socket.
bool Server::Core::IsInPlace(const sockets::UnixListener& listener) const {
  const uid_t owner = ::geteuid();
  const std::string directory = base::DirectoryOf(listener.path());
  if (!listener.IsInPlace() || !sockets::CheckRuntimeDirectory(directory, owner, *options_.files).ok()) return false;
  const auto own = std::find(options_.directories.begin(), options_.directories.end(), directory);
  const std::vector<std::string> before(options_.directories.begin(), own);
  return before.empty() || !sockets::OpenRuntimeDirectory(before, owner, *options_.files).ok();
}

Result<sockets::UnixListener> Server::Core::Bind(sockets::Admission* admission) {
  base::FileSystem& files = *options_.files;
  const Result<std::string> directory = sockets::OpenRuntimeDirectory(options_.directories, admission->owner, files);
  if (!directory.ok()) return directory.status();
  if (admission->readers)
    if (const Status shared = sockets::LetGroupThrough(*admission->readers, directory.value(), files); !shared.ok()) {
      admission->readers.reset();
      ReportNote("the control socket admits no readers' group: " + shared.message());
    }
  Result<sockets::UnixListener> opened =
      sockets::UnixListener::Open(directory.value(), ::getpid(), files, admission->readers);
  if (!opened.ok()) return opened;
  // The directory may have been replaced since it was checked.
  Status still = sockets::CheckRuntimeDirectory(directory.value(), admission->owner, files);
  if (still.ok()) return opened;
  opened.value().Close();
  return still;
}

// If the group is unknown, the control socket opens for the user alone.
void Server::Core::FindReaders() {
  if (options_.readers.empty()) return;
  sockets::Admission& admission = http_->admission();
  const Result<gid_t> group = sockets::FindGroup(options_.readers);
  if (!group.ok()) return ReportNote("the control socket admits no readers' group: " + group.status().message());
  if (group.value() == admission.overflow_gid)
    return ReportNote("the control socket admits no readers' group: group " + std::to_string(group.value()) +
                      " stands for every group that is not mapped in this user namespace");
  admission.readers = group.value();
}

void Server::Core::ReportNote(const std::string& note) {
  if (options_.on_note) options_.on_note(note);
}

// Writes beside the socket. If that fails, a later reader finds no end, as for a killed process.
void Server::Core::LeaveLastLines() {
  if (!http_->listener().valid()) return;
  const uint64_t newest = job_->BeatsAfter(0, 1).newest;
  if (newest == 0) return;
  base::FileSystem& files = *options_.files;
  const LeftEnd end{base::ThisProcess(files),
                    job_->BeatsAfter(newest > kLinesLeft ? newest - kLinesLeft : 0, kLinesLeft).lines};
  (void)LeaveEnd(base::DirectoryOf(http_->path()), end, http_->admission().readers, files);
}

void Server::Core::SetPaths() {
  const base::MutexLock lock(&mutex_);
  path_ = http_->path();
  tcp_address_ = http_->tcp_address();
}

std::string Server::Core::path() const {
  const base::MutexLock lock(&mutex_);
  return path_;
}

std::string Server::Core::tcp_address() const {
  const base::MutexLock lock(&mutex_);
  return tcp_address_;
}

void Server::Core::Wake() noexcept {
  if (is_woken_.exchange(true)) return;
  try {
    boost::asio::post(context_, [this] {
      is_woken_ = false;
      if (http_) http_->Wake();
    });
  } catch (const std::bad_alloc&) {  // the next event or heartbeat tries again
    is_woken_ = false;
  }
}

void Server::Core::AnswerForwarded(int rank, std::string text_untrusted, std::function<void(std::string)> then) {
  boost::asio::post(context_, [this, rank, text = std::move(text_untrusted), then = std::move(then)] {
    const bool is_open = !finishes_ && handler_;
    const bool is_taken = is_open && control_socket::AnswerForwarded(handler_->place(), rank, text, then);
    if (!is_taken) then(AnswerText(http::Busy("the control socket of rank 0 is overloaded or closing; try again")));
  });
}

// --- the end ---

void Server::Core::BeginToFinish() {
  boost::asio::post(context_, [this] { Finish(); });
}

void Server::Core::Finish() {
  finishes_ = true;
  if (!http_) return context_.stop();
  LeaveLastLines();
  finish_time_.expires_after(options_.limits.finish_time);
  finish_time_.async_wait([this](const boost::system::error_code&) { context_.stop(); });
  http_->Finish([this] { context_.stop(); });
  SetPaths();
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
  // In a forked child the threads do not exist, and their data may be in any intermediate state, so it is leaked.
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
