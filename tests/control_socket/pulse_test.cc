// The pulse on its way through the control socket.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <nlohmann/json.hpp>

#include "controller/control_socket/pulse_client.h"
#include "controller/control_socket/pulse_grant.h"
#include "src/http/answers.h"
#include "src/json/json.h"
#include "src/sockets/unix_address.h"
#include "src/step/pulse_writer.h"
#include "tests/control_socket/test_server.h"

namespace stepwatch::control_socket {
namespace {

using step::PulseWriter;

// A control socket whose job has a pulse.
struct PulseSocket {
  PulseSocket() {
    REQUIRE(writer.Open({}).ok());
    server.job->pulse = [this] { return GrantPulse(writer); };
  }

  PulseWriter writer{0};
  TestServer server;
};

TEST_CASE("a client gets the pulse through the control socket, and follows it without further requests") {
  PulseSocket open;
  REQUIRE(open.writer.SetModules({"0:", "0:layers.3.attn"}).ok());
  const Result<PulseView> fetched = FetchPulse(open.server.Path());
  REQUIRE(fetched.status().ToString() == "ok");
  const PulseView& view = fetched.value();
  CHECK(view.Read().value().step == -1);
  open.writer.EndStep(0, PulseWriter::Clock::now());
  open.writer.MarkModule(1, true, 2);
  const vocabulary::Pulse pulse = view.Read().value();
  CHECK(pulse.step == 0);
  CHECK(view.ModuleName(pulse) == "0:layers.3.attn");
  CHECK_FALSE(view.IsOutdated());
  // The model has grown: the old table names nothing any more.
  REQUIRE(open.writer.SetModules({"0:", "0:head"}).ok());
  open.writer.MarkModule(1, true, 0);
  CHECK(view.IsOutdated());
  CHECK(view.ModuleName(view.Read().value()).empty());
  CHECK(FetchPulse(open.server.Path()).value().ModuleName(view.Read().value()) == "0:head");
}

TEST_CASE("a pulse outlives its process in the hands of its readers") {
  std::optional<PulseView> view;
  {
    PulseSocket open;
    open.writer.EndStep(41, PulseWriter::Clock::now());
    view = FetchPulse(open.server.Path()).value();
    REQUIRE(open.writer.AddLastWord(9, "{\"event\":{}}", true));
  }
  CHECK(view->Read().value().step == 41);
  REQUIRE(view->LastWords().size() == 1);
  CHECK(view->LastWords()[0].number == 9);
}

TEST_CASE("a client that accepts no descriptors gets the answer, and one that leaves does no harm") {
  PulseSocket open;
  for (int i = 0; i < 100; ++i) {
    const auto reply = open.server.client().Get("/v1/pulse");
    REQUIRE(reply.ok());
    CHECK(json::Parse(reply.value().body).value()["layout"] == vocabulary::kPulseLayout);
  }
  for (int i = 0; i < 100; ++i) {
    RawClient client(open.server.Path());
    REQUIRE(client.Send("GET /v1/pulse HTTP/1.1\r\nHost: a\r\n\r\n"));
  }
  CHECK(Eventually([&] { return FetchPulse(open.server.Path()).ok(); }));  // when they are counted out
}

TEST_CASE("a connection may ask for the pulse again and again, and for other things in between") {
  PulseSocket open;
  RawClient client(open.server.Path());
  for (const std::string target : {"/v1/pulse", "/v1/status", "/v1/pulse"}) {
    REQUIRE(client.Send("GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n"));
    const std::string answer = client.ReceiveUntil("\"version\"");
    CHECK(Has(answer, "HTTP/1.1 200"));
    CHECK_FALSE(Has(answer, "(and then"));
  }
}

TEST_CASE("a process without a pulse answers with 404") {
  TestServer server;
  CHECK(FetchPulse(server.Path()).status().code() == StatusCode::kNotFound);
}

// Answers any request with a text, and descriptors beside it.
class Impostor {
 public:
  Impostor(std::string text, std::vector<int> descriptors) {
    const auto address = *sockets::UnixAddress(path);
    REQUIRE(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(fd_.get(), 4) == 0);
    thread_ = std::thread([this, text = std::move(text), descriptors = std::move(descriptors)] {
      const base::UniqueFd guest(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      char request[4096];
      (void)::recv(guest.get(), request, sizeof request, 0);
      alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int) * 32)] = {};
      iovec part{const_cast<char*>(text.data()), text.size()};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      if (!descriptors.empty()) {
        message.msg_control = room;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
        std::memcpy(CMSG_DATA(header), descriptors.data(), sizeof(int) * descriptors.size());
      }
      (void)::sendmsg(guest.get(), &message, MSG_NOSIGNAL);
    });
  }
  ~Impostor() { thread_.join(); }

  static std::string Ok(const std::string& body) {
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }

  testing::TemporaryDirectory directory;
  const std::string path = directory / "1-1.sock";

 private:
  base::UniqueFd fd_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::thread thread_;
};

TEST_CASE("an answer without a valid pulse is refused, and leaves no descriptor open") {
  const base::UniqueFd plain(::memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(plain.get(), 65536) == 0);
  const base::UniqueFd zeroes(::memfd_create("zeroes", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(zeroes.get(), 65536) == 0);
  REQUIRE(::fcntl(zeroes.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  const base::UniqueFd huge(::memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(huge.get(), off_t{1} << 40) == 0);
  REQUIRE(::fcntl(huge.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  PulseWriter writer{0};
  REQUIRE(writer.Open({}).ok());
  const base::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const size_t before = testing::EntriesOf("/proc/self/fd");
  struct Case {
    std::string text;
    std::vector<int> descriptors;
    bool is_fine = false;
  };
  const std::string ok = Impostor::Ok("{\"names_generation\":-1}");
  for (const Case& each : std::vector<Case>{
           {ok, {}},
           {ok, {plain.get()}},
           {ok, {zeroes.get()}},
           {ok, {huge.get()}},
           {ok, {null.get()}},
           {ok, {writer.page_fd(), null.get()}},
           {ok, {writer.page_fd(), huge.get()}},
           {ok, std::vector<int>(32, null.get())},
           {"no HTTP at all", {writer.page_fd()}},
           {"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", {writer.page_fd()}},
           {"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", {writer.page_fd()}},
           {Impostor::Ok("[]"), {writer.page_fd()}, true},
           {ok, {writer.page_fd(), writer.page_fd(), writer.page_fd()}, true},
       }) {
    const Impostor impostor(each.text, each.descriptors);
    const auto fetched = FetchPulse(impostor.path, std::nullopt, 2s);
    CAPTURE(each.text, each.descriptors.size(), fetched.status().ToString());
    CHECK(fetched.ok() == each.is_fine);
  }
  CHECK(testing::EntriesOf("/proc/self/fd") == before);
}

TEST_CASE("beats are sent from the number that the reader knows") {
  TestServer server;
  server.job->beats = [](uint64_t number, size_t) {
    BeatPage page;
    page.run_id = "r\"1";
    page.rank = 2;
    page.lines = {"{\"t\":1,\"beat\":{}}", "{\"t\":2,\"beat\":{}}"};
    page.next = number + 2;
    page.newest = 9;
    page.lost = 3;
    page.dropped = 4;
    return page;
  };
  const Json answer = server.GetJson("/v1/beats?since=5");
  CHECK(answer["version"] == http::kAnswerVersion);
  CHECK(answer["run"] == "r\"1");
  CHECK(answer["next"] == 7);
  CHECK(answer["newest"] == 9);
  CHECK(answer["lost"] == 3);
  CHECK(answer["dropped"] == 4);
  REQUIRE(answer["beats"].size() == 2);
  CHECK(answer["beats"][1]["t"] == 2);
  for (const char* query : {"?since=", "?since=-1", "?since=x", "?since=5&since=6", "?after=5"})
    CHECK(server.client().Get(std::string("/v1/beats") + query).value().status == 400);
}

}  // namespace
}  // namespace stepwatch::control_socket
