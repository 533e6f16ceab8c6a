#include "src/base/byte_room.h"

#include <vector>

#include "tests/catch.h"

namespace stepwatch::base {
namespace {

TEST_CASE("a share is taken while the room has its bytes left, and given back when it goes") {
  ByteRoom room(100);
  std::optional<ByteRoom::Share> most = room.Take(60);
  CHECK(most.has_value());
  CHECK_FALSE(room.Take(41).has_value());
  {
    const std::optional<ByteRoom::Share> rest = room.Take(40);
    CHECK(rest.has_value());
    CHECK(room.Take(0).has_value());
    CHECK_FALSE(room.Take(1).has_value());
  }
  most.reset();
  CHECK(room.Take(100).has_value());
}

TEST_CASE("a share that is moved is given back once") {
  ByteRoom room(100);
  {
    std::vector<ByteRoom::Share> shares;
    for (int i = 0; i < 10; ++i) shares.push_back(*room.Take(10));
    CHECK_FALSE(room.Take(1).has_value());
    shares.front() = std::move(shares.back());
    shares.pop_back();
    CHECK_FALSE(room.Take(11).has_value());
    CHECK(room.Take(10).has_value());
  }
  CHECK(room.Take(100).has_value());
  CHECK_FALSE(room.Take(101).has_value());
}

TEST_CASE("copies of a room have the same bytes, and a share may outlive all of them") {
  std::optional<ByteRoom> room(100);
  ByteRoom copy = *room;
  std::optional<ByteRoom::Share> share = copy.Take(70);
  CHECK_FALSE(room->Take(31).has_value());
  room.reset();
  CHECK_FALSE(copy.Take(31).has_value());
  share.reset();
  CHECK(copy.Take(100).has_value());
}

}  // namespace
}  // namespace stepwatch::base
