// Records in a file: rotation, moved files, half lines, full disks.
#include "operations/logs/outputs/file_output.h"

#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/has.h"
#include "tests/temporary_directory.h"

namespace stepwatch::operations::outputs {
namespace {

using testing::Contents;
using testing::TemporaryDirectory;

class FilePlace {
 public:
  explicit FilePlace(const std::string& path) {
    options.settings.name = "file";
    options.settings.path = path;
    options.log = [this](const std::string& why) { troubles.push_back(why); };
  }
  void Open() { output = std::make_unique<FileOutput>(loop_, options); }
  // Adds records of one text, and waits until they are written.
  void Write(const std::string& json, int count = 1) {
    for (int i = 0; i < count; ++i) output->Add("id", json);
    REQUIRE(Until([&] { return output->safe() == output->counts().taken; }));
  }
  bool Until(const std::function<bool()>& condition) {
    return testing::Eventually([&] {
      output->Tick(running_ += 1);
      loop_.restart();
      loop_.run_for(std::chrono::milliseconds(2));
      return condition();
    });
  }

  FileOutputOptions options;
  std::vector<std::string> troubles;
  std::unique_ptr<FileOutput> output;

 private:
  boost::asio::io_context loop_;
  double running_ = 0;
};

TEST_CASE("records are lines, and a file that was moved or removed is made again") {
  TemporaryDirectory directory;
  const std::string path = directory / "records.jsonl";
  FilePlace place(path);
  place.Open();
  place.Write("{\"a\":\n1}");
  std::filesystem::rename(path, directory / "moved");
  place.Write("{\"a\":2}");
  std::filesystem::remove(path);
  place.Write("{\"a\":3}", 2);
  CHECK(Contents(directory / "moved") == "{\"a\": 1}\n");
  CHECK(Contents(path) == "{\"a\":3}\n{\"a\":3}\n");
  CHECK(place.output->counts().accepted == 4);
}

TEST_CASE("a file is rotated before it exceeds its size, and the oldest one goes") {
  TemporaryDirectory directory;
  const std::string path = directory / "r";
  FilePlace place(path);
  place.options.settings.file_mib = 1;
  place.options.settings.files = 3;
  place.Open();
  for (const char mark : {'1', '2', '3', '4'}) place.Write(std::string(700 << 10, mark));
  CHECK(testing::EntriesOf(directory.path()) == 3);
  CHECK(Contents(path).front() == '4');
  CHECK(Contents(path + ".1").front() == '3');
  CHECK(Contents(path + ".2").front() == '2');
  CHECK(Contents(path).size() == (700 << 10) + 1);
}

TEST_CASE("one file without rotated ones begins anew when it is full") {
  TemporaryDirectory directory;
  FilePlace place(directory / "r");
  place.options.settings.file_mib = 1;
  place.options.settings.files = 1;
  place.Open();
  for (const char mark : {'1', '2'}) place.Write(std::string(700 << 10, mark));
  CHECK(testing::EntriesOf(directory.path()) == 1);
  CHECK(Contents(directory / "r").front() == '2');
}

TEST_CASE("a file that a kill left with half a line goes on with a whole one") {
  TemporaryDirectory directory;
  testing::WriteInPlace(directory / "r", "{}\n{\"half\":");
  FilePlace place(directory / "r");
  place.Open();
  place.Write("{\"a\":1}", 2);
  CHECK(Contents(directory / "r") == "{}\n{\"half\":\n{\"a\":1}\n{\"a\":1}\n");
}

// Has room for some bytes.
class SmallDisk : public base::FileSystemWrapper {
 public:
  ssize_t Write(int fd, const void* bytes, size_t count) override {
    if (room == 0) {
      errno = ENOSPC;
      return -1;
    }
    const size_t part = std::min(count, room.load());
    room -= part;
    return base::FileSystemWrapper::Write(fd, bytes, part);
  }
  std::atomic<size_t> room = 10;
};

TEST_CASE("a disk that is full leaves no half line, and records wait") {
  TemporaryDirectory directory;
  SmallDisk disk;
  FilePlace place(directory / "r");
  place.options.files = &disk;
  place.Open();
  for (int i = 0; i < 5; ++i) place.output->Add("", "{\"a\":1}");
  REQUIRE(place.Until([&] { return place.output->counts().failures >= 2; }));
  CHECK(Contents(directory / "r").empty());
  CHECK(place.troubles.size() == 1);
  CHECK(place.output->safe() == 0);
  disk.room = 1 << 20;
  REQUIRE(place.Until([&] { return place.output->safe() == 5; }));
  CHECK(Contents(directory / "r") == "{\"a\":1}\n{\"a\":1}\n{\"a\":1}\n{\"a\":1}\n{\"a\":1}\n");
  disk.room = 0;
  for (int i = 0; i < 20; ++i) place.output->Add("", std::string(1 << 20, 'x'));
  CHECK(place.output->counts().waiting_bytes <= static_cast<int64_t>(kPendingBytesMax));
  CHECK(place.output->counts().dropped_bytes > (8 << 20));
}

TEST_CASE("records that wait at the end are written") {
  TemporaryDirectory directory;
  {
    FilePlace place(directory / "r");
    place.Open();
    place.output->Add("", "{}");
  }
  CHECK(Contents(directory / "r") == "{}\n");
}

}  // namespace
}  // namespace stepwatch::operations::outputs
