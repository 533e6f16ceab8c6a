// Finds the run directories under a base, and selects one of several runs of a rank.
#include <fcntl.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <tuple>

#include "src/base/file.h"
#include "src/base/found_file.h"
#include "src/base/run_time.h"
#include "src/base/text.h"
#include "src/json/members.h"
#include "src/offline/manifest_head.h"
#include "stepwatch/offline.h"

namespace stepwatch::offline {
namespace {

struct Candidate {
  std::string path;
  int rank = 0;
  // Local time, seconds since 1970; if only the name has it, in the last year in which it is not after the directory's
  // change.
  std::time_t started = 0;
  std::string run_id;  // from the manifest; empty without one
};

struct Limits {
  std::optional<long> start;
  std::optional<long> end;
};

Result<std::optional<long>> ParseEnd(const char* option, const std::string& text) {
  if (text.empty()) return std::optional<long>();
  const std::optional<long> time = base::TimeOfYear(text);
  if (!time)
    return Status(StatusCode::kInvalid, std::string(option) + " \"" + base::Printable(text) +
                                            "\" is not a time; accepted: the start of the name of a run directory, "
                                            "such as Dec03_21-34-40");
  return time;
}

bool IsInside(const std::optional<long>& time, const Limits& limits) {
  if (!limits.start && !limits.end) return true;
  if (!time) return false;
  if (limits.start && limits.end) return base::InTimeRange(*time, *limits.start, *limits.end);
  return limits.start ? *time >= *limits.start : *time <= *limits.end;
}

// Reads the run's facts from manifest.json, if it exists.
void ReadManifest(Candidate* candidate, base::FileSystem& files) {
  const Result<base::UniqueFd> fd =
      base::OpenFound(base::JoinPath(candidate->path, "manifest.json"), O_RDONLY, std::nullopt, files);
  if (!fd.ok()) return;
  const Json manifest = ReadManifestHead(fd.value().get(), files);
  candidate->run_id = json::RawText(manifest, "run_id");
  std::tm parts{};
  if (::strptime(json::RawText(manifest, "started").c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr) return;
  parts.tm_isdst = -1;
  candidate->started = std::mktime(&parts);
}

std::time_t StartedFromName(std::tm parts, std::time_t changed) {
  const std::time_t latest = changed + std::time_t{24} * 3600;  // names may use another time zone
  std::tm now{};
  ::localtime_r(&latest, &now);
  for (int year = now.tm_year;; --year) {
    std::tm in_year = parts;  // mktime turns 29 February into 1 March in other years: close enough for sorting
    in_year.tm_year = year;
    in_year.tm_isdst = -1;
    const std::time_t started = std::mktime(&in_year);
    if (started <= latest || year < now.tm_year - 1) return started;
  }
}

std::optional<Candidate> Look(const std::string& path, const Limits& limits, base::FileSystem& files) {
  // The rule of msProbe's tools; its months may be those of a locale.
  static const std::regex form(R"((.{0,40})-rank(\d{1,5})-.*)");
  const std::string name = base::BaseName(path);
  std::smatch parts;
  struct stat about = {};
  if (!std::regex_match(name, parts, form) || files.Stat(path.c_str(), &about) != 0 || !S_ISDIR(about.st_mode))
    return std::nullopt;
  const std::optional<long> time = base::TimeOfYear(name);
  if (!IsInside(time, limits)) return std::nullopt;
  Candidate candidate{path, std::stoi(parts[2].str()), 0, {}};
  if (time) candidate.started = StartedFromName(*base::ParseRunTime(name), about.st_mtim.tv_sec);
  ReadManifest(&candidate, files);
  return candidate;
}

Result<std::vector<Candidate>> List(const std::string& monitor_path, const Limits& limits, base::FileSystem& files) {
  const Result<std::vector<std::string>> names = base::ListDirectory(monitor_path, files);
  if (!names.ok()) return names.status();
  std::vector<Candidate> candidates;
  for (const std::string& name : names.value())
    if (auto candidate = Look(base::JoinPath(monitor_path, name), limits, files))
      candidates.push_back(std::move(*candidate));
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.rank, a.started, a.path) < std::tie(b.rank, b.started, b.path);
  });
  return candidates;
}

// Ranks without a directory in the last run use one of an earlier run.
std::string MixedRunsNote(const std::map<int, Candidate>& taken) {
  const Candidate* first = nullptr;
  for (const auto& [rank, candidate] : taken) {
    if (candidate.run_id.empty()) continue;
    if (first == nullptr) first = &candidate;
    if (candidate.run_id != first->run_id)
      return "the directories belong to different runs: " + base::BaseName(first->path) + " and " +
             base::BaseName(candidate.path) + "; select one with time_start and time_end";
  }
  return "";
}

}  // namespace

Result<std::map<int, std::string>> FindRunDirectories(const std::string& monitor_path, const TimeRange& range,
                                                      std::vector<std::string>* notes) {
  const auto start = ParseEnd("time_start", range.start);
  if (!start.ok()) return start.status();
  const auto end = ParseEnd("time_end", range.end);
  if (!end.ok()) return end.status();
  const Result<std::vector<Candidate>> candidates =
      List(monitor_path, {start.value(), end.value()}, base::FileSystem::Real());
  if (!candidates.ok()) return candidates.status();
  std::map<int, Candidate> taken;
  std::map<int, std::string> left_out;
  for (const Candidate& candidate : candidates.value()) {
    const auto [last, is_first] = taken.try_emplace(candidate.rank, candidate);
    if (is_first) continue;
    std::string& names = left_out[candidate.rank];
    names += (names.empty() ? "" : ", ") + base::BaseName(last->second.path);
    last->second = candidate;
  }
  for (const auto& [rank, names] : left_out) {
    std::string note = "rank " + std::to_string(rank) + " has several runs in " + monitor_path;
    note += ": using the last, " + base::BaseName(taken.at(rank).path) + ", and leaving out " + names;
    notes->push_back(note + "; select another one with time_start and time_end");
  }
  if (const std::string note = MixedRunsNote(taken); !note.empty()) notes->push_back(note);
  std::map<int, std::string> directories;
  for (const auto& [rank, candidate] : taken) directories[rank] = candidate.path;
  return directories;
}

}  // namespace stepwatch::offline
