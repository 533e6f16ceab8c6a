#include "controller/cli/why.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
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
#include "src/http/answers.h"
#include "src/json/json.h"

namespace stepwatch::cli {
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
