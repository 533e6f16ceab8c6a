#include "operations/logs/file_pattern.h"

#include <filesystem>

#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::operations {
namespace {

TEST_CASE("a pattern finds files, with rank and run from their paths") {
  const testing::TemporaryDirectory directory;
  for (const char* name : {"gpt/rank_0", "gpt/rank_12", "bert/rank_3", ".hidden/rank_1"})
    std::filesystem::create_directories(directory / name);
  for (const char* name : {"gpt/rank_0/out.log", "gpt/rank_12/out.log", "gpt/rank_12/.swp.log", "bert/rank_3/err.log",
                           "gpt/rank_0/notes.txt", ".hidden/rank_1/a.log"})
    testing::WriteInPlace(directory / name, "x\n");
  const FoundPaths found = FindPaths(directory / "{run}/rank_{rank}/*.log");
  REQUIRE(found.matches.size() == 3);
  CHECK(found.matches[0].path == directory / "bert/rank_3/err.log");
  CHECK(found.matches[0].run == "bert");
  CHECK(found.matches[0].rank == 3);
  CHECK(found.matches[2].rank == 12);
  CHECK(found.directories.size() == 6);
  CHECK(FindPaths(directory / "gpt/rank_0/out.log").matches.size() == 1);
  CHECK(FindPaths(directory / "none/*.log").matches.empty());
}

TEST_CASE("unusable patterns are refused with their reason") {
  CHECK(WrongPattern("/logs/{run}/rank{rank}_*.lo?").empty());
  CHECK_FALSE(WrongPattern("logs/*.log").empty());
  CHECK_FALSE(WrongPattern("/logs/**/a.log").empty());
  CHECK_FALSE(WrongPattern("/logs/").empty());
  CHECK_FALSE(WrongPattern("/logs/{node}.log").empty());
  CHECK_FALSE(WrongPattern("/*a*b*c*d*").empty());
}

TEST_CASE("digits of a rank end where the rest of the pattern begins") {
  PatternMatch found;
  CHECK(MatchesPart("rank{rank}.log*", "rank007.log.1", &found));
  CHECK(found.rank == 7);
  CHECK_FALSE(MatchesPart("rank{rank}.log", "rank.log", &found));
  CHECK_FALSE(MatchesPart("rank{rank}.log", "rank123456789.log", &found));
}

}  // namespace
}  // namespace stepwatch::operations
