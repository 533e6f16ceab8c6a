#include "controller/control_socket/left_end.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/catch.h"
#include "tests/control_socket/test_server.h"
#include "tests/temporary_directory.h"

namespace stepwatch::control_socket {
namespace {

using testing::TemporaryDirectory;

LeftEnd EndOf(int pid, std::vector<std::string> lines) {
  LeftEnd end{base::ThisProcess(), std::move(lines)};
  end.process.pid = pid;
  return end;
}

std::vector<LeftEnd> Ends(const TemporaryDirectory& directory) {
  return ReadLeftEnds(directory.path());
}

TEST_CASE("the ends that processes leave beside their control sockets are read in their order") {
  const TemporaryDirectory directory;
  REQUIRE(
      LeaveEnd(directory.path(), EndOf(7, {"{\"a\":1}", "{\"b\":2}"}), std::nullopt, base::FileSystem::Real()).ok());
  REQUIRE(LeaveEnd(directory.path(), EndOf(8, {}), std::nullopt, base::FileSystem::Real()).ok());
  const std::vector<LeftEnd> ends = Ends(directory);
  REQUIRE(ends.size() == 2);
  CHECK(ends[0].process == EndOf(7, {}).process);
  CHECK(ends[0].lines == std::vector<std::string>{"{\"a\":1}", "{\"b\":2}"});
  CHECK(ends[1].process.pid == 8);
}

TEST_CASE("the file of ends can be read and extended, whatever the umask") {
  const TemporaryDirectory directory;
  const mode_t before = ::umask(0777);
  const Status left = LeaveEnd(directory.path(), EndOf(7, {}), std::nullopt, base::FileSystem::Real());
  ::umask(before);
  REQUIRE(left.ok());
  struct stat about {};
  REQUIRE(::stat((directory / "ends.jsonl").c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0600);
}

TEST_CASE("the file of ends is bounded, and the newest ends are there") {
  const TemporaryDirectory directory;
  const std::string line(10'000, 'x');
  for (int pid = 1; pid <= 500; ++pid)
    REQUIRE(LeaveEnd(directory.path(), EndOf(pid, {line}), std::nullopt, base::FileSystem::Real()).ok());
  uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) bytes += entry.file_size();
  CHECK(bytes < 2 * kLeftEndsBytesMax + 50'000);
  const std::vector<LeftEnd> ends = Ends(directory);
  REQUIRE(ends.size() > 100);
  CHECK(ends.back().process.pid == 500);
  CHECK(ends[ends.size() - 100].process.pid == 401);
}

TEST_CASE("ends are read from, and left in, a regular file of the owner of the directory") {
  const TemporaryDirectory directory;
  const std::string path = directory / "ends.jsonl";
  REQUIRE(LeaveEnd(directory.path(), EndOf(7, {}), std::nullopt, base::FileSystem::Real()).ok());
  CHECK(Ends(directory).size() == 1);
  // A file of another user comes to lie there.
  class OthersFiles final : public base::FileSystemWrapper {
   public:
    int Fstat(int fd, struct stat* about) override {
      const int result = FileSystemWrapper::Fstat(fd, about);
      about->st_uid = ::geteuid() + 1;
      return result;
    }
  } others;
  CHECK(ReadLeftEnds(directory.path(), others).empty());
  CHECK_FALSE(LeaveEnd(directory.path(), EndOf(8, {}), std::nullopt, others).ok());
  std::filesystem::rename(path, directory / "elsewhere");
  std::filesystem::create_symlink("elsewhere", path);
  CHECK(Ends(directory).empty());
  CHECK_FALSE(LeaveEnd(directory.path(), EndOf(8, {}), std::nullopt, base::FileSystem::Real()).ok());
  std::filesystem::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(Ends(directory).empty());
  CHECK_FALSE(LeaveEnd(directory.path(), EndOf(8, {}), std::nullopt, base::FileSystem::Real()).ok());
}

TEST_CASE("the last of many lines are left") {
  std::vector<std::string> lines(100, std::string(1000, 'x'));
  lines.push_back("last");
  const std::optional<LeftEnd> end = ParseLeftEnd(LeftEndText(EndOf(1, lines)));
  REQUIRE(end);
  CHECK(end->lines.size() < 20);
  CHECK(end->lines.back() == "last");
}

TEST_CASE("lines that are not ends are ignored") {
  const TemporaryDirectory directory;
  REQUIRE(LeaveEnd(directory.path(), EndOf(7, {"{}"}), std::nullopt, base::FileSystem::Real()).ok());
  std::ofstream(directory / "ends.jsonl", std::ios::app) << "garbage\n{\"pid\":1}\n[[[[\n\n{\"host\":";
  CHECK(Ends(directory).size() == 1);
}

TEST_CASE("a directory that others can write to is ignored") {
  const TemporaryDirectory directory;
  REQUIRE(LeaveEnd(directory.path(), EndOf(7, {}), std::nullopt, base::FileSystem::Real()).ok());
  std::filesystem::permissions(directory.path(), std::filesystem::perms::all);
  CHECK(Ends(directory).empty());
}

TEST_CASE("a control socket that is closed leaves the last lines of its process beside it, and no socket") {
  const TemporaryDirectory directory;
  const auto job = std::make_shared<FakeJob>();
  job->beats = [](uint64_t number, size_t count) {
    BeatPage page;
    page.newest = 40;
    for (uint64_t i = number + 1; i <= 40 && page.lines.size() < count; ++i) page.lines.push_back(std::to_string(i));
    return page;
  };
  Server server({.directories = {directory.path()}}, job);
  server.Start();
  REQUIRE(testing::Eventually([&] { return !server.path().empty(); }));
  REQUIRE(server.Stop(std::chrono::steady_clock::now() + std::chrono::seconds(30)));
  const std::vector<LeftEnd> ends = Ends(directory);
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].process == base::ThisProcess());
  CHECK(ends[0].lines.front() == "9");
  CHECK(ends[0].lines.back() == "40");
}

}  // namespace
}  // namespace stepwatch::control_socket
