// The quality of the catalogue on the labelled corpus (tests/logs/corpus), and on a folder of real logs that
// STEPWATCH_LOG_CORPUS names:
//   FOLDER/unrelated/*  lines of systems that train no model;
//   FOLDER/labelled/*.tsv  lines "class<TAB>message", the class empty where there is no anomaly.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "src/json/loose_json.h"
#include "src/logs/anomalies.h"
#include "tests/catch.h"
#include "tests/logs/catalogue.h"

namespace stepwatch::logs {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> LinesOf(const fs::path& path) {
  std::ifstream file(path);
  REQUIRE(file.is_open());
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

fs::path Corpus() {
  return STEPWATCH_LOG_CORPUS_DIRECTORY;
}

// Hits and misses of each class.
class Score {
 public:
  void Add(const std::string& text, const std::string& label) {
    std::vector<Anomaly> found;
    Catalogue().Find(text, {}, &found);
    std::set<std::string> names;
    for (const Anomaly& each : found) names.emplace(each.name);
    if (!label.empty()) {
      ++labelled_[label];
      if (names.contains(label)) ++hits_[label];
      if (!names.contains(label)) UNSCOPED_INFO("missed " << label << ": " << text);
    }
    for (const std::string& name : names) {
      ++found_[name];
      if (name == label) ++right_[name];
      if (name != label) UNSCOPED_INFO("found " << name << " instead of '" << label << "': " << text);
    }
  }
  void Check(double recall_min, double precision_min) {
    for (const auto& [name, count] : labelled_) {
      CAPTURE(name);
      CHECK(hits_[name] >= recall_min * count);
    }
    for (const auto& [name, count] : found_) {
      CAPTURE(name);
      CHECK(right_[name] >= precision_min * count);
    }
  }
  double Recall() {
    double hits = 0, labelled = 0;
    for (const auto& [name, count] : labelled_) {
      hits += hits_[name];
      labelled += count;
    }
    return hits / labelled;
  }

 private:
  std::map<std::string, int> labelled_, hits_, found_, right_;
};

void CheckUnrelated(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    std::vector<Anomaly> found;
    Catalogue().Find(line, {}, &found);
    for (const Anomaly& each : found) {
      INFO(each.name << ": " << line);
      CHECK(AnomalyClassNamed(each.name)->origin == Origin::kHost);
    }
  }
}

TEST_CASE("classes are found in known wordings, and only there") {
  Score known;
  for (const std::string& line : LinesOf(Corpus() / "lines.jsonl")) {
    const auto entry = nlohmann::json::parse(line);
    if (!entry.at("held_out").get<bool>()) known.Add(entry.at("text"), entry.at("class"));
  }
  known.Check(0.95, 0.98);
}

TEST_CASE("classes are found in wordings that the patterns were not written for") {
  Score held_out;
  for (const std::string& line : LinesOf(Corpus() / "lines.jsonl")) {
    const auto entry = nlohmann::json::parse(line);
    if (entry.at("held_out").get<bool>()) held_out.Add(entry.at("text"), entry.at("class"));
  }
  held_out.Check(0, 0.98);
  CHECK(held_out.Recall() >= 0.95);
}

TEST_CASE("50,000 lines of other systems have no anomaly") {
  const std::vector<std::string> lines = LinesOf(Corpus() / "unrelated.txt");
  REQUIRE(lines.size() == 50'000);
  std::vector<Anomaly> found;
  for (const std::string& line : lines) {
    Catalogue().Find(line, {}, &found);
    INFO(line);
    REQUIRE(found.empty());
  }
}

TEST_CASE("the root of a failing run is named first") {
  int stories = 0, named = 0, earliest = 0;
  for (const std::string& line : LinesOf(Corpus() / "stories.jsonl")) {
    const auto story = nlohmann::json::parse(line);
    std::vector<Record> records;
    for (const auto& entry : story.at("records")) {
      Record record;
      record.message = entry.at("text");
      record.host = entry.at("host");
      record.t = entry.at("t").get<double>();
      if (entry.contains("rank")) record.rank = entry.at("rank").get<int64_t>();
      if (entry.contains("exception"))
        record.exception = Exception{entry.at("exception").at("type"), entry.at("exception").at("message"), ""};
      if (entry.contains("step")) {
        record.progress = Progress{.step = entry.at("step").get<int64_t>(), .numbers = {}};
        for (const auto& [key, value] : entry.at("numbers").items())
          record.progress->numbers.emplace_back(key, json::LooseNumber(value).value());
      }
      Catalogue().Find(record.message,
                       {.progress = record.progress ? &*record.progress : nullptr,
                        .exception = record.exception ? &*record.exception : nullptr},
                       &record.anomalies);
      records.push_back(std::move(record));
    }
    const auto is_root = [&](const Record& record) {
      const bool has_class = std::any_of(record.anomalies.begin(), record.anomalies.end(), [&](const Anomaly& each) {
        return each.name == story.at("root").get<std::string>();
      });
      return has_class && (story.at("rank").is_null() || record.rank == story.at("rank").get<int64_t>());
    };
    const std::vector<size_t> order = RankCauses(records);
    REQUIRE(!order.empty());
    ++stories;
    const Record& first = records[order.front()];
    if (is_root(first)) ++named;
    if (!is_root(first)) UNSCOPED_INFO("named " << first.anomalies.at(0).name << " instead of " << story.at("root"));
    const size_t in_time = *std::min_element(order.begin(), order.end(),
                                             [&](size_t a, size_t b) { return *records[a].t < *records[b].t; });
    if (is_root(records[in_time])) ++earliest;
  }
  INFO(named << " of " << stories << " roots named; the earliest record is the root in " << earliest);
  CHECK(named >= 0.95 * stories);
}

TEST_CASE("real logs in the folder of STEPWATCH_LOG_CORPUS are recognised as labelled") {
  const char* folder = std::getenv("STEPWATCH_LOG_CORPUS");
  if (folder == nullptr) return;
  Score score;
  if (fs::exists(fs::path(folder) / "unrelated"))
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(folder) / "unrelated"))
      if (entry.is_regular_file()) CheckUnrelated(LinesOf(entry.path()));
  if (fs::exists(fs::path(folder) / "labelled"))
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(folder) / "labelled"))
      if (entry.path().extension() == ".tsv")
        for (const std::string& line : LinesOf(entry.path()))
          if (const size_t tab = line.find('\t'); tab != std::string::npos)
            score.Add(line.substr(tab + 1), line.substr(0, tab));
  score.Check(0.95, 0.98);
}

}  // namespace
}  // namespace stepwatch::logs
