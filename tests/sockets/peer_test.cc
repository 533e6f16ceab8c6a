#include "src/sockets/peer.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "src/base/file.h"
#include "tests/catch.h"

namespace stepwatch::sockets {
namespace {

TEST_CASE("the kernel identifies the other end of a socket") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const base::UniqueFd one(ends[0]), other(ends[1]);
  const std::optional<Peer> peer = PeerOf(one.get());
  REQUIRE(peer);
  CHECK(peer->uid == ::geteuid());
  CHECK(peer->pid == ::getpid());
  CHECK(std::find(peer->groups.begin(), peer->groups.end(), ::getegid()) != peer->groups.end());
  CHECK_FALSE(PeerOf(-1));
}

constexpr uid_t kOwner = 1000;
constexpr unsigned kOverflow = 65534;

TEST_CASE("owner and root are allowed, anybody else is not, and nobody is whom the kernel cannot name") {
  const Admission admission{kOwner, std::nullopt, kOverflow, kOverflow};
  CHECK(AccessOf(Peer{1, kOwner}, admission) == Access::kAll);
  CHECK(AccessOf(Peer{1, 0}, admission) == Access::kAll);
  CHECK(AccessOf(Peer{1, 1001}, admission) == Access::kNone);
  CHECK(AccessOf(Peer{1, 1001, {50}}, admission) == Access::kNone);
  CHECK(AccessOf(Peer{1, kOverflow}, admission) == Access::kNone);
  CHECK(AccessOf(std::nullopt, admission) == Access::kNone);
}

TEST_CASE("a user of the readers' group may read, whichever of the user's groups it is") {
  const Admission admission{kOwner, 50, kOverflow, kOverflow};
  CHECK(AccessOf(Peer{1, 1001, {7, 50}}, admission) == Access::kRead);
  CHECK(AccessOf(Peer{1, 1001, {7, 51}}, admission) == Access::kNone);
  CHECK(AccessOf(Peer{1, kOwner, {50}}, admission) == Access::kAll);
  CHECK(AccessOf(Peer{1, kOverflow, {50}}, admission) == Access::kNone);
  // A group that may be any group.
  CHECK(AccessOf(Peer{1, 1001, {kOverflow}}, {kOwner, kOverflow, kOverflow, kOverflow}) == Access::kNone);
}

TEST_CASE("a process of the overflow uid lets itself in only where that uid is nobody else's") {
  CHECK(AccessOf(Peer{1, kOverflow}, {kOverflow, std::nullopt, std::nullopt, std::nullopt}) == Access::kAll);
  const Admission narrow{kOverflow, std::nullopt, kOverflow, std::nullopt};
  CHECK(AccessOf(Peer{1, kOverflow}, narrow) == Access::kNone);
  CHECK(WhoMayAsk(narrow).find("from root only. Run it as another user") != std::string::npos);
}

TEST_CASE("a user namespace knows everybody when its map has all ids") {
  CHECK(MapsAllIds("         0          0 4294967295\n"));
  CHECK(MapsAllIds("0 0 1000\n1000 1000 4294966295\n"));
  CHECK_FALSE(MapsAllIds("         0       1000          1\n"));
  CHECK_FALSE(MapsAllIds("0 100000 65536\n"));
  CHECK_FALSE(MapsAllIds("what is this"));
  CHECK_FALSE(MapsAllIds(""));
}

TEST_CASE("a group is found by its name and by its number") {
  CHECK(FindGroup("root").value() == 0);
  CHECK(FindGroup("12345").value() == 12345);
  const auto none = FindGroup("no such\ngroup");
  REQUIRE_FALSE(none.ok());
  CHECK(none.status().message() == "unknown group no such\\x0agroup");
}

}  // namespace
}  // namespace stepwatch::sockets
