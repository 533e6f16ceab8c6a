#include "controller/cli/why_edits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "controller/cli/duration.h"
#include "controller/cli/read_json.h"
#include "src/base/text.h"
#include "src/config/difference.h"
#include "src/config/parse_config.h"
#include "src/http/client.h"
#include "src/json/json.h"
#include "src/output/history_file.h"
#include "src/output/run_directory.h"

namespace stepwatch::cli {
namespace {

constexpr size_t kEditsShown = 2;
constexpr size_t kKeysShown = 3;
constexpr size_t kEditValueBytesMax = 40;
constexpr double kJump = 1.5;
constexpr int64_t kStepsBefore = 200;
// The clocks of a job's host and of whoever watches it.
constexpr double kClockSeconds = 2;

std::string DistanceText(const Json& line, double t, const Moment& moment) {
  const int64_t step = Whole(line, "step");
  if (step < 0 || moment.step < 0) return DurationText(moment.t - t) + " before detection";
  const int64_t steps = moment.step - step;
  if (steps == 0) return "the last good step";
  return fmt::format("{} step{} {} the last good step", std::abs(steps), std::abs(steps) == 1 ? "" : "s",
                     steps > 0 ? "before" : "after");
}

std::string WhoText(const Json& line) {
  const Json& peer = Part(line, "peer");
  const int64_t uid = peer.empty() ? Whole(line, "owner_uid") : Whole(peer, "uid");
  const std::string exe = Text(peer, "exe");
  return (uid < 0 ? "" : fmt::format(", by uid {}", uid)) + (exe.empty() ? "" : " with " + exe);
}

std::string KeysText(const Json& line, const ConfigText& text_of) {
  const auto parsed = [&](const char* name) -> std::optional<config::Config> {
    const std::optional<std::string> text = text_of(Text(line, name));
    if (!text) return std::nullopt;
    const Result<config::ParsedConfig> read = config::ParseConfig(*text);
    return read.ok() ? std::optional(read.value().config) : std::nullopt;
  };
  const std::optional<config::Config> was = parsed("old_sha256"), now = parsed("sha256");
  if (!was || !now) return "";
  const std::vector<config::KeyDifference> all = config::DifferencesOf(*was, *now);
  std::string text;
  for (size_t i = 0; i < all.size() && i < kKeysShown; ++i)
    text += (i == 0 ? ": " : ", ") + all[i].key + " " + base::Printable(all[i].was, kEditValueBytesMax) + " -> " +
            base::Printable(all[i].now, kEditValueBytesMax);
  return all.size() <= kKeysShown ? text : text + fmt::format(" and {} more keys", all.size() - kKeysShown);
}

std::string EditLine(const Json& line, double t, const Moment& moment, const ConfigText& text_of) {
  const bool begins = Text(line, "outcome") == "applied";
  std::string text = fmt::format("plan {} {}", Whole(line, "plan_id"), begins ? "began" : "stopped");
  if (const int64_t step = Whole(line, "step"); step >= 0)
    text += fmt::format(" at step {}, {}", step, DistanceText(line, t, moment));
  else
    text += " " + DistanceText(line, t, moment);
  return text + WhoText(line) + (begins ? KeysText(line, text_of) : "");
}

int64_t RankOf(const control_socket::FoundJob& job) {
  const Result<Json> status = json::Parse(job.status);
  return status.ok() ? Whole(status.value(), "rank") : -1;
}

// Rank 0 writes the history.
ChangesBefore AskJob(const control_socket::FoundJob& job, const Moment& moment) {
  const http::Client client = control_socket::ClientOf(job);
  const Result<http::Reply> reply = client.Get("/v1/history?limit=100");
  const Result<Json> answer = json::Parse(reply.ok() ? reply.value().body : "");
  if (reply.ok() && reply.value().status == 404 && answer.ok())
    return {{}, "job " + job.name + " keeps no history: " + Text(Part(answer.value(), "error"), "message")};
  if (!reply.ok() || reply.value().status != 200 || !answer.ok())
    return {{}, "job " + job.name + " returned no history"};
  const Json& lines = List(answer.value(), "lines");
  if (lines.empty()) return {{}, "job " + job.name + " has no history: none of its plans has written rows"};
  const ConfigText text_of = [&client](const std::string& sha256) -> std::optional<std::string> {
    if (!output::IsSha256(sha256)) return std::nullopt;
    const Result<http::Reply> kept = client.Get("/v1/configs/" + sha256);
    return kept.ok() && kept.value().status == 200 ? std::optional(kept.value().body) : std::nullopt;
  };
  return {EditLines(std::vector<Json>(lines.begin(), lines.end()), moment, text_of), ""};
}

}  // namespace

std::optional<double> ParseUtc(const std::string& text) {
  std::tm utc{};
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &utc);
  if (rest == nullptr) return std::nullopt;
  const double fraction = *rest == '.' ? std::strtod(rest, nullptr) : 0;
  return static_cast<double>(::timegm(&utc)) + fraction;
}

std::vector<std::string> EditLines(const std::vector<Json>& history, const Moment& moment, const ConfigText& text_of) {
  std::vector<std::string> lines;
  for (auto line = history.rbegin(); line != history.rend() && lines.size() < kEditsShown; ++line) {
    const std::string outcome = Text(*line, "outcome");
    const std::optional<double> t = ParseUtc(Text(*line, "time"));
    if ((outcome != "applied" && outcome != "stopping") || !t || *t > moment.t + kClockSeconds) continue;
    lines.push_back(EditLine(*line, *t, moment, text_of));
  }
  return lines;
}

ChangesBefore FindEdits(const std::vector<control_socket::FoundJob>& jobs, const std::string& run,
                        const Moment& moment) {
  const auto lowest =
      std::min_element(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) { return RankOf(a) < RankOf(b); });
  if (lowest != jobs.end()) return AskJob(*lowest, moment);
  const std::string place = output::OutputBase("");
  const auto found = output::FindHistories(place);
  if (found.ok()) {
    for (const output::FoundHistory& each : found.value()) {
      std::vector<Json> lines;
      for (const output::HistoryLine& line : each.history.lines)
        if (line.run_id == run) lines.push_back(json::Parse(output::HistoryText(line)).value());
      const ConfigText text_of = [&each](const std::string& sha256) -> std::optional<std::string> {
        const Result<std::string> kept = output::KeptConfig(each.directory, sha256);
        return kept.ok() ? std::optional(kept.value()) : std::nullopt;
      };
      if (!lines.empty()) return {EditLines(lines, moment, text_of), ""};
    }
  }
  return {{},
          "no job of the run responds on this machine, and " + base::Printable(place, 200) +
              " has no history of it (see `stepwatch history DIRECTORY`)"};
}

std::string LearningRateJump(const Json& points, const Moment& moment) {
  std::string jump;
  double before = 0;
  for (const Json& point : points) {
    const int64_t step = Whole(point, "step_first");
    const double rate = Number(point, "last");
    const bool is_near = moment.step < 0 || (step <= moment.step + 1 && step > moment.step - kStepsBefore);
    const bool jumps = before > 0 && rate > 0 && (rate > before * kJump || rate < before / kJump);
    if (is_near && jumps)
      jump = fmt::format("the learning rate went from {:.4g} to {:.4g} at step {}", before, rate, step);
    before = rate;
  }
  return jump;
}

}  // namespace stepwatch::cli
