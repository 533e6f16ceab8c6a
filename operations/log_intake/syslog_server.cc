#include "operations/log_intake/syslog_server.h"

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "operations/log_intake/syslog_message.h"
#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;
// Limits of one connection: bytes on the way to the outputs,
constexpr size_t kAheadBytesMax = size_t{16} << 20;
// and pieces on the way to the thread of the reader, whose queue is limited.
constexpr int kUnreadMax = 4;
constexpr int kSilenceMs = 120000;

}  // namespace

class SyslogServer::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(SyslogServer* server, base::UnforkedFd fd) : server_(server), fd_(std::move(fd)), socket_(server->loop_) {
    sockets::SetUpConnection(fd_.get(), kSilenceMs);
    boost::system::error_code error;
    socket_.assign(fd_.get(), error);
    is_open_ = !error;
  }
  ~Session() { Close(); }

  void Await() {
    if (!is_open_ || awaits_) return;
    // Tick tries again.
    if (unread_ >= kUnreadMax || ahead_bytes_ >= kAheadBytesMax || server_->reader_.is_full()) return;
    awaits_ = true;
    socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [weak = weak_from_this()](const boost::system::error_code& error) {
                         const auto self = weak.lock();
                         if (!self || !self->is_open_) return;
                         self->awaits_ = false;
                         if (error) return self->End();
                         self->Read();
                       });
  }

  void Tick(double running) {
    if (!framer_.is_inside())
      begun_at_.reset();
    else if (!begun_at_)
      begun_at_ = running;
    const bool is_slow = begun_at_ && running - *begun_at_ > server_->options_.message_seconds_max;
    // A message whose end waits in the socket, because no more is read, is not slow.
    if (is_slow && awaits_) return EndBroken("a message did not end in time");
    Await();
  }

 private:
  void Read() {
    buffer_.resize(kReadBytes);
    const ssize_t size = ::recv(fd_.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return Await();
    std::vector<SyslogFrame> frames;
    if (size <= 0) {
      // The last line of a client that ends each with a line feed may lack it.
      (void)framer_.Finish(&frames);
      Pass(std::move(frames));
      return End();
    }
    const bool is_syslog = framer_.Add({buffer_.data(), static_cast<size_t>(size)}, &frames);
    if (!frames.empty()) begun_at_.reset();
    Pass(std::move(frames));
    if (!is_syslog) return EndBroken("it sends no syslog: a message begins with its length and a blank, or with <");
    Await();
  }

  void Pass(std::vector<SyslogFrame> frames) {
    if (frames.empty()) return;
    size_t bytes = 0;
    for (const SyslogFrame& frame : frames) bytes += frame.text.size();
    const auto count = static_cast<int64_t>(frames.size());
    ahead_bytes_ += bytes;
    ++unread_;
    SentLineReader::Work work;
    work.bytes = bytes;
    work.lines = [frames = std::move(frames)] {
      std::vector<SentLine> lines;
      lines.reserve(frames.size());
      for (const SyslogFrame& frame : frames) lines.push_back(ParseSyslog(frame));
      return lines;
    };
    work.on_read = [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self) return;
      --self->unread_;
      self->Await();
    };
    work.then = [weak = weak_from_this(), bytes] {
      const auto self = weak.lock();
      if (!self) return;
      self->ahead_bytes_ -= bytes;
      self->Await();
    };
    // It was read because the reader had room, so this fails only for several connections at once.
    if (!server_->reader_.Take(std::move(work))) {
      server_->counts_.lines_lost += count;
      ahead_bytes_ -= bytes;
      --unread_;
    }
  }

  void EndBroken(const std::string& why) {
    ++server_->counts_.broken;
    server_->Note("a connection for syslog was closed: " + why);
    End();
  }

  void End() {
    const auto self = shared_from_this();
    Close();
    server_->sessions_.erase(this);
  }

  void Close() {
    if (!std::exchange(is_open_, false)) return;
    if (socket_.is_open()) (void)socket_.release();
    fd_.Reset();
  }

  SyslogServer* const server_;
  base::UnforkedFd fd_;
  boost::asio::posix::stream_descriptor socket_;
  bool is_open_ = false;
  bool awaits_ = false;
  SyslogFramer framer_;
  std::string buffer_;
  std::optional<double> begun_at_;  // when the message that has not ended was first seen
  size_t ahead_bytes_ = 0;
  int unread_ = 0;
};

SyslogServer::SyslogServer(boost::asio::io_context& loop, Options options, SentLineReader* reader)
    : loop_(loop),
      options_(std::move(options)),
      reader_(*reader),
      acceptor_(loop, [this](base::UnforkedFd connection) { OnConnection(std::move(connection)); }) {
  Open();
}

SyslogServer::~SyslogServer() {
  acceptor_.Close();
  listener_.Close();
}

void SyslogServer::Open() {
  Result<sockets::TcpListener> opened = sockets::TcpListener::Open(options_.address);
  Status status = opened.status();
  if (status.ok()) {
    listener_ = std::move(opened).value();
    status = acceptor_.Open(listener_.fd());
    if (!status.ok()) listener_.Close();
  }
  const std::string where = base::Printable(options_.address, 200);
  if (!status.ok())
    return Note("logs.syslog is not open at " + where + ": " + status.message() + "; it is retried every second");
  Note("logs.syslog is open at " + listener_.address() +
       (listener_.is_loopback() ? "" : "; everyone who reaches this address can send lines of logs"));
}

void SyslogServer::OnConnection(base::UnforkedFd connection) {
  if (sessions_.size() >= options_.connections_max) {
    ++counts_.refused;
    return Note("more connections for syslog than are accepted: the newest are closed");
  }
  const auto session = std::make_shared<Session>(this, std::move(connection));
  sessions_.emplace(session.get(), session);
  session->Await();
}

void SyslogServer::Tick(double running) {
  if (!listener_.valid()) Open();
  std::vector<std::shared_ptr<Session>> sessions;
  sessions.reserve(sessions_.size());
  for (const auto& [key, session] : sessions_) sessions.push_back(session);
  for (const auto& session : sessions) session->Tick(running);
}

SyslogCounts SyslogServer::counts() const {
  SyslogCounts counts = counts_;
  counts.connections = static_cast<int64_t>(sessions_.size());
  return counts;
}

void SyslogServer::Note(const std::string& note) {
  if (note == std::exchange(last_note_, note)) return;
  options_.log(note);
}

}  // namespace stepwatch::operations
