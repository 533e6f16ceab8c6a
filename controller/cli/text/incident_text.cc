#include "controller/cli/text/incident_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "controller/cli/read_json.h"
#include "controller/cli/text/text_table.h"
#include "controller/cli/text/time_text.h"
#include "src/base/text.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

// Ids up to this length are shown whole; of others at least this many characters are shown.
constexpr size_t kWholeIdMax = 16;
constexpr size_t kShownIdMin = 8;
// So that the table fits a terminal of 80 characters.
constexpr size_t kNoteShown = 40;

Colour SeverityColour(const std::string& severity) {
  if (severity == "critical") return Colour::kRed;
  return severity == "warning" ? Colour::kYellow : Colour::kPlain;
}

std::vector<std::string> IdsOf(const std::vector<Json>& list, const char* member) {
  std::vector<std::string> ids;
  for (const Json& each : list) ids.push_back(Text(each, member));
  return ids;
}

std::string NoteCell(const Json& incident, double now) {
  if (!IsOpen(incident)) return "resolved " + DurationText(now - Number(incident, "t", now)) + " ago";
  const std::string note = ReportedBy(incident);
  return note.empty() ? "-" : Cut(note, kNoteShown);
}

int SeverityRank(const std::string& severity) {
  return severity == "critical" ? 0 : severity == "warning" ? 1 : 2;
}

// A sentence is shown if the evidence has all of its {keys}, and at least one of them has not been shown. {key:s} is a
// time in seconds, {key:%} a share.
const std::map<std::string_view, std::vector<const char*>> kSentences = {
    {"stuck",
     {"no step for {standstill_seconds:s}; the limit is {deadline_seconds:s}", "{witness}",
      "in phase {phase}; last module entered: {module}", "in phase {phase}", "process state {process_state}",
      "ranks {waiting_ranks} wait for it", "the usual step time is {step_seconds:s}",
      "last report {silent_seconds:s} before"}},
    {"process_lost",
     {"{processes_gone} of {processes} processes ended", "the last signal was {signal}", "the run ended with {end}",
      "memory pressure was {psi_percent} %"}},
    {"loss_nonfinite",
     {"the loss was {value} at step {step}, first on ranks {ranks_first} of {ranks_reporting} reporting ranks",
      "the loss was {value} at step {step}", "the loss scale was {loss_scale}"}},
    {"loss_spike",
     {"the loss was {loss} at step {step}, {ratio} times its median of {loss_median}",
      "its usual deviation is {loss_deviation}", "{samples} consecutive samples are that high"}},
    {"divergence", {"the loss was {loss} at step {step}, {ratio} times its lowest level of {loss_lowest}"}},
    {"grad_nonfinite",
     {"the gradient norm was {value} at step {step}, first on ranks {ranks_first} of {ranks_reporting} reporting ranks",
      "the gradient norm was {value} at step {step}", "the loss scale was {loss_scale}"}},
    {"grad_explosion",
     {"the gradient norm was {grad_norm} at step {step}, {ratio} times its median of {grad_norm_median}"}},
    {"grad_collapse",
     {"the gradient norm was {grad_norm} at step {step}; its level was {grad_norm_level}",
      "{samples} consecutive samples are that low"}},
    {"throughput_drop", {"{rate} {measure}, {ratio:%} of the {rate_baseline} before"}},
    {"straggler",
     {"its own part of a step takes {step_seconds:s}; the median of {ranks_reporting} ranks is {step_seconds_median:s}",
      "{ratio} times the median; its usual ratio is {ratio_usual}"}},
    {"rank_disagreement",
     {"{number} differs at step {step}: the named ranks have {values}, the median of {ranks_reporting} is {median}",
      "{number} differs at step {step}: {values}, the median is {median}"}},
    {"checkpoint_overdue",
     {"the last checkpoint is of step {checkpoint_step}, {steps_since} steps ago; the usual interval is "
      "{interval_steps}",
      "{seconds_since:s} ago; the usual interval is {interval_seconds:s}"}},
    {"exception", {"{type}: {message}", "{ranks_followed} ranks failed after it", "memory of the {where}"}},
    {"out_of_memory",
     {"{type}: {message}", "memory of the {where}", "{oom_kills} processes were killed for memory on {host}",
      "{oom_kills} processes were killed for memory", "memory pressure was {psi_percent} %",
      "{ranks_followed} ranks failed after it"}},
    {"gpu_fault", {"{field} of device {uuid}"}},
};

constexpr vocabulary::IncidentKindText kUnknownKind = {"", vocabulary::Severity::kWarning,
                                                       "unknown kind (reported by a newer release)", ""};

constexpr size_t kEvidenceBytesMax = 300;
constexpr size_t kListMax = 8;
constexpr size_t kRanksShown = 4, kRanksShownShort = 3;
constexpr std::string_view kStacksOfRank = "stacks_of_rank_";

// The observation that identified the stuck rank.
constexpr std::pair<const char*, const char*> kWitnesses[] = {
    {"process_state", "its process is stopped, or waits for a device"},
    {"collective_wait", "its peers wait in a collective, and it does not"},
    {"never_heard", "its peers reported, it never did"},
    {"silent_rank", "it fell silent, its peers did not"},
    {"phase", "it is not in training, as its peers are"},
    {"rank_behind", "it is behind its peers"},
    {"gpu_utilization", "its GPU idles, those of its peers do not, or the reverse"},
    {"module", "it is in another module than its peers"},
    {"quietest", "it was the first to fall silent"}};
// Letters of /proc/PID/stat.
constexpr std::pair<char, const char*> kStates[] = {
    {'T', "T (stopped)"}, {'t', "t (traced by a debugger)"}, {'D', "D (waits for a device)"}, {'Z', "Z (zombie)"}};

std::string NumberText(double number) {
  const bool is_whole = std::abs(number) < 1e15 && number == std::floor(number);
  return is_whole ? fmt::format("{:.0f}", number) : fmt::format("{:.4g}", number);
}

std::string EvidenceValueText(const Json& value);

// `more`: adds the number of the values that are left out.
std::string FirstValues(const Json& list, size_t max, std::string_view between, fmt::format_string<size_t> more) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < list.size() && i < max; ++i) shown.push_back(EvidenceValueText(list[i]));
  return base::Joined(shown, between) + (list.size() > max ? fmt::format(more, list.size() - max) : "");
}

std::string EvidenceValueText(const Json& value) {
  if (value.is_string()) return base::Printable(value.get_ref<const std::string&>(), kEvidenceBytesMax);
  if (value.is_number()) return NumberText(value.get<double>());
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_array()) return base::Printable(json::Dump(value), kEvidenceBytesMax);
  return FirstValues(value, kListMax, ", ", " and {} more");
}

std::string WordsOfValue(std::string_view key, const Json& value) {
  const std::string text = EvidenceValueText(value);
  if (key == "witness")
    for (const auto& [name, words] : kWitnesses)
      if (text == name) return words;
  if (key == "process_state" && text.size() == 1)
    for (const auto& [letter, words] : kStates)
      if (text[0] == letter) return words;
  if (key == "measure" && text == "samples_per_second") return "samples per second";
  if (key == "measure" && text == "tokens_per_second") return "tokens per second";
  if (key == "measure" && text == "steps_per_second") return "steps per second";
  return text;
}

std::string Formatted(std::string_view key, char format, const Json& value) {
  if (format == 's' && value.is_number()) return ShortDurationText(value.get<double>());
  if (format == '%' && value.is_number()) return fmt::format("{:.0f} %", 100 * value.get<double>());
  return WordsOfValue(key, value);
}

// No value: the evidence lacks a key of the sentence, or all of them have been shown.
std::optional<std::string> Filled(std::string_view sentence, const Json& evidence, std::set<std::string>* shown) {
  std::string text;
  std::set<std::string> keys;
  while (!sentence.empty()) {
    const size_t begin = std::min(sentence.find('{'), sentence.size());
    text += sentence.substr(0, begin);
    sentence.remove_prefix(begin);
    if (sentence.empty()) break;
    std::string_view key = sentence.substr(1, sentence.find('}') - 1);
    sentence.remove_prefix(key.size() + 2);
    char format = 0;
    if (const size_t colon = key.find(':'); colon != std::string_view::npos) {
      format = key[colon + 1];
      key = key.substr(0, colon);
    }
    const auto found = evidence.find(std::string(key));
    if (found == evidence.end()) return std::nullopt;
    text += Formatted(key, format, *found);
    keys.emplace(key);
  }
  const size_t before = shown->size();
  shown->insert(keys.begin(), keys.end());
  return shown->size() == before ? std::nullopt : std::optional(text);
}

bool IsStack(std::string_view key) {
  return key == "stack" || key == "stacks" || key.starts_with(kStacksOfRank);
}

// Members about the end or the alert, and those with a line of their own.
bool IsShownElsewhere(const std::string& key) {
  return IsStack(key) || key == "resolved_by" || key == "open_seconds" || key == "symptoms" || key == "fingerprint";
}

size_t CommonBytes(const std::string& a, const std::string& b) {
  const size_t size = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(size), b.begin()).first -
                             a.begin());
}

}  // namespace

std::vector<std::string> ShortIds(const std::vector<std::string>& ids) {
  std::vector<std::string> sorted = ids;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<std::string> shown;
  for (const std::string& id : ids) {
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), id);
    size_t common = 0;
    if (at != sorted.begin()) common = CommonBytes(id, *(at - 1));
    if (at + 1 != sorted.end()) common = std::max(common, CommonBytes(id, *(at + 1)));
    const size_t bytes = std::max(kShownIdMin, common + 1);
    shown.push_back(base::Printable(id.size() <= kWholeIdMax ? id : id.substr(0, bytes)));
  }
  return shown;
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

std::string ReportedBy(const Json& incident) {
  std::string text;
  if (const Json& acknowledged = Part(incident, "acknowledged"); !acknowledged.empty()) {
    const std::string by = Text(acknowledged, "by"), note = Text(acknowledged, "note");
    text = "acknowledged" + (by.empty() ? "" : " by " + by) + (note.empty() ? "" : ": " + note);
  }
  if (!Text(incident, "silenced_by").empty()) text += text.empty() ? "silenced" : "; silenced";
  return text;
}

bool IsWorse(const Json& a, const Json& b) {
  const auto key = [](const Json& each) {
    return std::tuple(!IsOpen(each), SeverityRank(Text(each, "severity")), !ReportedBy(each).empty(),
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
                    {NoteCell(each, now), Colour::kDim}});
  }
  return TableText(rows);
}

std::string ReceiversText(const std::vector<Json>& receivers) {
  std::vector<std::vector<Cell>> rows = {
      HeadingRow({"RECEIVER", "TYPE", "ACCEPTED", "FAILED", "WAITING", "DEAD", "TROUBLE"})};
  for (const Json& each : receivers)
    rows.push_back({{Text(each, "name")},
                    {Text(each, "type")},
                    {OrDash(Whole(each, "sent"))},
                    {OrDash(Whole(each, "failed"))},
                    {OrDash(Whole(each, "waiting"))},
                    {OrDash(Whole(each, "dead_letters"))},
                    {Text(each, "trouble"), Colour::kRed}});
  return TableText(rows);
}

std::string DeliveriesText(const std::vector<Json>& messages) {
  std::vector<std::vector<Cell>> rows = {
      HeadingRow({"TIME", "STATE", "RECEIVER", "SEVERITY", "KIND", "CHANGE", "RUN", "NOTE"})};
  for (const Json& each : messages) {
    const std::string state = Text(each, "state"), severity = Text(each, "severity");
    std::string note = Text(each, "reason");
    if (IsTrue(each, "only_counted")) note += note.empty() ? "in a digest" : "; in a digest";
    if (IsTrue(each, "repeated")) note += note.empty() ? "repeated" : "; repeated";
    rows.push_back({{LocalTimeText(Number(each, "changed_t"))},
                    {state, state == "dead" ? Colour::kRed : Colour::kPlain},
                    {Text(each, "receiver")},
                    {severity, SeverityColour(severity)},
                    {Text(each, "kind")},
                    {Text(each, "change")},
                    {Text(each, "run")},
                    {note, Colour::kDim}});
  }
  return TableText(rows);
}

std::string ChangeLine(const std::string& change, const Json& incident) {
  const bool is_acknowledged = change == "acknowledged";
  const double t = is_acknowledged ? Number(Part(incident, "acknowledged"), "t") : Number(incident, "t");
  const std::string severity = Text(incident, "severity");
  std::string line = fmt::format("{}  {:<12}  {}  {} in {}", LocalTimeText(t), change,
                                 Coloured(fmt::format("{:<8}", severity), SeverityColour(severity)),
                                 Text(incident, "incident"), Text(incident, "run"));
  if (!List(incident, "ranks").empty()) line += ", " + CulpritsText(incident);
  if (const int64_t step = Whole(incident, "since_step"); step >= 0) line += fmt::format(", since step {}", step);
  line += " [" + Text(incident, "id") + "]";
  if (is_acknowledged) return line + " " + ReportedBy(incident);
  if (change == "resolved")
    return line + " after " + DurationText(OpenSeconds(incident, t)) + ": " +
           Text(Part(incident, "evidence"), "resolved_by");
  const std::vector<std::string> evidence = EvidenceText(incident);
  if (!evidence.empty()) line += " " + evidence.front();
  return Text(incident, "silenced_by").empty() ? line : line + " (silenced)";
}

const vocabulary::IncidentKindText& TextOfKind(const std::string& kind) {
  for (const vocabulary::IncidentKindText& text : vocabulary::kIncidentKindTexts)
    if (kind == text.name) return text;
  return kUnknownKind;
}

std::vector<const char*> SentencesOfKind(const std::string& kind) {
  const auto found = kSentences.find(kind);
  return found == kSentences.end() ? std::vector<const char*>() : found->second;
}

std::vector<std::string> EvidenceText(const Json& incident) {
  const Json& evidence = Part(incident, "evidence");
  std::vector<std::string> sentences, rest;
  std::set<std::string> shown;
  for (const char* sentence : SentencesOfKind(Text(incident, "incident")))
    if (std::optional<std::string> text = Filled(sentence, evidence, &shown)) sentences.push_back(*std::move(text));
  for (const auto& [key, value] : evidence.items())
    if (!shown.contains(key) && !IsShownElsewhere(key))
      rest.push_back(base::Printable(key) + " " + EvidenceValueText(value));
  if (!rest.empty()) sentences.push_back(base::Joined(rest, ", "));
  if (const Json& symptoms = List(evidence, "symptoms"); !symptoms.empty())
    sentences.push_back("consequences: " + EvidenceValueText(symptoms));
  return sentences;
}

std::vector<CollectedStack> StacksOf(const Json& incident) {
  std::vector<CollectedStack> stacks;
  for (const auto& [key, value] : Part(incident, "evidence").items()) {
    if (!IsStack(key) || !value.is_string()) continue;
    const bool is_ranks = key.starts_with(kStacksOfRank);
    stacks.push_back({is_ranks         ? "rank " + base::Printable(key.substr(kStacksOfRank.size()))
                      : key == "stack" ? std::string("the exception")
                                       : std::string("the run"),
                      value.get<std::string>()});
  }
  return stacks;
}

std::string CulpritsText(const Json& incident) {
  const Json& ranks = List(incident, "ranks");
  if (ranks.empty()) return "no culprit rank identified";
  return (ranks.size() == 1 ? "rank " : "ranks ") + FirstValues(ranks, kRanksShown, ", ", " and {} more");
}

std::string ShortCulpritsText(const Json& incident) {
  const Json& ranks = List(incident, "ranks");
  return ranks.empty() ? "-" : FirstValues(ranks, kRanksShownShort, ",", " +{}");
}

}  // namespace stepwatch::cli
