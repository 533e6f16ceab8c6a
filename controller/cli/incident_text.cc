#include "controller/cli/incident_text.h"

#include <fmt/format.h>

#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "controller/cli/duration.h"
#include "controller/cli/id_prefix.h"
#include "controller/cli/incident_words.h"
#include "controller/cli/read_json.h"
#include "controller/cli/text_table.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

// Of a table that is to fit a terminal of 80 characters.
constexpr size_t kSaidShown = 40;

Colour SeverityColour(const std::string& severity) {
  if (severity == "critical") return Colour::kRed;
  return severity == "warning" ? Colour::kYellow : Colour::kPlain;
}

std::vector<std::string> IdsOf(const std::vector<Json>& list, const char* member) {
  std::vector<std::string> ids;
  for (const Json& each : list) ids.push_back(Text(each, member));
  return ids;
}

std::vector<Cell> HeadingRow(std::initializer_list<const char*> names) {
  std::vector<Cell> row;
  for (const char* name : names) row.push_back({name, Colour::kBold});
  return row;
}

std::string SaidCell(const Json& incident, double now) {
  if (!IsOpen(incident)) return "resolved " + DurationText(now - Number(incident, "t", now)) + " ago";
  const std::string said = SaidOf(incident);
  return said.empty() ? "-" : Cut(said, kSaidShown);
}

int SeverityRank(const std::string& severity) {
  return severity == "critical" ? 0 : severity == "warning" ? 1 : 2;
}

}  // namespace

std::string LocalTimeText(double t) {
  if (!(t > 0) || t > 1e11) return "";
  const auto seconds = static_cast<std::time_t>(t);
  std::tm local{};
  if (::localtime_r(&seconds, &local) == nullptr) return "";
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", local.tm_year + 1900, local.tm_mon + 1, local.tm_mday,
                     local.tm_hour, local.tm_min, local.tm_sec);
}

std::string RunStateText(const Json& run) {
  const std::string state = Text(run, "state"), reason = Text(run, "end_reason");
  return reason.empty() ? state : state + " (" + reason + ")";
}

bool IsOfInterest(const Json& run) {
  return Text(run, "state") != "ended" || Whole(run, "incidents_open") > 0;
}

std::string RunsText(const std::vector<Json>& runs, const std::vector<Json>& all, double now) {
  const std::vector<std::string> ids = IdsOf(all, "id"), shown = ShortIds(ids);
  std::map<std::string, std::string> names;
  for (size_t i = 0; i < ids.size(); ++i) names[ids[i]] = shown[i];
  std::vector<std::vector<Cell>> rows = {
      HeadingRow({"RUN", "STATE", "WORLD", "STEP", "STEP TIME", "INCIDENTS", "LAST REPORT"})};
  for (const Json& run : runs) {
    const double step_seconds = Number(run, "step_seconds");
    const int64_t open = Whole(run, "incidents_open");
    rows.push_back({{names[Text(run, "id")]},
                    {RunStateText(run), Text(run, "state") == "ended" ? Colour::kDim : Colour::kPlain},
                    {OrDash(Whole(run, "world"))},
                    {OrDash(Whole(run, "step"))},
                    {step_seconds > 0 ? ShortDurationText(step_seconds) : "-"},
                    {open > 0 ? fmt::format("{} open", open) : "-", open > 0 ? Colour::kRed : Colour::kPlain},
                    {DurationText(now - Number(run, "heard_t", now)) + " ago"}});
  }
  return TableText(rows);
}

bool IsOpen(const Json& incident) {
  return Text(incident, "state") != "resolved";
}

double OpenSeconds(const Json& incident, double now) {
  if (!IsOpen(incident)) return Number(Part(incident, "evidence"), "open_seconds");
  return now - Number(incident, "opened_t", now);
}

std::string SaidOf(const Json& incident) {
  std::string said;
  if (const Json& told = Part(incident, "acknowledged"); !told.empty()) {
    const std::string by = Text(told, "by"), note = Text(told, "note");
    said = "acknowledged" + (by.empty() ? "" : " by " + by) + (note.empty() ? "" : ": " + note);
  }
  if (!Text(incident, "silenced_by").empty()) said += said.empty() ? "silenced" : "; silenced";
  return said;
}

bool IsWorse(const Json& a, const Json& b) {
  const auto key = [](const Json& each) {
    return std::tuple(!IsOpen(each), SeverityRank(Text(each, "severity")), !SaidOf(each).empty(),
                      Number(each, "opened_t"));
  };
  return key(a) < key(b);
}

std::string IncidentsText(const std::vector<Json>& incidents, double now) {
  const std::vector<std::string> ids = ShortIds(IdsOf(incidents, "id")), runs = ShortIds(IdsOf(incidents, "run"));
  std::vector<std::vector<Cell>> rows = {
      HeadingRow({"ID", "SEVERITY", "KIND", "RUN", "RANKS", "SINCE", "OPEN FOR", "NOTE"})};
  for (size_t i = 0; i < incidents.size(); ++i) {
    const Json& each = incidents[i];
    const std::string severity = Text(each, "severity");
    rows.push_back({{ids[i]},
                    {severity, IsOpen(each) ? SeverityColour(severity) : Colour::kDim},
                    {Text(each, "incident")},
                    {runs[i]},
                    {ShortCulpritsText(each)},
                    {OrDash(Whole(each, "since_step"))},
                    {DurationText(OpenSeconds(each, now))},
                    {SaidCell(each, now), Colour::kDim}});
  }
  return TableText(rows);
}

std::string ChangeLine(const std::string& change, const Json& incident) {
  const bool is_said = change == "acknowledged";
  const double t = is_said ? Number(Part(incident, "acknowledged"), "t") : Number(incident, "t");
  const std::string severity = Text(incident, "severity");
  std::string line = fmt::format("{}  {:<12}  {}  {} in {}", LocalTimeText(t), change,
                                 Coloured(fmt::format("{:<8}", severity), SeverityColour(severity)),
                                 Text(incident, "incident"), Text(incident, "run"));
  if (!List(incident, "ranks").empty()) line += ", " + CulpritsText(incident);
  if (const int64_t step = Whole(incident, "since_step"); step >= 0) line += fmt::format(", since step {}", step);
  line += " [" + Text(incident, "id") + "]";
  if (is_said) return line + " " + SaidOf(incident);
  if (change == "resolved")
    return line + " after " + DurationText(OpenSeconds(incident, t)) + ": " +
           Text(Part(incident, "evidence"), "resolved_by");
  const std::vector<std::string> evidence = EvidenceWords(incident);
  if (!evidence.empty()) line += " " + evidence.front();
  return Text(incident, "silenced_by").empty() ? line : line + " (silenced)";
}

}  // namespace stepwatch::cli
