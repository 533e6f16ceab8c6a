#include "controller/cli/why_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "controller/cli/duration.h"
#include "controller/cli/incident_text.h"
#include "controller/cli/incident_words.h"
#include "controller/cli/read_json.h"
#include "controller/cli/text_table.h"
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
  std::vector<std::string> whose;
  for (const CollectedStack& stack : StacksOf(incident)) whose.push_back(stack.of);
  if (!whose.empty())
    return base::Joined(whose, ", ") + "; shown by stepwatch why " + base::Printable(facts.run, 200) + " --stacks";
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
  const IncidentWords& words = WordsOfKind(Text(incident, "incident"));
  const Colour colour = !IsOpen(incident)                          ? Colour::kDim
                        : Text(incident, "severity") == "critical" ? Colour::kRed
                                                                   : Colour::kYellow;
  screen->Raw(Coloured(Text(incident, "severity") + " " + Text(incident, "incident"), colour) + ": " + words.what +
              "  [" + Text(incident, "id") + "]");
  screen->Add("since", SinceLine(incident, now));
  screen->Add("first", FirstLine(incident));
  screen->Add("layer", facts.layer.text.empty() && !facts.layer.unknown.empty() ? "unknown: " + facts.layer.unknown
                                                                                : facts.layer.text);
  screen->Add("changed", ChangedLine(facts.changes), 4);
  screen->Add("evidence", base::Joined(EvidenceWords(incident), "; "), kEvidenceLinesMax);
  screen->Add("stacks", StacksLine(facts));
  screen->Add("said", SaidOf(incident), 2);
  screen->Add("next", words.next, 4);
}

std::string OtherLine(const Json& incident, double now) {
  std::string line = Text(incident, "severity") + " " + Text(incident, "incident") + ", " + CulpritsText(incident);
  if (const int64_t step = Whole(incident, "since_step"); step >= 0) line += fmt::format(", since step {}", step);
  line += ", " + DurationText(OpenSeconds(incident, now));
  if (const std::vector<std::string> evidence = EvidenceWords(incident); !evidence.empty())
    line += ": " + base::Joined(evidence, "; ");
  return line + " [" + Text(incident, "id") + "]";
}

}  // namespace

Moment MomentOf(const Json& incident) {
  return {Whole(incident, "since_step"), Number(incident, "opened_t")};
}

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
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  Json incidents = Json::array();
  for (const Json& each : facts.incidents) {
    const IncidentWords& words = WordsOfKind(Text(each, "incident"));
    incidents.push_back(each);
    incidents.back()["what"] = words.what;
    incidents.back()["evidence_words"] = EvidenceWords(each);
    incidents.back()["next"] = or_null(words.next);
  }
  return {{"version", http::kAnswerVersion},
          {"run_id", or_null(facts.run)},
          {"run", facts.detail.empty() ? Json() : facts.detail},
          {"incidents", std::move(incidents)},
          {"layer", or_null(facts.layer.text)},
          {"layer_unknown", or_null(facts.layer.unknown)},
          {"changed", facts.changes.lines},
          {"changed_unknown", or_null(facts.changes.unknown)}};
}

}  // namespace stepwatch::cli
