// Any bytes to a session of the control socket, over a socket pair: it ends by itself, within its time, and all of its
// output is HTTP. The first byte selects the caller: the owner, a reader, or somebody on the network, who never gets
// anything that the token is for.

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cctype>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "controller/control_socket/handler.h"
#include "controller/control_socket/request_log.h"
#include "src/base/file.h"
#include "src/http/handler.h"
#include "src/http/limits.h"
#include "src/http/session.h"
#include "src/http/tcp_gate.h"
#include "src/sockets/token_file.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

using namespace stepwatch;
using namespace stepwatch::control_socket;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

class QuietJob final : public Job {
 public:
  status::JobStatus GetStatus() override { return {}; }
  EventPage EventsAfter(uint64_t, size_t) override { return {}; }
  void Tick() override {}
  std::vector<LatestValue> Latest(SiteKind, milliseconds) override { return {}; }
  DoctorReport Examine() override { return {}; }
  void ChangeConfig(status::ConfigChange, std::function<void(const status::ChangeReport&)> then) override { then({}); }
  void ReadHistory(std::function<void(const HistoryReport&)> then) override { then({}); }
  void ReadConfig(const std::string&, std::function<void(const Result<std::string>&)> then) override {
    then(Status(StatusCode::kNotFound, "none is kept"));
  }
  Result<PlanPreview> Preview(const std::string&) override { return Status(StatusCode::kUnavailable, "no model"); }
  status::PauseResult Pause(bool, milliseconds) override { return {}; }
  status::RotateResult Rotate(milliseconds) override { return {}; }
  bool Leads() const override { return true; }
  void AskRanks(const std::string&, milliseconds, std::function<void(Result<RankWords>)> then) override {
    then(RankWords{});
  }
  void Forward(const std::string&, milliseconds, bool, std::function<void(Result<std::string>)> then) override {
    then(Status(StatusCode::kUnavailable, "this is rank 0"));
  }
};

// Does at once what it is given.
class NoWorker final : public base::IoExecutor {
 public:
  bool Post(std::function<void()> task) override {
    task();
    return true;
  }
};

// A file with the token, for the life of the program.
const sockets::TokenFile& Token() {
  static const sockets::TokenFile& token = [&]() -> sockets::TokenFile& {
    char path[] = "/tmp/stepwatch-http-fuzz-XXXXXX";
    const base::UniqueFd file(::mkstemp(path));
    FUZZ_CHECK(base::WriteAll(file.get(), kToken).ok());
    auto* made = new sockets::TokenFile(path, ::geteuid(), base::FileSystem::Real());
    FUZZ_CHECK(made->Look().ok());
    ::unlink(path);
    return *made;
  }();
  return token;
}

struct Response {
  std::string text;
  bool ended = false;
};

Response Send(http::Caller caller, std::string_view bytes) {
  boost::asio::io_context context(1);
  http::Limits limits;
  limits.idle_time = limits.header_time = limits.body_time = limits.linger_time = limits.send_time = milliseconds(100);
  NoWorker worker;
  const auto owner = std::make_shared<int>(0);
  Response response;
  JobHandler handler({std::make_shared<QuietJob>(), &worker, std::make_shared<RequestLog>(), owner}, limits);
  const auto shared = std::make_shared<http::Session::Shared>(http::Session::Shared{
      context, &handler, limits, "stepwatch", ": open\n\n", {}, owner, [&](http::Session*) { response.ended = true; }});
  int ends[2] = {-1, -1};
  base::UnforkedFd server = base::UnforkedFd::Make(
      [&] { return ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0 ? ends[0] : -1; });
  base::UniqueFd other(ends[1]);
  FUZZ_CHECK(server.valid());
  FUZZ_CHECK(::send(other.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
  FUZZ_CHECK(::shutdown(other.get(), SHUT_WR) == 0);
  auto session = std::make_shared<http::Session>(shared, std::move(server), std::move(caller));
  session->Start();
  session.reset();
  context.run_for(std::chrono::seconds(5));
  FUZZ_CHECK(response.ended);
  char page[4096];
  for (ssize_t got; (got = ::recv(other.get(), page, sizeof page, 0)) > 0;)
    response.text.append(page, static_cast<size_t>(got));
  return response;
}

bool IsAnswer(std::string_view text) {
  return text.starts_with("HTTP/1.1 ") && text.size() > 12 && std::isdigit(static_cast<unsigned char>(text[9])) != 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto gate = std::make_shared<const http::TcpGate>("node7", Token());
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, std::min<size_t>(size - 1, 64 << 10));
  http::Caller caller;
  const int who = data[0] % 3;
  if (who == 1) caller.access = sockets::Access::kRead;
  if (who == 2) caller.gate = gate;
  const Response response = Send(caller, bytes);
  FUZZ_CHECK(response.text.empty() || IsAnswer(response.text));
  FUZZ_CHECK(response.text.find("HTTP/1.1 500") == std::string::npos);
  if (who != 2 || bytes.find(kToken) != std::string_view::npos) return 0;
  // Parts of a status, and the token, which no answer contains.
  FUZZ_CHECK(response.text.find("\"world_size\"") == std::string::npos);
  FUZZ_CHECK(response.text.find(kToken) == std::string::npos);
  return 0;
}
