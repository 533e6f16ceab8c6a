#include "controller/cli/ranks_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "controller/cli/read_json.h"
#include "controller/cli/text_table.h"
#include "src/base/text.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

// More ranks that are missing, or refuse, are counted.
constexpr size_t kShownMax = 8;

const Json& MemberOrNull(const Json& object, const char* name) {
  static const Json none;
  if (!object.is_object()) return none;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}
std::string WholeOrDash(const Json& object, const char* name) {
  const Json& member = MemberOrNull(object, name);
  return member.is_number_integer() ? std::to_string(member.get<int64_t>()) : "-";
}

std::string PlanText(const Json& rank) {
  if (const std::string plan = WholeOrDash(rank, "plan_id"); plan != "-") return plan;
  const std::string armed = WholeOrDash(rank, "armed_plan_id");
  if (armed == "-") return "-";
  const std::string at = WholeOrDash(rank, "at_step");
  return armed + (at == "-" ? " waits" : " at " + at);
}

std::string TroubleOf(const Json& rank) {
  for (const char* name : {"fault", "refusal"})
    if (const std::string why = Text(rank, name); !why.empty()) return why;
  return IsTrue(rank, "in_doubt") ? "in doubt" : "";
}

std::string RanksHeading(const Json& answer) {
  const Json& ranks = MemberOrNull(answer, "ranks");
  std::string text = fmt::format("run {}, {} of {} ranks", Text(answer, "run_id").substr(0, 8), ranks.size(),
                                 WholeOrDash(answer, "world_size"));
  if (const std::string alone = Text(answer, "alone"); !alone.empty()) text += ": " + Coloured(alone, Colour::kYellow);
  return text + "\n";
}

// "rank 3: why", of the first ones.
std::string RankLines(const Json& list, const char* name) {
  std::string text;
  size_t shown = 0;
  if (!list.is_array()) return text;
  for (const Json& each : list) {
    if (shown == kShownMax) return text + fmt::format("and {} more ranks\n", list.size() - shown);
    text += fmt::format("rank {}: {}\n", WholeOrDash(each, "rank"), Coloured(Text(each, name), Colour::kRed));
    ++shown;
  }
  return text;
}

}  // namespace

std::string RanksText(const Json& answer) {
  std::vector<std::vector<Cell>> rows(1);
  for (const char* name : {"RANK", "STATE", "STEP", "PLAN", "COLLECTED", "CONFIG", "LAST REPORT", "TROUBLE"})
    rows[0].push_back({name, Colour::kBold});
  const Json& ranks = MemberOrNull(answer, "ranks");
  if (ranks.is_array())
    for (const Json& rank : ranks)
      rows.push_back({{WholeOrDash(rank, "rank")},
                      {Text(rank, "state") + (IsTrue(rank, "paused") ? ", paused" : "")},
                      {WholeOrDash(rank, "step")},
                      {PlanText(rank)},
                      {WholeOrDash(rank, "collected")},
                      {Text(rank, "config_sha256").empty() ? "-" : Text(rank, "config_sha256").substr(0, 12)},
                      {WholeOrDash(rank, "heard_ms") + " ms"},
                      {TroubleOf(rank), Colour::kRed}});
  return RanksHeading(answer) + TableText(rows) + RankLines(MemberOrNull(answer, "missing"), "reason");
}

std::string DryRunText(const Json& answer) {
  const std::string hash = Text(answer, "sha256").substr(0, 12);
  const Json& error = MemberOrNull(answer, "error");
  if (error.is_object()) {
    const std::string line = WholeOrDash(error, "line");
    return fmt::format("{} refused{}: {}\n", hash,
                       line == "-" ? "" : fmt::format(" at line {}, column {}", line, WholeOrDash(error, "column")),
                       Coloured(Text(error, "message"), Colour::kRed));
  }
  std::string text = fmt::format("{} of {} ranks would accept {}; the config is unchanged\n",
                                 WholeOrDash(answer, "accepted"), WholeOrDash(answer, "world_size"), hash);
  if (const std::string alone = Text(answer, "alone"); !alone.empty()) text += Coloured(alone, Colour::kYellow) + "\n";
  return text + RankLines(MemberOrNull(answer, "reasons"), "reason");
}

}  // namespace stepwatch::cli
