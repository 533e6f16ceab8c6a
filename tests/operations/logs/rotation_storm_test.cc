// Random rotations of each kind, with kills of the follower in between: its output is exactly the input.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "operations/logs/file_follower.h"
#include "tests/catch.h"
#include "tests/operations/child.h"
#include "tests/operations/logs/log_rotator.h"
#include "tests/random_seed.h"
#include "tests/rounds.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kLineBytesMax = 300;

FollowerOptions StormOptions(const testing::TemporaryDirectory& directory, const std::string& pattern) {
  FollowerOptions options;
  options.pattern = directory / pattern;
  options.state_file = directory / "positions.json";
  options.line_bytes_max = kLineBytesMax;
  options.turn_bytes = 1500;
  options.batch_bytes = 4000;
  options.batch_lines = 40;
  options.new_identity = [] {
    std::random_device device;
    return std::to_string(device()) + std::to_string(device());
  };
  return options;
}

// Drops lines that it got twice.
struct Receiver {
  std::set<std::string> ids;
  std::vector<std::string> lines;

  void Take(const std::string& id, std::string line) {
    if (ids.insert(id).second) lines.push_back(std::move(line));
  }
};

std::vector<std::string> Sorted(std::vector<std::string> lines) {
  std::sort(lines.begin(), lines.end());
  return lines;
}

// The first difference, since whole outputs are too long to print.
std::string DifferenceOf(const std::vector<std::string>& input, const std::vector<std::string>& output) {
  const std::vector<std::string> in = Sorted(input), out = Sorted(output);
  std::vector<std::string> lost, more;
  std::set_difference(in.begin(), in.end(), out.begin(), out.end(), std::back_inserter(lost));
  std::set_difference(out.begin(), out.end(), in.begin(), in.end(), std::back_inserter(more));
  std::string text;
  if (!lost.empty()) text += std::to_string(lost.size()) + " lost, such as " + lost.front().substr(0, 60) + "; ";
  if (!more.empty()) text += std::to_string(more.size()) + " too many, such as " + more.front().substr(0, 60);
  return text;
}

std::string RunStorm(uint64_t seed, int operations, const std::string& pattern) {
  const testing::TemporaryDirectory directory(testing::PlaceInMemory());
  double now = 1'900'000'000;
  testing::LogRotator log(directory / "train.log", seed, kLineBytesMax);
  Receiver receiver;
  auto follower = std::make_unique<FileFollower>(StormOptions(directory, pattern));
  const auto read = [&](bool commits) {
    FollowedBatch batch = follower->Read(now, log.Dice(2) == 0);
    std::map<std::string, FollowedPlace> places;
    for (FollowedLine& line : batch.lines) {
      receiver.Take(line.Id(), line.text);
      places[line.identity] = {line.identity, line.end, line.ends_inside};
    }
    std::vector<FollowedPlace> all;
    for (const auto& [identity, place] : places) all.push_back(place);
    if (commits) follower->Commit(all, now);
    return batch.has_more || !batch.lines.empty();
  };
  double renamed_t = 0;
  // Rotations from before it follows are history.
  log.now = now;
  log.WriteLines(1);
  log.EndLine();
  (void)read(/*commits=*/true);
  for (int i = 0; i < operations; ++i) {
    now += static_cast<double>(log.Dice(2000)) / 1000;
    log.now = now;
    // A file that was renamed and is quiet for longer has ended.
    if (log.is_renamed() && now - renamed_t > 20) log.Reopen();
    switch (log.Dice(14)) {
      case 0:
        if (!log.is_renamed() && !log.is_copying()) {
          log.Rename();
          renamed_t = now;
        }
        break;
      case 1:
      case 2:
        if (log.is_renamed()) log.Reopen();
        break;
      case 3:
        if (!log.is_copying() && !log.is_renamed()) log.BeginCopy();
        break;
      case 4:
        if (log.is_copying()) log.EndCopy();
        break;
      case 5: log.Compress(); break;
      case 6:
        if (log.Dice(3) != 0) break;
        // A text that no follower reads and that is removed is lost for any of them.
        log.EndLine();
        if (receiver.lines.size() == log.written().size()) log.RemoveOldest();
        break;
      case 7:
        if (log.Dice(3) != 0) break;
        follower = std::make_unique<FileFollower>(StormOptions(directory, pattern));
        break;
      case 8:
      case 9: (void)read(/*commits=*/log.Dice(5) != 0); break;
      default: log.WriteLines(log.Dice(30));
    }
  }
  log.Finish();
  for (int i = 0; i < 60; ++i) {
    now += 3;
    while (read(/*commits=*/true)) continue;
  }
  return DifferenceOf(log.written(), receiver.lines);
}

TEST_CASE("a storm of rotations and kills loses and doubles no line") {
  const uint64_t seed = test::RandomSeed();
  for (uint64_t i = 0; i < testing::Rounds<uint64_t>(60); ++i) {
    CAPTURE(seed, i);
    REQUIRE(RunStorm(seed * 1'000'003 + i, 300, i % 2 == 0 ? "train.log" : "train.log*") == "");
  }
}

TEST_CASE("a long storm of rotations and kills loses and doubles no line", "[long]") {
  const uint64_t seed = test::RandomSeed();
  for (uint64_t i = 0; i < testing::Rounds<uint64_t>(1500); ++i) {
    CAPTURE(seed, i);
    REQUIRE(RunStorm(seed * 7'000'003 + i, 1000, i % 2 == 0 ? "train.log" : "train.log*") == "");
  }
}

double StormTime() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Follows until it is killed, and appends what it got to a file before it commits.
void FollowForever(const FollowerOptions& options, const std::string& output) {
  FileFollower follower(options);
  std::ofstream out(output, std::ios::app | std::ios::binary);
  out << "\n";  // the one before may have been killed within a line
  for (;;) {
    FollowedBatch batch = follower.Read(StormTime(), false);
    std::map<std::string, FollowedPlace> places;
    std::string text;
    for (const FollowedLine& line : batch.lines) {
      text += line.Id() + " " + line.text + "\n";
      places[line.identity] = {line.identity, line.end, line.ends_inside};
    }
    out << text << std::flush;
    std::vector<FollowedPlace> all;
    for (const auto& [identity, place] : places) all.push_back(place);
    follower.Commit(all, StormTime());
    if (!batch.has_more) ::usleep(200);
  }
}

// A kill may have left half a line, whose text is passed on again under the same id.
Receiver OutputIn(const std::string& path) {
  Receiver receiver;
  std::map<std::string, std::string> by_id;
  std::vector<std::string> order;
  std::istringstream lines(testing::Contents(path));
  for (std::string line; std::getline(lines, line);) {
    const size_t blank = line.find(' ');
    if (blank == std::string::npos) continue;
    std::string& text = by_id[line.substr(0, blank)];
    if (text.size() < line.size() - blank - 1) text = line.substr(blank + 1);
  }
  for (auto& [id, text] : by_id) receiver.Take(id, text);
  return receiver;
}

TEST_CASE("a follower that is killed again and again passes on what was written") {
  const testing::TemporaryDirectory directory(testing::PlaceInMemory());
  const uint64_t seed = test::RandomSeed();
  CAPTURE(seed);
  testing::LogRotator log(directory / "train.log", seed, kLineBytesMax);
  log.has_returns = false;
  FollowerOptions options = StormOptions(directory, "train.log*");
  options.rotate_seconds = 300;
  options.scan_seconds = 0.01;
  const std::string output = directory / "output.txt";
  testing::WriteInPlace(output, "");
  const auto has_all = [&] {
    ::usleep(20000);
    return OutputIn(output).lines.size() >= log.written().size();
  };
  {
    // Rotations from before it follows are history.
    const testing::Child follower([&] { FollowForever(options, output); });
    log.Finish();
    REQUIRE(testing::Eventually(has_all));
  }
  for (int round = 0; round < testing::Rounds(12); ++round) {
    testing::Child follower([&] { FollowForever(options, output); });
    for (int i = 0; i < 40; ++i) {
      log.WriteLines(log.Dice(40));
      if (log.is_renamed() && log.Dice(2) == 0) log.Reopen();
      if (log.is_copying() && log.Dice(2) == 0) log.EndCopy();
      const uint64_t kind = log.Dice(12);
      if (kind == 0 && !log.is_renamed() && !log.is_copying()) log.Rename();
      if (kind == 1 && !log.is_renamed() && !log.is_copying()) log.BeginCopy();
      if (kind == 2) log.Compress();
      if (log.Dice(4) == 0) ::usleep(static_cast<useconds_t>(log.Dice(3000)));
    }
    if (log.Dice(4) != 0) continue;
    log.Finish();
    REQUIRE(testing::Eventually(has_all));
    REQUIRE(DifferenceOf(log.written(), OutputIn(output).lines) == "");
  }
  log.Finish();
  const testing::Child follower([&] { FollowForever(options, output); });
  CHECK(testing::Eventually([&] { return DifferenceOf(log.written(), OutputIn(output).lines).empty(); }));
  CHECK(DifferenceOf(log.written(), OutputIn(output).lines) == "");
}

}  // namespace
}  // namespace stepwatch::operations
