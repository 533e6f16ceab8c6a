// A later process and the displaced files of another one.
#include <chrono>
#include <string>

#include "tests/catch.h"
#include "tests/writeback/write_back_fixture.h"

namespace stepwatch::writeback {
namespace {

using namespace testing;

// A config that a process has just changed, and the file that it displaced.
struct Changed : ConfigPlace {
  Changed() : ConfigPlace(PlaceInMemory()) {
    WriteBackResult result = WriteBack(path);
    REQUIRE(result.displaced);
    files = Displaced(result);
    for (const std::string& name : NamesIn(directory))
      if (name != "config.json") displaced = directory / name;
  }

  std::string displaced;
  DisplacedFiles files;
};

}  // namespace

TEST_CASE("a file that was displaced a moment ago is left to the process that did it, if that is wanted") {
  Changed changed;
  testing::WriteInPlace(changed.displaced, kEdit);
  DisplacedFiles young = FindDisplaced(changed.path, base::FileSystem::Real(), std::chrono::hours(1));
  CHECK(!young.look_at());
  CHECK(young.LastLook(std::chrono::steady_clock::now()).empty());
  CHECK(Contents(changed.displaced) == kEdit);
  DisplacedFiles any = FindDisplaced(changed.path);
  LookToTheEnd(any, std::chrono::steady_clock::now());
  CHECK(Contents(changed.path) == kEdit);
}

TEST_CASE("two processes that look after one displaced file put a late edit in once, and both are done") {
  Changed changed;
  DisplacedFiles other = FindDisplaced(changed.path);
  const auto now = std::chrono::steady_clock::now();
  CHECK(changed.files.Look(now).empty());
  CHECK(other.Look(now).empty());
  testing::WriteInPlace(changed.displaced, kEdit);
  LookToTheEnd(changed.files, now);
  LookToTheEnd(other, now);
  CHECK(Contents(changed.path) == kEdit);
  CHECK(NamesIn(changed.directory) == kConfigAlone);
}

TEST_CASE("a displaced file that is found again is looked after once") {
  Changed changed;
  for (int i = 0; i < 3; ++i) changed.files.Add(FindDisplaced(changed.path));
  CHECK(changed.files.size() == 1);
}

TEST_CASE("it is known who may write to a displaced file, where there are leases") {
  Changed changed;
  CHECK(!changed.files.MayBeWrittenTo());
  base::UniqueFd writer(::open(changed.displaced.c_str(), O_WRONLY | O_CLOEXEC));
  CHECK(changed.files.MayBeWrittenTo());
  writer.Reset();
  CHECK(!changed.files.MayBeWrittenTo());
  const base::UniqueFd reader(::open(changed.displaced.c_str(), O_RDONLY | O_CLOEXEC));
  CHECK(!changed.files.MayBeWrittenTo());
}

TEST_CASE("where there are no leases, anybody may be about to write to a displaced file") {
  const ConfigPlace place(PlaceInMemory());
  HookedFiles no_leases([](std::string_view call) { return call == "F_SETLEASE" ? EINVAL : 0; });
  WriteBackResult result = WriteBack(place.path, no_leases);
  CHECK(Displaced(result).MayBeWrittenTo());
}

}  // namespace stepwatch::writeback
