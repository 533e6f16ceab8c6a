#include "operations/discovery/run_owners.h"

#include "operations/trace/parse_line.h"
#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

constexpr uid_t kAlice = 1000, kBob = 1001;

TEST_CASE("a run belongs to the user that named it first, and each other user has one of its own") {
  RunOwners owners;
  CHECK(owners.NameFor("llama", kAlice, 0) == "llama");
  CHECK(owners.NameFor("llama", kBob, 1) == "llama~uid1001");
  CHECK(owners.NameFor("llama", kBob, 2) == "llama~uid1001");
  CHECK(owners.NameFor("llama", kAlice, 3) == "llama");
}

TEST_CASE("a user that has taken the name of another's own run leaves that user a third one") {
  RunOwners owners;
  CHECK(owners.NameFor("llama", kAlice, 0) == "llama");
  CHECK(owners.NameFor("llama~uid1001", kAlice, 0) == "llama~uid1001");
  CHECK(owners.NameFor("llama", kBob, 0) == "llama~uid1001~uid1001");
}

TEST_CASE("a run that was not named for a week belongs to the next user that names it") {
  RunOwners owners;
  CHECK(owners.NameFor("llama", kAlice, 0) == "llama");
  CHECK(owners.NameFor("llama", kBob, RunOwners::kSecondsMax) == "llama~uid1001");
  CHECK(owners.NameFor("llama", kBob, RunOwners::kSecondsMax + 1) == "llama");
  CHECK(owners.NameFor("llama", kAlice, RunOwners::kSecondsMax + 2) == "llama~uid1000");
}

TEST_CASE("runs of one user beyond the limit push out that user's oldest only") {
  RunOwners owners;
  CHECK(owners.NameFor("of bob", kBob, 0) == "of bob");
  for (size_t i = 0; i <= RunOwners::kRunsMax; ++i) {
    const std::string run = "run" + std::to_string(i);
    CHECK(owners.NameFor(run, kAlice, 1 + static_cast<double>(i)) == run);
  }
  CHECK(owners.NameFor("of bob", kAlice, 1e4) == "of bob~uid1000");
  CHECK(owners.NameFor("run0", kBob, 1e4) == "run0");
  CHECK(owners.NameFor("run2", kBob, 1e4) == "run2~uid1001");
}

TEST_CASE("a name stays within the length that the name of a run may have, for every user") {
  RunOwners owners;
  const std::string longest(kRunBytesMax, 'x');
  for (uid_t uid = 0; uid < 5; ++uid) CHECK(owners.NameFor(longest, kBob + uid, 0).size() == kRunBytesMax);
  CHECK(owners.NameFor("", kBob, 0).empty());
}

}  // namespace
}  // namespace stepwatch::operations
