#include "controller/door/peer.h"

#include <sys/socket.h>
#include <unistd.h>

#include "src/base/file.h"
#include "tests/catch.h"

namespace stepwatch::door {
namespace {

TEST_CASE("the kernel says who is at the other end of a socket") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const base::UniqueFd one(ends[0]), other(ends[1]);
  const std::optional<Peer> peer = PeerOf(one.get());
  REQUIRE(peer);
  CHECK(peer->uid == ::geteuid());
  CHECK(peer->pid == ::getpid());
  CHECK_FALSE(PeerOf(-1));
}

TEST_CASE("owner and root are allowed, anybody else is not, and nobody is whom the kernel cannot name") {
  constexpr uid_t kOwner = 1000, kOverflow = 65534;
  CHECK(IsAllowed(Peer{1, kOwner}, kOwner, kOverflow));
  CHECK(IsAllowed(Peer{1, 0}, kOwner, kOverflow));
  CHECK_FALSE(IsAllowed(Peer{1, 1001}, kOwner, kOverflow));
  CHECK_FALSE(IsAllowed(Peer{1, kOverflow}, kOverflow, kOverflow));
  CHECK_FALSE(IsAllowed(std::nullopt, kOwner, kOverflow));
  CHECK(OverflowUid() > 0);
}

}  // namespace
}  // namespace stepwatch::door
