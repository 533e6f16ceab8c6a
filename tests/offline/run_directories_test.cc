// Which directories belong to which run: times without a year, several runs, manifests.
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "src/base/run_time.h"
#include "stepwatch/offline.h"
#include "tests/catch.h"
#include "tests/offline/offline_fixture.h"

namespace stepwatch::offline {
namespace {

using namespace test;

struct Found {
  std::map<int, std::string> names;  // of the directories, without the base
  std::vector<std::string> notes;
};

Found Find(const TemporaryDirectory& base, const TimeRange& range = {}) {
  Found found;
  const auto directories = FindRunDirectories(base.path(), range, &found.notes);
  REQUIRE(directories.ok());
  for (const auto& [rank, path] : directories.value())
    found.names[rank] = std::filesystem::path(path).filename().string();
  return found;
}

void MakeRun(const TemporaryDirectory& base, const std::string& name) {
  std::filesystem::create_directories(base / name);
}

TEST_CASE("each rank has its directory, what only looks like one has not") {
  TemporaryDirectory base;
  MakeRun(base, "Dec03_21-34-40-rank0-aaaaaaaa");
  MakeRun(base, "Dec03_21-34-41-rank12-bbbbbbbb");
  MakeRun(base, "Dec03_21-34-41-csv2tensorboard_by_step");
  MakeRun(base, "anomaly_detected/rank0");
  Put(base.path(), "Dec03_21-34-41-rank3-cccccccc", "a file");
  const Found found = Find(base);
  CHECK(found.names ==
        std::map<int, std::string>{{0, "Dec03_21-34-40-rank0-aaaaaaaa"}, {12, "Dec03_21-34-41-rank12-bbbbbbbb"}});
  CHECK(found.notes.empty());
}

TEST_CASE("a manifest that is no file is passed over, without waiting for anybody") {
  TemporaryDirectory base;
  for (const char* name : {"Dec03_21-34-40-rank0-aaaaaaaa", "Dec03_21-34-41-rank1-bbbbbbbb"}) MakeRun(base, name);
  REQUIRE(::mkfifo((base / "Dec03_21-34-40-rank0-aaaaaaaa/manifest.json").c_str(), 0600) == 0);
  std::filesystem::create_symlink("/dev/zero", base / "Dec03_21-34-41-rank1-bbbbbbbb/manifest.json");
  CHECK(Find(base).names.size() == 2);
}

TEST_CASE("a range of times has both its ends, and goes over New Year when it ends before it begins") {
  TemporaryDirectory base;
  MakeRun(base, "Dec31_23-59-59-rank0-aaaaaaaa");
  MakeRun(base, "Jan01_00-00-01-rank1-aaaaaaaa");
  MakeRun(base, "Feb29_12-00-00-rank2-aaaaaaaa");
  MakeRun(base, "Mar01_00-00-00-rank3-aaaaaaaa");
  const auto ranks = [&base](const TimeRange& range) {
    std::vector<int> list;
    for (const auto& [rank, name] : Find(base, range).names) list.push_back(rank);
    return list;
  };
  CHECK(ranks({"Dec31_23-59-59", "Jan01_00-00-01"}) == std::vector<int>{0, 1});
  CHECK(ranks({"Dec31_23-59-58", "Jan01_00-00-00"}) == std::vector<int>{0});
  CHECK(ranks({"Feb29_12-00-00", "Feb29_12-00-00"}) == std::vector<int>{2});
  CHECK(ranks({"Feb28_00-00-00", "Mar01_00-00-00"}) == std::vector<int>{2, 3});
  CHECK(ranks({"Mar01_00-00-00", ""}) == std::vector<int>{0, 3});
  CHECK(ranks({"", "Feb29_12-00-00"}) == std::vector<int>{1, 2});
  CHECK(ranks({}) == std::vector<int>{0, 1, 2, 3});
}

TEST_CASE("times that are none are refused") {
  TemporaryDirectory base;
  std::vector<std::string> notes;
  for (const char* text : {"Decc1_00-00-00", "Dec32_00-00-00", "Feb30_00-00-00", "Dec01_24-00-00", "2026-12-01", "x"}) {
    const auto refused = FindRunDirectories(base.path(), {text, ""}, &notes);
    CHECK(refused.status().code() == StatusCode::kInvalid);
    CHECK(Has(refused.status().message(), "Dec03_21-34-40"));
  }
  CHECK(FindRunDirectories(base / "missing", {}, &notes).status().code() == StatusCode::kNotFound);
}

TEST_CASE("of several runs of a rank the last is taken, and the others are named") {
  TemporaryDirectory base;
  // Changed just now, so both began in the last twelve months; a day without that is not in them yet.
  const auto name_of = [](int days_ago) {
    const std::time_t then = std::time(nullptr) - days_ago * 24 * 3600;
    return base::RunTimeText(then) + "-rank0-aaaaaaaa";
  };
  for (int days_ago : {300, 2, 100}) MakeRun(base, name_of(days_ago));
  const Found found = Find(base);
  CHECK(found.names == std::map<int, std::string>{{0, name_of(2)}});
  REQUIRE(found.notes.size() == 1);
  CHECK(Has(found.notes[0], "using the last, " + name_of(2)));
  CHECK(Has(found.notes[0], "leaving out " + name_of(300) + ", " + name_of(100)));
}

TEST_CASE("the manifest knows the year that the name does not") {
  TemporaryDirectory base;
  Put(base.path(), "Dec03_21-34-40-rank0-aaaaaaaa/manifest.json", R"({"started": "2024-12-03T21:34:40"})");
  Put(base.path(), "Jan03_21-34-40-rank0-bbbbbbbb/manifest.json", R"({"started": "2024-01-03T21:34:40"})");
  CHECK(Find(base).names.at(0) == "Dec03_21-34-40-rank0-aaaaaaaa");
  Put(base.path(), "Jan03_21-34-40-rank0-bbbbbbbb/manifest.json", R"({"started": "2025-01-03T21:34:40"})");
  CHECK(Find(base).names.at(0) == "Jan03_21-34-40-rank0-bbbbbbbb");
}

TEST_CASE("directories of ranks that come from different runs are noted") {
  TemporaryDirectory base;
  Put(base.path(), "Dec03_21-34-40-rank0-aaaaaaaa/manifest.json", R"({"run_id": "aa"})");
  Put(base.path(), "Dec03_21-34-41-rank1-aaaaaaaa/manifest.json", R"({"run_id": "aa"})");
  CHECK(Find(base).notes.empty());
  Put(base.path(), "Dec03_21-34-41-rank2-bbbbbbbb/manifest.json", R"({"run_id": "bb"})");
  const Found found = Find(base);
  CHECK(found.names.size() == 3);
  REQUIRE(found.notes.size() == 1);
  CHECK(Has(found.notes[0], "rank0-aaaaaaaa and Dec03_21-34-41-rank2-bbbbbbbb"));
}

}  // namespace
}  // namespace stepwatch::offline
