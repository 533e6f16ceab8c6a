// Against a server that speaks as the one of NCCL 2.24 and later does, by its source.
#include "operations/log_intake/nccl_ras.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <string>
#include <thread>

#include "src/base/file.h"
#include "src/sockets/tcp_listener.h"
#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/has.h"

namespace stepwatch::operations {
namespace {

using testing::Has;
using Clock = std::chrono::steady_clock;

constexpr const char* kStatus =
    "NCCL version 2.24.3 compiled with CUDA 12.6\n"
    "CUDA runtime version 12060, driver version 12060\n\n"
    "Job summary\n===========\n\n"
    "  Nodes  Processes         GPUs  Processes     GPUs\n"
    "(total)   per node  per process    (total)  (total)\n"
    "      1          2            1          2        2\n"
    "\nCommunicators...";
constexpr const char* kRest =
    " (0.00s)\n=============\n\nGroup     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
    "    #  in group  per comm  per node  per comm  in group\n"
    "    0         1         1         2         2         2   RUNNING  MISMATCH\n\nWarnings\n========\n\n"
    "#0-0 (27a079b828ff1a75) MISMATCH\n  Communicator ranks have different collective operation counts\n"
    "  1 ranks have launched up to operation 3\n  Rank 1 -- GPU 1 managed by process 12 on node 10.0.0.1\n";

// Accepts one connection, and answers each line by the script.
class FakeRas {
 public:
  explicit FakeRas(bool answers = true, std::string hello = "SERVER PROTOCOL 2\n") {
    auto opened = sockets::TcpListener::Open("127.0.0.1:0");
    REQUIRE(opened.ok());
    listener_ = std::move(opened).value();
    thread_ = std::thread([this, answers, hello] { Serve(answers, hello); });
  }
  ~FakeRas() {
    ::shutdown(listener_.fd(), SHUT_RDWR);
    thread_.join();
  }
  std::string address() const { return listener_.address(); }
  std::string sent;

 private:
  void Serve(bool answers, const std::string& hello) {
    base::UniqueFd fd;
    while (!fd.valid()) {
      fd = base::UniqueFd(::accept(listener_.fd(), nullptr, nullptr));
      if (!fd.valid() && errno != EAGAIN) return;
    }
    const auto send = [&fd](const std::string& text) {
      (void)::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
    };
    char bytes[256];
    for (ssize_t size = 0; (size = ::recv(fd.get(), bytes, sizeof bytes, 0)) > 0;) {
      sent.append(bytes, static_cast<size_t>(size));
      if (!answers) continue;
      if (sent == "CLIENT PROTOCOL 2\n") send(hello);
      if (Has(sent, "VERBOSE STATUS\n")) {
        send(kStatus);
        send(kRest);
        return;
      }
    }
  }

  sockets::TcpListener listener_;
  std::thread thread_;
};

TEST_CASE("the status of the job is read to its end") {
  FakeRas ras;
  const Result<std::string> answer = AskNcclRas(ras.address(), Clock::now() + std::chrono::minutes(1));
  INFO(answer.status().message());
  REQUIRE(answer.ok());
  CHECK(Has(answer.value(), "Job summary"));
  CHECK(Has(answer.value(), "Rank 1 -- GPU 1 managed by process 12 on node 10.0.0.1"));
}

TEST_CASE("a server that does not answer costs no more than the deadline") {
  FakeRas ras(false);
  const Result<std::string> answer = AskNcclRas(ras.address(), Clock::now() + std::chrono::milliseconds(20));
  REQUIRE_FALSE(answer.ok());
  CHECK(answer.status().code() == StatusCode::kUnavailable);
}

TEST_CASE("another server, and no server, are told apart") {
  FakeRas other(true, "HTTP/1.1 400 Bad Request\n");
  const auto deadline = Clock::now() + std::chrono::minutes(1);
  CHECK(AskNcclRas(other.address(), deadline).status().code() == StatusCode::kInvalid);
  std::string free;
  {
    auto opened = sockets::TcpListener::Open("127.0.0.1:0");
    REQUIRE(opened.ok());
    free = opened.value().address();
  }
  CHECK(AskNcclRas(free, deadline).status().code() == StatusCode::kNotFound);
  CHECK(AskNcclRas("name.of.a.host:28028", deadline).status().code() == StatusCode::kInvalid);
  CHECK(AskNcclRas("localhost", deadline).status().code() == StatusCode::kInvalid);
}

TEST_CASE("the answer is reported on the loop") {
  FakeRas ras;
  boost::asio::io_context loop;
  std::string run, text;
  NcclRas asking(loop, {.address = ras.address(),
                        .report =
                            [&](const std::string& of, const std::string& answer) {
                              run = of;
                              text = answer;
                            },
                        .log = [](const std::string&) {}});
  asking.Ask("r1");
  asking.Ask("r2");  // one question at a time
  REQUIRE(testing::Eventually([&] {
    loop.restart();
    loop.poll();
    return !run.empty();
  }));
  CHECK(run == "r1");
  CHECK(Has(text, "MISMATCH"));
}

}  // namespace
}  // namespace stepwatch::operations
