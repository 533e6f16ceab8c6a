#include "controller/watch/path_chain.h"

#include <filesystem>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::watch {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;
using testing::WriteInPlace;

std::vector<std::string> Directories(const std::string& path) {
  std::vector<std::string> paths;
  for (const PathNode& node : ResolveChain(path).directories) paths.push_back(node.path);
  return paths;
}

}  // namespace

TEST_CASE("a plain file's chain is its directory") {
  TemporaryDirectory directory;
  WriteInPlace(directory / "config.json", "{}");
  CHECK(Directories(directory / "config.json") == std::vector<std::string>{directory.path()});
  CHECK(ResolveChain(directory / "config.json").target.path == directory / "config.json");
  CHECK(Directories(directory / "./x/..//config.json") == std::vector<std::string>{directory.path()});
}

TEST_CASE("a ConfigMap's chain holds both directories and changes when its data link is swapped") {
  TemporaryDirectory directory;
  for (const char* version : {"..v1", "..v2"}) {
    fs::create_directory(directory / version);
    WriteInPlace(directory / (std::string(version) + "/config.json"), version);
  }
  fs::create_symlink("..v1", directory / "..data");
  fs::create_symlink("..data/config.json", directory / "config.json");
  const PathChain before = ResolveChain(directory / "config.json");
  CHECK(Directories(directory / "config.json") == std::vector<std::string>{directory.path(), directory / "..v1"});
  CHECK(before.target.path == directory / "..v1/config.json");

  fs::create_symlink("..v2", directory / "..data_tmp");
  fs::rename(directory / "..data_tmp", directory / "..data");
  const PathChain after = ResolveChain(directory / "config.json");
  CHECK(after != before);
  CHECK(after.target.path == directory / "..v2/config.json");
}

TEST_CASE("every hop of a chain of links, relative or absolute, is in it") {
  TemporaryDirectory directory;
  for (const char* name : {"a", "b", "c", "d"}) fs::create_directory(directory / name);
  fs::create_symlink("../b/config.json", directory / "a/config.json");
  fs::create_symlink(directory / "c/config.json", directory / "b/config.json");
  fs::create_symlink("../d/real.json", directory / "c/config.json");
  WriteInPlace(directory / "d/real.json", "{}");
  CHECK(Directories(directory / "a/config.json") ==
        std::vector<std::string>{directory / "a", directory / "b", directory / "c", directory / "d"});
}

TEST_CASE("a missing part is watched for in the nearest directory that exists") {
  TemporaryDirectory directory;
  CHECK(Directories(directory / "config.json") == std::vector<std::string>{directory.path()});
  CHECK(Directories(directory / "x/y/config.json") == std::vector<std::string>{directory.path()});
  CHECK(ResolveChain(directory / "x/y/config.json").target.path.empty());
  WriteInPlace(directory / "file", "");
  CHECK(Directories(directory / "file/config.json") == std::vector<std::string>{directory.path()});
}

TEST_CASE("a directory replaced by another of the same name is another chain") {
  TemporaryDirectory directory;
  fs::create_directory(directory / "d");
  WriteInPlace(directory / "d/config.json", "{}");
  const PathChain before = ResolveChain(directory / "d/config.json");
  CHECK(before == ResolveChain(directory / "d/config.json"));
  fs::rename(directory / "d", directory / "d2");
  fs::create_directory(directory / "d");
  WriteInPlace(directory / "d/config.json", "{}");
  CHECK(before != ResolveChain(directory / "d/config.json"));
}

TEST_CASE("a loop of links ends") {
  TemporaryDirectory directory;
  fs::create_symlink("b", directory / "a");
  fs::create_symlink("a", directory / "b");
  CHECK(Directories(directory / "a") == std::vector<std::string>{directory.path()});
  CHECK(ResolveChain(directory / "a").target.path.empty());
}

TEST_CASE("strange paths have a chain and no trouble") {
  CHECK(Directories("/").empty());
  CHECK(Directories("").empty());
  CHECK(Directories("/../../config.json") == std::vector<std::string>{"/"});
  CHECK(Directories("relative.json").size() == 1);
  CHECK(ResolveChain("/proc/self/exe").target.path.empty() == false);
}

}  // namespace stepwatch::watch
