#include "controller/cli/why.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "controller/cli/find_job.h"
#include "controller/cli/print_answer.h"
#include "controller/cli/read_json.h"
#include "controller/cli/stepwatchd_client.h"
#include "controller/cli/text/incident_text.h"
#include "controller/cli/text/text_table.h"
#include "controller/cli/text/time_text.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "src/config/difference.h"
#include "src/config/parse_config.h"
#include "src/http/answers.h"
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
ChangesBefore FetchChanges(const control_socket::FoundJob& job, const Moment& moment) {
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

// The job of the first culprit rank, else any job.
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

// The last module of the first culprit rank.
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
  if (lowest != jobs.end()) return FetchChanges(*lowest, moment);
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

namespace {

constexpr size_t kWhyLabelWidth = 10;
constexpr size_t kWidthMin = 40;
constexpr size_t kOthersShown = 4;
constexpr size_t kEvidenceLinesMax = 7;

// Lines with a label before the first of them, broken between words.
class WhyScreen {
 public:
  explicit WhyScreen(size_t width) : width_(std::max(width, kWidthMin) - kWhyLabelWidth) {}

  void Add(const std::string& label, const std::string& text, size_t lines_max = 3) {
    if (text.empty()) return;
    const std::vector<std::string> lines = Broken(text, lines_max);
    for (size_t i = 0; i < lines.size(); ++i)
      text_ += fmt::format("{:<{}}", i == 0 ? label : "", kWhyLabelWidth) + lines[i] + "\n";
  }
  void Raw(const std::string& line) { text_ += line + "\n"; }
  std::string text() && { return std::move(text_); }

 private:
  std::vector<std::string> Broken(std::string text, size_t lines_max) const {
    std::vector<std::string> lines;
    while (!text.empty()) {
      std::string line = Cut(text, width_);
      if (line.size() < text.size()) {
        const size_t space = line.rfind(' ');
        if (text[line.size()] != ' ' && space != std::string::npos && space > 0) line.resize(space);
      }
      text.erase(0, line.size());
      text.erase(0, text.find_first_not_of(' '));
      lines.push_back(std::move(line));
      if (lines.size() == lines_max && !text.empty()) {
        lines.back() = Cut(lines.back(), width_ - 1) + "…";
        break;
      }
    }
    return lines;
  }

  const size_t width_;
  std::string text_;
};

std::string RunLine(const WhyFacts& facts, double now) {
  const Json& run = facts.detail;
  std::string line = base::Printable(facts.run, 200);
  if (run.empty()) return line + ": stepwatchd keeps only its incidents";
  line += ": " + RunStateText(run);
  if (const int64_t step = Whole(run, "step"); step >= 0) line += fmt::format(", step {}", step);
  if (const int64_t world = Whole(run, "world"); world > 0)
    line += fmt::format(", {} rank{}", world, world == 1 ? "" : "s");
  if (const double seconds = Number(run, "step_seconds"); seconds > 0)
    line += ", " + ShortDurationText(seconds) + " per step";
  if (const int64_t restarts = Whole(run, "restarts"); restarts > 0)
    line += fmt::format(", restarted {} time{}", restarts, restarts == 1 ? "" : "s");
  return line + ", last report " + DurationText(now - Number(run, "heard_t", now)) + " ago";
}

std::string SinceLine(const Json& incident, double now) {
  const int64_t step = Whole(incident, "since_step");
  const std::string after = step >= 0 ? fmt::format("last good step {}; ", step) : "";
  const std::string at = LocalTimeText(Number(incident, "opened_t"));
  if (IsOpen(incident)) return after + fmt::format("noticed {} ago, {}", DurationText(OpenSeconds(incident, now)), at);
  return after + fmt::format("noticed {}, resolved after {}: {}", at, DurationText(OpenSeconds(incident, now)),
                             Text(Part(incident, "evidence"), "resolved_by"));
}

std::string FirstLine(const Json& incident) {
  std::string line = CulpritsText(incident);
  if (List(incident, "ranks").size() > 1) line += ", in order of failure";
  if (const int64_t followed = Whole(Part(incident, "evidence"), "ranks_followed"); followed > 0)
    line += fmt::format("; {} more followed", followed);
  return line;
}

std::string StacksLine(const WhyFacts& facts) {
  const Json& incident = facts.incidents.front();
  std::vector<std::string> names;
  for (const CollectedStack& stack : StacksOf(incident)) names.push_back(stack.of);
  if (!names.empty())
    return base::Joined(names, ", ") + "; shown by stepwatch why " + base::Printable(facts.run, 200) + " --stacks";
  const std::string kind = Text(incident, "incident");
  return kind == "stuck" ? "no stacks collected" : "";
}

// The first line of the logs that shows the cause.
std::string LogLine(const Json& incident) {
  const Json& line = Part(incident, "log_line");
  const std::string text = Text(line, "text");
  if (text.empty()) return "";
  const int64_t rank = Whole(line, "rank");
  return (rank >= 0 ? fmt::format("rank {}: ", rank) : std::string()) + text + " (" + Text(line, "source") + ")";
}

std::string ChangedLine(const ChangesBefore& changes) {
  std::vector<std::string> all = changes.lines;
  if (!changes.unknown.empty()) all.push_back("edits unknown: " + changes.unknown);
  return all.empty() ? "no plan began or stopped before it" : base::Joined(all, "; ");
}

void AddWorst(const WhyFacts& facts, double now, WhyScreen* screen) {
  const Json& incident = facts.incidents.front();
  const vocabulary::IncidentKindText& kind = TextOfKind(Text(incident, "incident"));
  const Colour colour = !IsOpen(incident)                          ? Colour::kDim
                        : Text(incident, "severity") == "critical" ? Colour::kRed
                                                                   : Colour::kYellow;
  screen->Raw(Coloured(Text(incident, "severity") + " " + Text(incident, "incident"), colour) + ": " +
              std::string(kind.meaning) + "  [" + Text(incident, "id") + "]");
  screen->Add("since", SinceLine(incident, now));
  screen->Add("first", FirstLine(incident));
  screen->Add("layer", facts.layer.text.empty() && !facts.layer.unknown.empty() ? "unknown: " + facts.layer.unknown
                                                                                : facts.layer.text);
  screen->Add("changed", ChangedLine(facts.changes), 4);
  screen->Add("evidence", base::Joined(EvidenceText(incident), "; "), kEvidenceLinesMax);
  screen->Add("log", LogLine(incident), 3);
  screen->Add("stacks", StacksLine(facts));
  screen->Add("said", ReportedBy(incident), 2);
  screen->Add("next", std::string(kind.advice), 4);
}

std::string OtherLine(const Json& incident, double now) {
  std::string line = Text(incident, "severity") + " " + Text(incident, "incident") + ", " + CulpritsText(incident);
  if (const int64_t step = Whole(incident, "since_step"); step >= 0) line += fmt::format(", since step {}", step);
  line += ", " + DurationText(OpenSeconds(incident, now));
  if (const std::vector<std::string> evidence = EvidenceText(incident); !evidence.empty())
    line += ": " + base::Joined(evidence, "; ");
  return line + " [" + Text(incident, "id") + "]";
}

}  // namespace

std::string WhyText(const WhyFacts& facts, double now, size_t width) {
  WhyScreen screen(width);
  screen.Add("run", RunLine(facts, now));
  if (facts.incidents.empty()) {
    screen.Add("", "no incidents");
    return std::move(screen).text();
  }
  AddWorst(facts, now, &screen);
  for (size_t i = 1; i < facts.incidents.size() && i <= kOthersShown; ++i)
    screen.Add(i == 1 ? "also open" : "", OtherLine(facts.incidents[i], now), 2);
  if (facts.incidents.size() > kOthersShown + 1)
    screen.Add("", fmt::format("and {} more: stepwatch incidents --run {}", facts.incidents.size() - kOthersShown - 1,
                               base::Printable(facts.run, 200)));
  return std::move(screen).text();
}

std::string WhyStacksText(const WhyFacts& facts) {
  std::string text;
  if (facts.incidents.empty()) return text;
  for (const CollectedStack& stack : StacksOf(facts.incidents.front())) {
    text += "\nstack of " + stack.of + ":\n";
    std::string_view rest = stack.text_untrusted;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      text += base::Printable(rest.substr(0, end), 1000) + "\n";
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return text.empty() ? "\nno stack was collected\n" : text;
}

Json WhyJson(const WhyFacts& facts) {
  Json incidents = Json::array();
  for (const Json& each : facts.incidents) {
    const vocabulary::IncidentKindText& kind = TextOfKind(Text(each, "incident"));
    incidents.push_back(each);
    incidents.back()["what"] = kind.meaning;
    incidents.back()["evidence_words"] = EvidenceText(each);
    incidents.back()["next"] = json::OrNull(std::string(kind.advice));
  }
  return {{"version", http::kAnswerVersion},
          {"run_id", json::OrNull(facts.run)},
          {"run", facts.detail.empty() ? Json() : facts.detail},
          {"incidents", std::move(incidents)},
          {"layer", json::OrNull(facts.layer.text)},
          {"layer_unknown", json::OrNull(facts.layer.unknown)},
          {"changed", facts.changes.lines},
          {"changed_unknown", json::OrNull(facts.changes.unknown)}};
}

namespace {

constexpr size_t kUsualWidth = 80;

Result<std::vector<Json>> IncidentsOf(const StepwatchdClient& client, const char* state, const std::string& run,
                                      int limit) {
  const Result<Json> answer =
      client.Get(fmt::format("/v1/incidents?state={}&limit={}&run={}", state, limit, UrlPiece(run)));
  if (!answer.ok()) return answer.status();
  const Json& list = List(answer.value(), "incidents");
  std::vector<Json> incidents(list.begin(), list.end());
  std::stable_sort(incidents.begin(), incidents.end(), IsWorse);
  return incidents;
}

// The run with the worst open incident; empty: no open incident.
Result<std::string> WorstRun(const StepwatchdClient& client) {
  const Result<std::vector<Json>> open = IncidentsOf(client, "open", "", 2000);
  if (!open.ok()) return open.status();
  return open.value().empty() ? std::string() : RawText(open.value().front(), "run");
}

std::vector<control_socket::FoundJob> JobsOf(const std::string& run) {
  std::vector<control_socket::FoundJob> jobs;
  for (const control_socket::FoundJob& job : AllJobs())
    if (RunRankOf(job).run_id == run) jobs.push_back(job);
  return jobs;
}

void AddChanges(const StepwatchdClient& client, const std::vector<control_socket::FoundJob>& jobs, WhyFacts* facts) {
  const Json& worst = facts->incidents.front();
  const Moment moment{Whole(worst, "since_step"), Number(worst, "opened_t")};
  facts->changes = FindEdits(jobs, facts->run, moment);
  const Result<Json> rates = client.Get("/v1/runs/" + UrlPiece(facts->run) + "/series/lr");
  const std::string jump = rates.ok() ? LearningRateJump(List(rates.value(), "points"), moment) : "";
  if (!jump.empty()) facts->changes.lines.push_back(jump);
}

Result<WhyFacts> CollectFacts(const StepwatchdClient& client, const std::string& run) {
  WhyFacts facts;
  facts.run = run;
  // stepwatchd may keep incidents of a run longer than the run.
  const Result<Json> detail = client.Get("/v1/runs/" + UrlPiece(run));
  if (!detail.ok() && detail.status().code() != StatusCode::kNotFound) return detail.status();
  facts.detail = detail.ok() ? detail.value() : Json::object();
  for (const char* state : {"open", "all"}) {
    if (!facts.incidents.empty()) break;
    Result<std::vector<Json>> found = IncidentsOf(client, state, run, state == std::string("open") ? 2000 : 1);
    if (!found.ok()) return found.status();
    facts.incidents = std::move(found).value();
  }
  if (facts.incidents.empty()) return facts;
  const std::vector<control_socket::FoundJob> jobs = JobsOf(run);
  AddChanges(client, jobs, &facts);
  facts.layer = FindLayer(jobs, facts.detail, facts.incidents.front());
  return facts;
}

}  // namespace

int RunWhy(const WhyArguments& arguments) {
  const Result<StepwatchdClient> client = FindStepwatchd(arguments.stepwatchd);
  if (!client.ok()) return FailOperations(client.status(), arguments.json);
  const Result<std::string> run =
      arguments.run.empty() ? WorstRun(client.value()) : ResolveRun(client.value(), arguments.run);
  if (!run.ok()) return FailOperations(run.status(), arguments.json);
  if (run.value().empty()) {
    if (arguments.json) PrintObject(WhyJson({}));
    if (!arguments.json)
      base::Print(stdout, "no incident is open; `stepwatch incidents --all` shows those that were\n");
    return kExitDone;
  }
  const Result<WhyFacts> facts = CollectFacts(client.value(), run.value());
  if (!facts.ok()) return FailOperations(facts.status(), arguments.json);
  if (arguments.json) {
    PrintObject(WhyJson(facts.value()));
    return kExitDone;
  }
  const int width = TerminalWidth(STDOUT_FILENO);
  std::string text = WhyText(facts.value(), WallSeconds(), width > 0 ? static_cast<size_t>(width) : kUsualWidth);
  if (arguments.stacks) text += WhyStacksText(facts.value());
  base::Print(stdout, "%s", text.c_str());
  return kExitDone;
}

}  // namespace stepwatch::cli
