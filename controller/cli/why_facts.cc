#include "controller/cli/why_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "controller/cli/find_job.h"
#include "controller/cli/read_json.h"
#include "controller/cli/text/time_text.h"
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
// Difference between the clocks of the hosts of the job and of stepwatchd.
constexpr double kClockSeconds = 2;

std::string DistanceText(const Json& line, double t, const Moment& moment) {
  const int64_t step = Whole(line, "step");
  if (step < 0 || moment.step < 0) return DurationText(moment.t - t) + " before detection";
  const int64_t steps = moment.step - step;
  if (steps == 0) return "the last good step";
  return fmt::format("{} step{} {} the last good step", std::abs(steps), std::abs(steps) == 1 ? "" : "s",
                     steps > 0 ? "before" : "after");
}

std::string AuthorText(const Json& line) {
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
  std::vector<std::string> shown;
  for (size_t i = 0; i < all.size() && i < kKeysShown; ++i)
    shown.push_back(all[i].key + " " + base::Printable(all[i].was, kEditValueBytesMax) + " -> " +
                    base::Printable(all[i].now, kEditValueBytesMax));
  const std::string text = shown.empty() ? "" : ": " + base::Joined(shown, ", ");
  return all.size() <= kKeysShown ? text : text + fmt::format(" and {} more keys", all.size() - kKeysShown);
}

std::string EditLine(const Json& line, double t, const Moment& moment, const ConfigText& text_of) {
  const bool begins = Text(line, "outcome") == "applied";
  std::string text = fmt::format("plan {} {}", Whole(line, "plan_id"), begins ? "began" : "stopped");
  if (const int64_t step = Whole(line, "step"); step >= 0)
    text += fmt::format(" at step {}, {}", step, DistanceText(line, t, moment));
  else
    text += " " + DistanceText(line, t, moment);
  return text + AuthorText(line) + (begins ? KeysText(line, text_of) : "");
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

constexpr const char* kNoHooks = "no plan hooks modules; with `xy_distribution` the pulse names the current module";
constexpr const char* kNoValues =
    "the job has no values yet: collect actv and grad_unreduced with nans, and retry after a collected step";
// Kinds of sites in the order of a step, and whether their last site comes first.
constexpr std::pair<const char*, bool> kSiteKindOrder[] = {{"actv", false},          {"actv_grad", true},
                                                           {"grad_unreduced", true}, {"grad_reduced", true},
                                                           {"param_updated", false}, {"param_origin", false}};

bool IsNonfinite(const Json& values) {
  for (const auto& [name, value] : values.items()) {
    if (value.is_string()) return true;  // "NaN", "Infinity"
    if ((name == "nans" || name == "infs") && value.is_number() && value.get<double>() > 0) return true;
  }
  return false;
}

// The job of the first culprit rank, else any.
const control_socket::FoundJob& JobOf(const std::vector<control_socket::FoundJob>& jobs, const Json& incident) {
  const Json& ranks = List(incident, "ranks");
  for (const control_socket::FoundJob& job : jobs) {
    if (!ranks.empty() && ranks[0].is_number_integer() && Whole(StatusOf(job), "rank") == ranks[0].get<int64_t>())
      return job;
  }
  return jobs.front();
}

Json LatestOfJob(const control_socket::FoundJob& job, const char* kind) {
  const Result<http::Reply> reply = control_socket::ClientOf(job).Get(std::string("/v1/latest/") + kind);
  Result<Json> answer = json::Parse(reply.ok() && reply.value().status == 200 ? reply.value().body : "{}");
  return answer.ok() ? std::move(answer).value() : Json::object();
}

LayerFound InLatest(const std::vector<control_socket::FoundJob>& jobs, const Json& incident) {
  if (jobs.empty()) return {"", "no job of the run responds on this machine, and stepwatchd keeps no values of layers"};
  const control_socket::FoundJob& job = JobOf(jobs, incident);
  const bool of_numbers = Text(incident, "incident").ends_with("nonfinite");
  bool has_values = false;
  for (const auto& [kind, backwards] : kSiteKindOrder) {
    const Json latest = LatestOfJob(job, kind);
    has_values = has_values || !List(latest, "values").empty();
    const std::optional<std::string> found = of_numbers ? FirstNonfinite(latest, backwards)
                                             : std::string_view(kind) == "grad_reduced" ? LargestNorm(latest)
                                                                                        : std::nullopt;
    if (found) return {*found, ""};
  }
  if (!has_values) return {"", kNoValues};
  return {"",
          of_numbers ? "all values that the job measures now are finite" : "the job measures no gradient norms now"};
}

// The module where the first culprit rank was last.
std::string ModuleOf(const Json& run, const Json& incident) {
  if (const std::string module = Text(Part(incident, "evidence"), "module"); !module.empty()) return module;
  const Json& culprits = List(incident, "ranks");
  for (const Json& rank : List(run, "ranks"))
    if (!culprits.empty() && culprits[0].is_number_integer() && Whole(rank, "rank") == culprits[0].get<int64_t>())
      return Text(rank, "module");
  return "";
}

}  // namespace

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
  const auto lowest = std::min_element(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) {
    return Whole(StatusOf(a), "rank") < Whole(StatusOf(b), "rank");
  });
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

std::optional<std::string> FirstNonfinite(const Json& latest, bool backwards) {
  const Json& values = List(latest, "values");
  const Json* first = nullptr;
  size_t count = 0;
  for (const Json& each : values) {
    if (!IsNonfinite(Part(each, "values"))) continue;
    ++count;
    if (first == nullptr || backwards) first = &each;
  }
  if (first == nullptr) return std::nullopt;
  return fmt::format("{} ({}, step {}): the first of {} sites with NaN or infinities among {} measured",
                     Text(*first, "name"), Text(latest, "kind"), Whole(*first, "step"), count, values.size());
}

std::optional<std::string> LargestNorm(const Json& latest) {
  const Json* largest = nullptr;
  for (const Json& each : List(latest, "values")) {
    const double norm = Number(Part(each, "values"), "norm", -1);
    if (norm >= 0 && (largest == nullptr || norm > Number(Part(*largest, "values"), "norm"))) largest = &each;
  }
  if (largest == nullptr) return std::nullopt;
  return fmt::format("{} has the largest norm of {} in step {}: {:.4g}", Text(*largest, "name"), Text(latest, "kind"),
                     Whole(*largest, "step"), Number(Part(*largest, "values"), "norm"));
}

std::string InnermostFrame(const std::string& stack) {
  const size_t at = stack.rfind("File \"");
  if (at == std::string::npos) return "";
  return base::Printable(stack.substr(at, stack.find('\n', at) - at), 200);
}

LayerFound FindLayer(const std::vector<control_socket::FoundJob>& jobs, const Json& run, const Json& incident) {
  const std::string kind = Text(incident, "incident");
  const std::string module = ModuleOf(run, incident);
  if (kind == "stuck" || kind == "process_lost" || kind == "straggler")
    if (!module.empty()) return {"last module entered: " + module, ""};
  if (kind == "exception" || kind == "out_of_memory") {
    const std::string frame = InnermostFrame(RawText(Part(incident, "evidence"), "stack"));
    if (!frame.empty()) return {frame, ""};
    if (!module.empty()) return {"last module entered: " + module, ""};
    return {"", kind == "exception" ? "the exception has no stack" : ""};
  }
  if (kind == "stuck" || kind == "process_lost") return {"", kNoHooks};
  const bool is_of_numbers = kind.starts_with("loss_") || kind.starts_with("grad_") || kind == "divergence";
  return is_of_numbers ? InLatest(jobs, incident) : LayerFound{};
}

}  // namespace stepwatch::cli
