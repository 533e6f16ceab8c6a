#include "src/http/tcp_gate.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "src/sockets/token_file.h"
#include "tests/catch.h"
#include "tests/sockets/token.h"
#include "tests/temporary_directory.h"

namespace stepwatch::http {
namespace {

using boost::beast::http::fields;

struct Gate {
  Gate() {
    testing::WriteInPlace(directory / "token", sockets::kToken);
    REQUIRE(::chmod((directory / "token").c_str(), 0600) == 0);
    REQUIRE(token.Look().ok());
  }
  // 200: come in.
  int Judge(const std::vector<std::pair<std::string, std::string>>& header) const {
    fields all;
    for (const auto& [name, value] : header) all.insert(name, value);
    const std::optional<Answer> refusal = gate.Refusal(all);
    return refusal ? refusal->status : 200;
  }

  testing::TemporaryDirectory directory;
  sockets::TokenFile token{directory / "token", ::geteuid(), base::FileSystem::Real()};
  const TcpGate gate{"node7.cluster", token};
};

TEST_CASE("a client with the token is let in, however the scheme is spelled") {
  const Gate gate;
  for (const std::string& scheme : std::vector<std::string>{"Bearer ", "bearer ", "BEARER  "})
    CHECK(gate.Judge({{"Host", "127.0.0.1:9464"}, {"Authorization", scheme + sockets::kToken}}) == 200);
}

TEST_CASE("without the token, with another, with two, or with another scheme a client is rejected with the remedy") {
  const Gate gate;
  CHECK(gate.Judge({{"Host", "127.0.0.1"}}) == 401);
  for (const std::string& shown :
       std::vector<std::string>{"Bearer", "Bearer ", "Bearer x", "Basic " + sockets::kToken, sockets::kToken,
                                "Bearer" + sockets::kToken, "Bearer " + sockets::kToken + "," + sockets::kToken})
    CHECK(gate.Judge({{"Host", "127.0.0.1"}, {"Authorization", shown}}) == 401);
  CHECK(gate.Judge({{"Host", "127.0.0.1"},
                    {"Authorization", "Bearer " + sockets::kToken},
                    {"Authorization", "Bearer " + sockets::kToken}}) == 401);
  fields none, wrong;
  none.set("Host", "localhost"), wrong.set("Host", "localhost");
  wrong.set("Authorization", "Bearer guess");
  CHECK(gate.gate.Refusal(none)->authenticate == "Bearer realm=\"stepwatch\"");
  CHECK(gate.gate.Refusal(wrong)->authenticate == "Bearer realm=\"stepwatch\", error=\"invalid_token\"");
  CHECK(gate.gate.Refusal(wrong)->body.find("guess") == std::string::npos);
}

TEST_CASE("addresses, localhost and the given name are ours, other names have been led here") {
  const Gate gate;
  const std::string token = "Bearer " + sockets::kToken;
  for (const char* host : {"127.0.0.1", "127.0.0.1:80", "10.1.2.3:9464", "[::1]:9464", "[fe80::1]", "localhost",
                           "LocalHost:9464", "node7.cluster", "Node7.Cluster:9464"})
    CHECK(gate.Judge({{"Host", host}, {"Authorization", token}}) == 200);
  for (const char* host : {"evil.example", "evil.example:9464", "127.0.0.1.evil.example", "localhost.evil.example",
                           "node7.cluster.evil.example", "", ":9464", "[evil]", "[", "[::1", "]", "127.0.0.1@evil"})
    CHECK(gate.Judge({{"Host", host}, {"Authorization", token}}) == 403);
  CHECK(gate.Judge({{"Authorization", token}}) == 400);
  CHECK(gate.Judge({{"Host", "localhost"}, {"Host", "evil.example"}, {"Authorization", token}}) == 400);
}

TEST_CASE("a browser is refused whatever it shows") {
  const Gate gate;
  for (const char* origin : {"http://evil.example", "null", "http://127.0.0.1:9464", ""})
    CHECK(gate.Judge({{"Host", "127.0.0.1"}, {"Origin", origin}, {"Authorization", "Bearer " + sockets::kToken}}) ==
          403);
}

}  // namespace
}  // namespace stepwatch::http
