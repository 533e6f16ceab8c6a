#include "controller/control_socket/ranks.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/text.h"
#include "src/http/answers.h"
#include "src/json/json.h"
#include "stepwatch/version.h"

namespace stepwatch::control_socket {
namespace {

constexpr const char* kReport = "report";
constexpr const char* kTrial = "dry-run";
constexpr const char* kUnreadable = "its answer is unreadable";
// Keeps an answer small.
constexpr size_t kTextBytesMax = 1000;
constexpr size_t kQuestionHeadBytesMax = 1000;

Json ShortTextOrNull(const std::string& text) {
  return text.empty() ? Json() : Json(base::Printable(text, kTextBytesMax));
}

Json NumberOrNull(int64_t number, int64_t none) {
  return number == none ? Json() : Json(number);
}

Json ErrorOf(const Status& refusal) {
  Json error = {{"message", base::Printable(refusal.message(), kTextBytesMax)}};
  const TextPlace& place = refusal.place();
  if (!place.key.empty()) error["key"] = base::Printable(place.key, kTextBytesMax);
  if (place.line > 0) error["line"] = place.line, error["column"] = place.column;
  return error;
}

// --- messages from other ranks ---

enum class Kind : uint8_t { kText, kWhole, kTruth };
struct Member {
  const char* name;
  Kind kind;
};
constexpr Member kReportMembers[] = {
    {"pid", Kind::kWhole},           {"stepwatch", Kind::kText},     {"incarnation", Kind::kText},
    {"run_id", Kind::kText},         {"state", Kind::kText},         {"step", Kind::kWhole},
    {"paused", Kind::kTruth},        {"plan_id", Kind::kWhole},      {"collected", Kind::kWhole},
    {"armed_plan_id", Kind::kWhole}, {"at_step", Kind::kWhole},      {"proposed_step", Kind::kWhole},
    {"in_doubt", Kind::kTruth},      {"config_sha256", Kind::kText}, {"fault", Kind::kText},
    {"refusal", Kind::kText},
};
constexpr Member kTrialMembers[] = {
    {"ok", Kind::kTruth}, {"collects", Kind::kTruth}, {"sites", Kind::kWhole}, {"rows_per_step", Kind::kWhole}};
constexpr Member kErrorMembers[] = {
    {"message", Kind::kText}, {"key", Kind::kText}, {"line", Kind::kWhole}, {"column", Kind::kWhole}};

bool IsOf(Kind kind, const Json& value) {
  if (kind == Kind::kText) return value.is_string();
  return kind == Kind::kWhole ? value.is_number_integer() : value.is_boolean();
}

// Copies the members that this release knows if they have the expected kind; skips others.
template <size_t count>
void CopyMembers(const Json& reply_untrusted, const Member (&members)[count], bool keeps_null, Json* copy) {
  for (const Member& member : members) {
    const auto found = reply_untrusted.find(member.name);
    const bool is_present = found != reply_untrusted.end() && IsOf(member.kind, *found);
    if (is_present && member.kind == Kind::kText)
      (*copy)[member.name] = base::Printable(found->template get<std::string>(), kTextBytesMax);
    else if (is_present || keeps_null)
      (*copy)[member.name] = is_present ? *found : Json();
  }
}

std::string TextOf(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool IsTrue(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

Result<Json> ObjectOf(const RankWord& word) {
  if (!word.trouble.empty()) return Status(StatusCode::kUnavailable, word.trouble);
  Result<Json> said = json::Parse(word.text_untrusted);
  if (!said.ok() || !said.value().is_object()) return Status(StatusCode::kInvalid, kUnreadable);
  if (const auto error = said.value().find("error"); error != said.value().end() && error->is_string())
    return Status(StatusCode::kInvalid, base::Printable(error->get<std::string>(), kTextBytesMax));
  return said;
}

std::string WhyNotWell(const Json& rank) {
  for (const char* name : {"fault", "refusal"})
    if (const std::string why = TextOf(rank, name); !why.empty()) return why;
  if (IsTrue(rank, "in_doubt")) return "its running step began without the job's decision";
  return TextOf(rank, "state") == "FAILED" ? "it has failed" : "";
}

// Common parts of the answers about all ranks.
class Tally {
 public:
  Tally(const JobStatus& own, const RankWords& words)
      : json_({{"version", http::kAnswerVersion},
               {"run_id", ShortTextOrNull(own.run_id)},
               {"world_size", own.world_size}}),
        world_size_(static_cast<size_t>(own.world_size)),
        alone_(words.alone) {}

  Json& json() { return json_; }
  void Add(Json rank) { ranks_.push_back(std::move(rank)); }
  void AddMissing(int rank, const std::string& why) {
    missing_.push_back({{"rank", rank}, {"reason", why}});
    AddReason(rank, why);
  }
  void AddReason(int rank, const std::string& why) {
    if (reasons_.size() < kReasonsMax) reasons_.push_back({{"rank", rank}, {"reason", why}});
  }
  bool is_complete() const { return ranks_.size() == world_size_; }

  Json Finish() && {
    json_["complete"] = is_complete();
    json_["alone"] = ShortTextOrNull(alone_);
    json_["reasons"] = std::move(reasons_);
    json_["missing"] = std::move(missing_);
    json_["ranks"] = std::move(ranks_);
    return std::move(json_);
  }

 private:
  Json json_;
  const size_t world_size_;
  const std::string alone_;
  Json ranks_ = Json::array(), missing_ = Json::array(), reasons_ = Json::array();
};

}  // namespace

// --- messages between ranks ---

std::string QuestionText(const RankQuestion& question) {
  const bool is_report = question.matter == RankMatter::kReport;
  return json::Dump({{"version", http::kAnswerVersion}, {"ask", is_report ? kReport : kTrial}}) + "\n" + question.bytes;
}

RankQuestion RankQuestionFrom(std::string_view text_untrusted) {
  const size_t end = text_untrusted.find('\n');
  if (end == std::string_view::npos || end > kQuestionHeadBytesMax) return {};
  const Result<Json> head = json::Parse(text_untrusted.substr(0, end));
  if (!head.ok() || !head.value().is_object()) return {};
  const std::string matter = TextOf(head.value(), "ask");
  if (matter == kReport) return {RankMatter::kReport, ""};
  if (matter == kTrial) return {RankMatter::kTrial, std::string(text_untrusted.substr(end + 1))};
  return {};
}

std::string ReportText(const JobStatus& status) {
  const MonitorStatus& monitor = status.monitor;
  Json json = {{"version", http::kAnswerVersion},
               {"rank", status.rank},
               {"pid", status.pid},
               {"stepwatch", kVersion},
               {"incarnation", ShortTextOrNull(status.incarnation)},
               {"run_id", ShortTextOrNull(status.run_id)},
               {"state", RunStateName(monitor.state)},
               {"paused", monitor.paused},
               {"step", monitor.step},
               {"plan_id", NumberOrNull(static_cast<int64_t>(monitor.plan_id), 0)},
               {"collected", monitor.collected},
               {"proposed_step", NumberOrNull(monitor.proposed_step, -1)},
               {"in_doubt", monitor.in_doubt},
               {"config_sha256", ShortTextOrNull(status.running_sha256)},
               {"fault", ShortTextOrNull(monitor.fault)},
               {"refusal", ShortTextOrNull(status.refusal ? status.refusal->message : "")}};
  if (status.armed) {
    json["armed_plan_id"] = status.armed->plan_id;
    json["at_step"] = NumberOrNull(status.armed->at_step, -1);
  }
  return json::Dump(json);
}

std::string TrialText(const Trial& trial) {
  Json json = {{"version", http::kAnswerVersion}, {"ok", trial.refusal.ok()}};
  if (trial.refusal.ok()) {
    json["collects"] = trial.collects;
    json["sites"] = trial.sites;
    json["rows_per_step"] = trial.rows_per_step;
  } else {
    json["refusal"] = ErrorOf(trial.refusal);
  }
  return json::Dump(json);
}

std::string UnknownQuestionText() {
  return json::Dump(
      {{"version", http::kAnswerVersion},
       {"error", std::string("it runs stepwatch ") + kVersion + ", which does not support this question"}});
}

// --- answers of a control socket ---

Json RanksJson(const JobStatus& own, const RankWords& words) {
  Tally tally(own, words);
  for (const RankWord& word : words.words) {
    const Result<Json> said = ObjectOf(word);
    if (!said.ok()) {
      tally.AddMissing(word.rank, said.status().message());
      continue;
    }
    Json rank = {{"rank", word.rank}};
    CopyMembers(said.value(), kReportMembers, /*keeps_null=*/true, &rank);
    if (rank["pid"].is_null() || rank["state"].is_null() || rank["step"].is_null()) {
      tally.AddMissing(word.rank, kUnreadable);
      continue;
    }
    rank["heard_ms"] = word.heard_ms;
    if (const std::string why = WhyNotWell(rank); !why.empty()) tally.AddReason(word.rank, why);
    tally.Add(std::move(rank));
  }
  return std::move(tally).Finish();
}

StatesHeard StatesFrom(int own_rank, const RankWords& words) {
  StatesHeard heard;
  for (const RankWord& word : words.words) {
    const Result<Json> said = ObjectOf(word);
    if (word.rank == own_rank || !said.ok()) continue;
    const std::string state = TextOf(said.value(), "state");
    for (size_t i = 0; i < kRunStateCount; ++i) {
      if (state != RunStateName(static_cast<RunState>(i))) continue;
      ++heard.ranks[i];
      ++heard.count;
    }
  }
  return heard;
}

Json TrialsJson(const JobStatus& own, const std::string& sha256, const RankWords& words) {
  Tally tally(own, words);
  int64_t accepted = 0;
  for (const RankWord& word : words.words) {
    const Result<Json> said = ObjectOf(word);
    if (!said.ok()) {
      tally.AddMissing(word.rank, said.status().message());
      continue;
    }
    Json rank = {{"rank", word.rank}, {"ok", false}};
    CopyMembers(said.value(), kTrialMembers, /*keeps_null=*/false, &rank);
    if (rank["ok"] == true) {
      ++accepted;
    } else {
      const auto refusal = said.value().find("refusal");
      Json& error = rank["error"] = {{"message", "it reported no reason"}};
      if (refusal != said.value().end() && refusal->is_object())
        CopyMembers(*refusal, kErrorMembers, /*keeps_null=*/false, &error);
      tally.AddReason(word.rank, TextOf(error, "message"));
    }
    tally.Add(std::move(rank));
  }
  tally.json()["sha256"] = sha256;
  tally.json()["agreed"] = accepted == own.world_size;
  tally.json()["accepted"] = accepted;
  tally.json()["error"] = Json();
  return std::move(tally).Finish();
}

Json RefusedTrialsJson(const JobStatus& own, const std::string& sha256, const Status& refusal) {
  Tally tally(own, {{}, "the config was refused before any rank was asked"});
  tally.json()["sha256"] = sha256;
  tally.json()["agreed"] = false;
  tally.json()["accepted"] = 0;
  tally.json()["error"] = ErrorOf(refusal);
  return std::move(tally).Finish();
}

}  // namespace stepwatch::control_socket
