#include "src/output/anomaly_file.h"

#include <filesystem>
#include <memory>
#include <string>

#include "tests/catch.h"
#include "tests/sinks/sink_fixture.h"

namespace stepwatch::output {
namespace {

using namespace sinks::test;
using std::chrono::milliseconds;

struct File {
  explicit File(size_t bytes_max = AnomalyFile::kBytesMax) : file(directory, bytes_max) {}

  std::string Text() const { return Contents(directory + "/anomaly.json"); }

  TemporaryDirectory base;
  const std::string directory = base / "anomaly_detected/rank0";
  AnomalyFile file;
  AnomalyFile::Time now{std::chrono::hours(1)};
};

TEST_CASE("anomaly.json appears when it is wanted, as an empty object") {
  File f;
  CHECK(f.file.Advance(f.now, true).ok());
  CHECK_FALSE(std::filesystem::exists(f.directory));
  f.file.EnsureExists();
  CHECK(f.file.Advance(f.now, false).ok());
  CHECK(f.Text() == "{}\n");
  CHECK_FALSE(f.file.unsaved());
  f.file.EnsureExists();
  CHECK_FALSE(f.file.unsaved());
}

TEST_CASE("entries are saved at once, then at most once a second, or when that is asked for") {
  File f;
  f.file.Add(" \"a\": 1");
  CHECK(f.file.Advance(f.now, false).ok());
  CHECK(f.Text() == "{\n \"a\": 1\n}\n");
  f.file.Add(" \"b\": 2");
  CHECK(f.file.Advance(f.now + milliseconds(999), false).ok());
  CHECK(f.Text() == "{\n \"a\": 1\n}\n");
  CHECK(f.file.due_at() == f.now + milliseconds(1000));
  SECTION("a second later") {
    CHECK(f.file.Advance(f.now + milliseconds(1000), false).ok());
  }
  SECTION("at the end of a collection") {
    f.file.Hasten();
    CHECK(f.file.Advance(f.now + milliseconds(1), false).ok());
  }
  SECTION("at the end of the run") {
    CHECK(f.file.Advance(f.now + milliseconds(1), true).ok());
  }
  CHECK(f.Text() == "{\n \"a\": 1,\n \"b\": 2\n}\n");
  CHECK_FALSE(f.file.due_at().has_value());
}

TEST_CASE("a large file is saved less often") {
  File f;
  f.file.Add(std::string(3 * AnomalyFile::kBytesPerSecond, ' ') + "\"a\": 1");
  CHECK(f.file.Advance(f.now, false).ok());
  f.file.Add("\"b\": 2");
  CHECK(f.file.due_at() == f.now + std::chrono::seconds(4));
}

TEST_CASE("a full file takes no further entry and stays as it is") {
  File f(20);
  CHECK(f.file.Add(" \"a\": 1"));
  CHECK_FALSE(f.file.Add(" \"b\": \"too much of it\""));
  CHECK(f.file.Advance(f.now, false).ok());
  CHECK(f.Text() == "{\n \"a\": 1\n}\n");
}

TEST_CASE("the alarms of an earlier run are kept beside those of this one") {
  File f;
  std::filesystem::create_directories(f.directory);
  WriteInPlace(f.directory + "/anomaly.json", "{\n \"old\": {}\n}");
  f.file.EnsureExists();
  CHECK(f.file.Advance(f.now, false).ok());
  CHECK(ReadDirectory(f.directory) ==
        std::map<std::string, std::string>{{"anomaly.json", "{}\n"},
                                           {"stepwatch-anomaly-previous.json", "{\n \"old\": {}\n}"}});
  AnomalyFile next(f.directory);
  next.EnsureExists();
  CHECK(next.Advance(f.now, false).ok());
  CHECK(ReadDirectory(f.directory).at("stepwatch-anomaly-previous.json") == "{\n \"old\": {}\n}");
}

TEST_CASE("a directory that somebody removes is made again, with all entries") {
  File f;
  f.file.Add(" \"a\": 1");
  CHECK(f.file.Advance(f.now, true).ok());
  std::filesystem::remove_all(f.base / "anomaly_detected");
  f.file.Add(" \"b\": 2");
  CHECK(f.file.Advance(f.now, true).ok());
  CHECK(f.Text() == "{\n \"a\": 1,\n \"b\": 2\n}\n");
}

}  // namespace
}  // namespace stepwatch::output
