// Every call on sockets that the control socket's threads make fails once, with each errno that it may have: the
// trouble is reported once at most, and a repeated request is answered.
//
// The calls are the C library's, replaced for this program: they are made by Asio, too.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "tests/control_socket/test_server.h"
#include "tests/rounds.h"

namespace stepwatch::control_socket {
namespace {

thread_local bool is_visitor = false;

// The call that fails, and the calls so far, by threads that are no visitors.
class Calls {
 public:
  void Begin(const std::string& name, int number, int error_number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    name_ = name, number_ = number, error_number_ = error_number;
    counts_.clear();
    has_failed_ = false;
  }
  int Make(const char* name) {
    if (is_visitor) return 0;
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool fails = counts_[name]++ == number_ && name == name_;
    has_failed_ |= fails;
    return fails ? error_number_ : 0;
  }
  bool has_failed() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return has_failed_;
  }
  std::map<std::string, int> counts() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return counts_;
  }

 private:
  std::mutex mutex_;
  std::string name_;
  int number_ = -1;
  int error_number_ = 0;
  bool has_failed_ = false;
  std::map<std::string, int> counts_;
};

// Never destroyed: threads may outlive main.
Calls& TheCalls() {
  static Calls& calls = *new Calls;
  return calls;
}

template <class... Given>
long Make(const char* name, long number, Given... given) {
  const int saved = errno;
  if (const int error = TheCalls().Make(name)) return errno = error, -1;
  errno = saved;
  return ::syscall(number, given...);
}

}  // namespace
}  // namespace stepwatch::control_socket

extern "C" {

int socket(int domain, int type, int protocol) noexcept {
  return static_cast<int>(stepwatch::control_socket::Make("socket", SYS_socket, domain, type, protocol));
}
int bind(int fd, const sockaddr* address, socklen_t size) noexcept {
  return static_cast<int>(stepwatch::control_socket::Make("bind", SYS_bind, fd, address, size));
}
int listen(int fd, int backlog) noexcept {
  return static_cast<int>(stepwatch::control_socket::Make("listen", SYS_listen, fd, backlog));
}
int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  return static_cast<int>(stepwatch::control_socket::Make("accept4", SYS_accept4, fd, address, size, flags));
}
int connect(int fd, const sockaddr* address, socklen_t size) {
  return static_cast<int>(stepwatch::control_socket::Make("connect", SYS_connect, fd, address, size));
}
int getsockopt(int fd, int level, int name, void* value, socklen_t* size) noexcept {
  return static_cast<int>(stepwatch::control_socket::Make("getsockopt", SYS_getsockopt, fd, level, name, value, size));
}
int shutdown(int fd, int how) noexcept {
  return static_cast<int>(stepwatch::control_socket::Make("shutdown", SYS_shutdown, fd, how));
}
ssize_t recv(int fd, void* bytes, size_t size, int flags) {
  return stepwatch::control_socket::Make("recv", SYS_recvfrom, fd, bytes, size, flags, nullptr, nullptr);
}
ssize_t recvmsg(int fd, msghdr* message, int flags) {
  return stepwatch::control_socket::Make("recvmsg", SYS_recvmsg, fd, message, flags);
}
ssize_t send(int fd, const void* bytes, size_t size, int flags) {
  return stepwatch::control_socket::Make("send", SYS_sendto, fd, bytes, size, flags, nullptr, 0);
}
ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  return stepwatch::control_socket::Make("sendmsg", SYS_sendmsg, fd, message, flags);
}
int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
  return static_cast<int>(stepwatch::control_socket::Make("epoll_ctl", SYS_epoll_ctl, epoll, operation, fd, event));
}
int epoll_wait(int epoll, epoll_event* events, int count, int timeout) {
  return static_cast<int>(
      stepwatch::control_socket::Make("epoll_wait", SYS_epoll_pwait, epoll, events, count, timeout, nullptr, 8));
}

}  // extern "C"

namespace stepwatch::control_socket {
namespace {

const std::map<std::string, std::vector<int>>& Errors() {
  static const std::map<std::string, std::vector<int>> errors{
      {"socket", {EMFILE, ENFILE, ENOMEM, EACCES}},
      {"bind", {EACCES, ENOSPC, EADDRINUSE, EROFS, ENOENT, ENOMEM}},
      {"listen", {EADDRINUSE, EINVAL}},
      {"accept4", {EMFILE, ENFILE, ENOMEM, EINTR, ECONNABORTED, EPERM}},
      {"connect", {EACCES, EAGAIN, EINTR, ENOENT}},
      {"getsockopt", {EINVAL, ENOBUFS}},
      {"shutdown", {ENOTCONN}},
      {"recv", {ECONNRESET, EINTR, ENOMEM, ENOTCONN}},
      {"recvmsg", {ECONNRESET, EINTR, ENOMEM, ENOTCONN}},
      {"send", {EPIPE, ECONNRESET, EINTR, ENOBUFS}},
      {"sendmsg", {EPIPE, ECONNRESET, EINTR, ENOBUFS}},
      {"epoll_ctl", {ENOSPC, ENOMEM}},
      {"epoll_wait", {EINTR}},
  };
  return errors;
}

bool IsAnswered(TestServer* server, const std::string& method, const std::string& target,
                const std::string& body = "") {
  return Eventually([&] {
    const Result<http::Reply> reply = http::Client(server->Path()).Ask(method, target, body);
    return reply.ok() && reply.value().status == 200;
  });
}

// The life of a control socket: requests of all kinds, a client that leaves before its answer, the socket's directory
// removed and made again, the end.
void Live() {
  const size_t descriptors = testing::EntriesOf("/proc/self/fd");
  {
    TestServer server([](ServerOptions* options) { options->limits.linger_time = 20ms; });
    CHECK(IsAnswered(&server, "GET", "/v1/status"));
    CHECK(IsAnswered(&server, "POST", "/v1/validate", "{\"ops\": [\"norm\"]}"));
    CHECK(IsAnswered(&server, "GET", "/v1/latest/actv"));
    CHECK(IsAnswered(&server, "GET", "/metrics"));
    CHECK(Eventually([&] {
      const Result<http::Reply> reply = http::Client(server.Path()).Get("/v1/nowhere");
      return reply.ok() && reply.value().status == 404;
    }));
    {
      RawClient leaves(server.Path());
      (void)leaves.Send("GET /v1/sta");
    }
    Event event;
    event.message = "message";
    server.job->events.Add(event);
    CHECK(Eventually([&] {
      bool has_come = false;
      (void)http::Client(server.Path()).Follow(0, [&](const std::string&, const std::string&) {
        return has_come = true, false;
      });
      return has_come;
    }));
    CHECK(server.RemoveRuntime());
    CHECK(Eventually([&] { return std::filesystem::exists(server.runtime) && !server.server->path().empty(); }));
    CHECK(IsAnswered(&server, "GET", "/v1/status"));
    CHECK(server.Troubles().size() <= 1);
  }
  CHECK(Eventually([&] { return testing::EntriesOf("/proc/self/fd") <= descriptors; }));
}

TEST_CASE("each call on sockets in the life of a control socket fails once with every errno that it may have",
          "[slow]") {
  is_visitor = true;
  TheCalls().Begin("", -1, 0);
  Live();
  const std::map<std::string, int> counts = TheCalls().counts();
  REQUIRE(counts.count("bind") == 1);
  REQUIRE(counts.count("accept4") == 1);
  for (const auto& [name, count] : counts) {
    const auto errors = Errors().find(name);
    INFO(name);
    REQUIRE(errors != Errors().end());
    for (int number = 0; number < count; ++number) {
      const size_t every = testing::Every(4, errors->second.size());
      for (size_t i = static_cast<size_t>(number) % every; i < errors->second.size(); i += every) {
        const int error = errors->second[i];
        INFO(name << " " << number << " answers " << std::strerror(error));
        TheCalls().Begin(name, number, error);
        Live();
        CHECK((number > 0 || TheCalls().has_failed()));
      }
    }
  }
}

}  // namespace
}  // namespace stepwatch::control_socket
