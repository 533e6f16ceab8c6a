#include "operations/logs/file_follower.h"

#include <zlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>

#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::operations {
namespace {

void Append(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::app | std::ios::binary) << bytes;
}

void Compress(const std::string& path) {
  const std::string bytes = testing::Contents(path);
  const gzFile file = ::gzopen((path + ".gz").c_str(), "wb");
  ::gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  ::gzclose(file);
  std::filesystem::remove(path);
}

double Wall() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

using Texts = std::vector<std::string>;

struct Followed {
  explicit Followed(const std::string& pattern = "*.log") {
    options.pattern = directory / pattern;
    options.state_file = directory / "positions.json";
    options.new_identity = [this] { return "text" + std::to_string(++identities); };
    Restart();
  }

  void Restart() { follower = std::make_unique<FileFollower>(options); }
  // All new lines, committed.
  Texts Read(double later = 0) {
    now += later;
    Texts texts;
    FollowedBatch batch;
    do {
      batch = follower->Read(now, true);
      for (const FollowedLine& line : batch.lines) {
        texts.push_back(line.text);
        follower->Commit({{line.identity, line.end, line.ends_inside}}, now);
      }
      for (const std::string& note : batch.notes) notes.push_back(note);
      last = batch.lines.empty() ? last : batch.lines.back();
    } while (batch.has_more);
    return texts;
  }

  testing::TemporaryDirectory directory;
  FollowerOptions options;
  std::unique_ptr<FileFollower> follower;
  double now = Wall();
  int identities = 0;
  Texts notes;
  FollowedLine last;
};

TEST_CASE("a follower passes on whole lines with ids, rank and run") {
  Followed followed("{run}_{rank}.log");
  const std::string path = followed.directory / "gpt_7.log";
  Append(path, "one\ntwo\nthr");
  CHECK(followed.Read() == Texts{"one", "two"});
  CHECK(followed.last.Id() == "text1:4");
  CHECK(followed.last.source->rank == 7);
  CHECK(followed.last.source->run == "gpt");
  Append(path, "ee\n");
  CHECK(followed.Read() == Texts{"three"});
  CHECK(followed.Read().empty());
  followed.Restart();
  CHECK(followed.Read().empty());
  Append(path, "four\n");
  CHECK(followed.Read() == Texts{"four"});
  CHECK(followed.last.Id() == "text1:14");
}

TEST_CASE("lines that were not committed come again with the same ids") {
  Followed followed;
  Append(followed.directory / "a.log", "one\ntwo\n");
  const FollowedBatch first = followed.follower->Read(followed.now, true);
  followed.Restart();
  const FollowedBatch again = followed.follower->Read(followed.now, true);
  REQUIRE(first.lines.size() == 2);
  REQUIRE(again.lines.size() == 2);
  CHECK(first.lines[1].Id() == again.lines[1].Id());
  CHECK(again.lines[1].may_repeat);
  CHECK_FALSE(first.lines[1].may_repeat);
}

TEST_CASE("a file is read to its end after it was renamed, and after it was removed") {
  Followed followed;
  const std::string path = followed.directory / "a.log";
  std::ofstream writer(path, std::ios::app);
  writer << "one\n" << std::flush;
  CHECK(followed.Read() == Texts{"one"});
  std::filesystem::rename(path, path + ".1");
  writer << "two\n" << std::flush;
  Append(path, "three\n");
  CHECK(followed.Read(1) == Texts{"two", "three"});
  std::filesystem::remove(path + ".1");
  writer << "last without an end" << std::flush;
  CHECK(followed.Read(1).empty());
  CHECK(followed.Read(20).empty());  // it has grown a moment ago
  CHECK(followed.Read(20) == Texts{"last without an end"});
  CHECK(followed.follower->counts().files == 1);
}

TEST_CASE("a compressed file is not read twice, and read on where it was not read") {
  for (const bool is_away : {false, true}) {
    Followed followed("a.log*");
    const std::string path = followed.directory / "a.log";
    Append(path, "one\n");
    CHECK(followed.Read() == Texts{"one"});
    if (!is_away) {
      Append(path, "two\n");
      CHECK(followed.Read() == Texts{"two"});
    } else {
      followed.follower.reset();
      Append(path, "two\n");
    }
    std::filesystem::rename(path, path + ".1");
    Compress(path + ".1");
    Append(path, "three\n");
    if (is_away) followed.Restart();
    const Texts expected = is_away ? Texts{"two", "three"} : Texts{"three"};
    CHECK(followed.Read(1) == expected);
    for (int i = 0; i < 5; ++i) CHECK(followed.Read(20).empty());
    followed.Restart();
    CHECK(followed.Read(1).empty());
  }
}

TEST_CASE("a truncation is reported, and the rest of the text is read from its copy") {
  Followed followed;
  const std::string path = followed.directory / "a.log";
  Append(path, "one\n");
  CHECK(followed.Read() == Texts{"one"});
  Append(path, "two\n");
  std::filesystem::copy_file(path, path + ".1");
  std::filesystem::resize_file(path, 0);
  Append(path, "three, which is longer\n");
  CHECK(followed.Read(1) == Texts{"two", "three, which is longer"});
  CHECK(followed.notes.size() == 1);
  CHECK(followed.follower->counts().truncations == 1);
}

TEST_CASE("a writer without O_APPEND leaves NUL bytes after a truncation") {
  Followed followed;
  const std::string path = followed.directory / "a.log";
  std::ofstream writer(path);
  writer << "one\ntwo\n" << std::flush;
  CHECK(followed.Read().size() == 2);
  std::filesystem::resize_file(path, 0);
  writer << "three\n" << std::flush;
  CHECK(std::filesystem::file_size(path) == 14);
  CHECK(followed.Read(1) == Texts{"three"});
}

TEST_CASE("another file with the inode of a known one is read from its beginning") {
  Followed followed;
  const std::string path = followed.directory / "a.log";
  Append(path, "one\ntwo\n");
  CHECK(followed.Read().size() == 2);
  followed.follower.reset();
  // The same inode with another text, as after its reuse.
  testing::WriteInPlace(path, "new one\nnew two\nnew three\n");
  followed.Restart();
  CHECK(followed.Read(1) == Texts{"new one", "new two", "new three"});
  CHECK(followed.last.identity == "text2");
}

TEST_CASE("a long line is cut, and its rest is not passed on after a restart either") {
  Followed followed;
  followed.options.line_bytes_max = 100;
  followed.options.turn_bytes = 64;
  followed.Restart();
  const std::string path = followed.directory / "a.log";
  Append(path, std::string(150, 'x'));
  CHECK(followed.Read() == Texts{std::string(100, 'x')});
  CHECK(followed.last.ends_inside);
  followed.Restart();
  Append(path, std::string(50, 'x') + "\nnext\n");
  CHECK(followed.Read(1) == Texts{"next"});
}

TEST_CASE("many lines in one file do not keep those of others waiting") {
  Followed followed;
  followed.options.turn_bytes = 100;
  followed.options.batch_bytes = 1000;
  followed.Restart();
  for (int i = 0; i < 1000; ++i) Append(followed.directory / "a.log", "of a\n");
  Append(followed.directory / "b.log", "of b\n");
  const FollowedBatch batch = followed.follower->Read(followed.now, true);
  CHECK(batch.has_more);
  CHECK(batch.lines.size() <= 21);
  CHECK(batch.lines.back().text == "of b");
}

TEST_CASE("old files are not read when there are no positions yet") {
  Followed followed;
  const std::string path = followed.directory / "a.log";
  Append(path, "old\nhalf");
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(48));
  CHECK(followed.Read().empty());
  Append(path, " a line\nnew\n");
  CHECK(followed.Read(1) == Texts{"new"});
}

TEST_CASE("lines from before a stay away are late") {
  Followed followed;
  const std::string path = followed.directory / "a.log";
  Append(path, "one\n");
  (void)followed.Read();
  CHECK(followed.last.is_late);  // no process knows when it was written
  Append(path, "two\n");
  (void)followed.Read(1);
  CHECK_FALSE(followed.last.is_late);
  Append(path, "three\n");
  followed.Restart();
  (void)followed.Read(10);
  CHECK_FALSE(followed.last.is_late);
  Append(path, "four\n");
  followed.Restart();
  (void)followed.Read(100);
  CHECK(followed.last.is_late);
}

TEST_CASE("the debug files of NCCL, named by host and process, are files of their own") {
  Followed followed("nccl.*");
  const Texts first = {"node1:1234:1250 [0] NCCL WARN first"}, second = {"node1:12345:12400 [1] NCCL WARN second"};
  Append(followed.directory / "nccl.node1.1234", first[0] + "\n");
  CHECK(followed.Read() == first);
  Append(followed.directory / "nccl.node1.12345", second[0] + "\n");
  Append(followed.directory / "nccl.node2.1", second[0] + "\n");
  CHECK(followed.Read(5) == Texts{second[0], second[0]});
  followed.Restart();
  CHECK(followed.Read(5).empty());
  Append(followed.directory / "nccl.node1.1234", second[0] + "\n");
  CHECK(followed.Read(5) == second);
}

TEST_CASE("names of one log are those of its rotations") {
  CHECK(AreOfOneLog("/d/a.log", "/d/a.log.1"));
  CHECK(AreOfOneLog("/d/a.log", "/d/a-20300101.log.gz"));
  CHECK(AreOfOneLog("/d/a.log.2.gz", "/d/a.log"));
  CHECK_FALSE(AreOfOneLog("/d/a.log", "/e/a.log"));
  CHECK_FALSE(AreOfOneLog("/d/rank1.log", "/d/rank10.log"));
  CHECK_FALSE(AreOfOneLog("/d/rank1.log", "/d/rank2.log"));
}

}  // namespace
}  // namespace stepwatch::operations
