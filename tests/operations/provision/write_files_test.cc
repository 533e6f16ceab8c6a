#include "operations/provision/write_files.h"

#include <set>

#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::operations {
namespace {

using testing::Contents;
using testing::TemporaryDirectory;

std::vector<WriteOutcome> Outcomes(const std::string& directory, const std::vector<ProvisionedFile>& files,
                                   bool is_forced = false) {
  const Result<std::vector<WrittenFile>> written = WriteFiles(directory, files, is_forced);
  REQUIRE(written.ok());
  std::vector<WriteOutcome> outcomes;
  for (const WrittenFile& file : written.value()) outcomes.push_back(file.outcome);
  return outcomes;
}

TEST_CASE("new files are written, equal ones stay, and files of another version are replaced") {
  TemporaryDirectory directory;
  const std::string place = directory / "a/b";
  CHECK(Outcomes(place, {{"x/y", "1"}, {"z", "2"}}) == std::vector{WriteOutcome::kWritten, WriteOutcome::kWritten});
  CHECK(Outcomes(place, {{"x/y", "1"}, {"z", "3"}}) == std::vector{WriteOutcome::kUnchanged, WriteOutcome::kWritten});
  CHECK(Contents(place + "/x/y") == "1");
  CHECK(Contents(place + "/z") == "3");
}

TEST_CASE("an edited file is kept, and replaced by force") {
  TemporaryDirectory directory;
  Outcomes(directory.path(), {{"x", "1"}});
  testing::WriteInPlace(directory / "x", "mine");
  CHECK(Outcomes(directory.path(), {{"x", "2"}}) == std::vector{WriteOutcome::kKept});
  CHECK(Contents(directory / "x") == "mine");
  CHECK(Outcomes(directory.path(), {{"x", "2"}}, true) == std::vector{WriteOutcome::kReplaced});
  CHECK(Contents(directory / "x") == "2");
  CHECK(Outcomes(directory.path(), {{"x", "3"}}) == std::vector{WriteOutcome::kWritten});
}

TEST_CASE("a file that was there before, or whose record is lost, counts as edited") {
  TemporaryDirectory directory;
  testing::WriteInPlace(directory / "x", "before");
  CHECK(Outcomes(directory.path(), {{"x", "1"}}) == std::vector{WriteOutcome::kKept});
  Outcomes(directory.path(), {{"y", "1"}});
  for (const char* record : {"", "[]", "{\"y\": 1}", "{"}) {
    testing::WriteInPlace(directory / ".stepwatch-provision.json", record);
    CHECK(Outcomes(directory.path(), {{"y", "2"}}) == std::vector{WriteOutcome::kKept});
  }
}

// Fails one rename.
class FailingRename : public base::FileSystemWrapper {
 public:
  explicit FailingRename(int number) : left_(number) {}
  int Rename(const char* from, const char* to) override {
    if (left_-- != 0) return base::FileSystemWrapper::Rename(from, to);
    errno = EIO;
    return -1;
  }

 private:
  int left_;
};

TEST_CASE("a failure at any file loses no edit and can be repeated") {
  for (int number = 0; number < 5; ++number) {
    TemporaryDirectory directory;
    Outcomes(directory.path(), {{"x", "1"}, {"y", "1"}, {"z", "1"}});
    testing::WriteInPlace(directory / "y", "mine");
    FailingRename files(number);
    CHECK_FALSE(WriteFiles(directory.path(), {{"x", "2"}, {"y", "2"}, {"z", "2"}}, false, files).ok());
    CHECK(Contents(directory / "y") == "mine");
    for (const char* name : {"/x", "/z"})
      CHECK(std::set<std::string>{"1", "2"}.count(Contents(directory.path() + name)) == 1);
    CHECK(Outcomes(directory.path(), {{"x", "2"}, {"y", "2"}, {"z", "2"}})[1] == WriteOutcome::kKept);
  }
}

}  // namespace
}  // namespace stepwatch::operations
