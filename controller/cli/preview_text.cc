#include "controller/cli/preview_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "controller/cli/read_json.h"
#include "controller/cli/text_table.h"
#include "src/base/text.h"
#include "src/config/config.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

constexpr size_t kPreviewBytesMax = 200;
constexpr size_t kPreviewLabelWidth = 12;
constexpr size_t kEntriesShown = 10;  // of a list

std::string PreviewValueText(const Json& value) {
  return base::Printable(json::Dump(value), kPreviewBytesMax);
}

// What a value has that the other one has not: entries of lists and objects, otherwise the value itself.
std::vector<std::string> EntriesLeft(const Json& value, const Json& other) {
  std::vector<std::string> entries;
  if (value.is_array() && other.is_array()) {
    std::set<std::string> there;
    for (const Json& entry : other) there.insert(json::Dump(entry));
    for (const Json& entry : value)
      if (!there.contains(json::Dump(entry))) entries.push_back(PreviewValueText(entry));
  } else if (value.is_object() && other.is_object()) {
    for (const auto& [name, entry] : value.items())
      if (const auto found = other.find(name); found == other.end() || *found != entry)
        entries.push_back(PreviewValueText(name) + (entry.empty() ? "" : ": " + PreviewValueText(entry)));
  } else {
    entries.push_back(PreviewValueText(value));
  }
  return entries;
}

void AddEntries(const char* sign, Colour colour, const std::string& key, const std::vector<std::string>& entries,
                std::vector<std::vector<Cell>>* rows) {
  for (size_t i = 0; i < std::min(entries.size(), kEntriesShown); ++i)
    rows->push_back({{sign + key, colour}, {entries[i], colour}});
  if (entries.size() > kEntriesShown)
    rows->push_back({{sign + key, colour}, {fmt::format("and {} more", entries.size() - kEntriesShown), colour}});
}

std::string DifferencesText(const Json& differences) {
  std::vector<std::vector<Cell>> rows;
  for (const Json& each : differences) {
    if (!each.is_object() || !each.contains("was") || !each.contains("now")) continue;
    const std::string key = Text(each, "key");
    const std::vector<std::string> gone = EntriesLeft(each["was"], each["now"]);
    const std::vector<std::string> come = EntriesLeft(each["now"], each["was"]);
    AddEntries("- ", Colour::kRed, key, gone, &rows);
    AddEntries("+ ", Colour::kGreen, key, come, &rows);
    if (gone.empty() && come.empty()) rows.push_back({{"~ " + key}, {"same entries, different order"}});
  }
  return rows.empty() ? "" : TableText(rows);
}

Cell Count(const char* sign, int64_t count, Colour colour) {
  return count <= 0 ? Cell{"-", Colour::kDim} : Cell{sign + std::to_string(count), colour};
}

// What the kind takes of a collected step.
Cell MeasuredCell(const Json& kind) {
  const double seconds = Number(kind, "seconds_per_collected_step", -1);
  return seconds < 0 ? Cell{"unknown", Colour::kDim} : Cell{fmt::format("{:.3f} ms per step", seconds * 1e3)};
}

std::string SitesText(const Json& sites) {
  if (sites.empty()) return "";
  std::vector<std::vector<Cell>> rows(1);
  for (const char* name : {"SITES", "ADDED", "REMOVED", "KEPT", "MEASURED"}) rows[0].push_back({name, Colour::kBold});
  for (const Json& each : sites)
    rows.push_back({{Text(each, "kind")},
                    Count("+", Whole(each, "added"), Colour::kGreen),
                    Count("-", Whole(each, "removed"), Colour::kRed),
                    Count("", Whole(each, "kept"), Colour::kPlain),
                    MeasuredCell(each)});
  return TableText(rows);
}

std::string HeadText(const std::string& job, const Json& preview) {
  const std::string with = Text(preview, "compared_with");
  const std::string other = with == "plan"
                                ? fmt::format("the running plan {}", Whole(Part(preview, "running"), "plan_id"))
                            : with == "file" ? "its config file (no plan is running)"
                                             : "an empty config (no plan is running, and its config file is invalid)";
  const bool is_same = Text(preview, "state") == "same";
  const std::string word = is_same ? "same" : "differs";
  return Coloured(word, is_same ? Colour::kGreen : Colour::kYellow) +
         fmt::format("{:{}}job {}, compared with {}\n", "", kPreviewLabelWidth - word.size(), job, other);
}

std::string EffectText(const Json& preview) {
  const std::string effect = Text(preview, "effect");
  const Json& proposed = Part(preview, "proposed");
  std::string text = "if saved    ";
  if (effect == "stops") return text + "collecting stops at the next step\n";
  if (effect == "nothing") return text + "the collection does not change\n";
  if (effect == "at_restart")
    return text + "no change now: the mode is static, the job reads the file when it starts\n";
  text += "a new window begins at the next step";
  if (!proposed.empty() && !IsTrue(proposed, "rank_collects")) return text + "; this rank is not in module_ranks\n";
  if (const int64_t times = Whole(proposed, "collect_times"); times > 0 && times < config::kCollectTimesForever)
    text += fmt::format(", {} steps collected", times);
  if (const int64_t interval = Whole(proposed, "step_interval"); interval > 1)
    text += fmt::format(", one in {}", interval);
  return text + "\n";
}

std::string Change(const std::string& was, const std::string& now) {
  return was == now ? now : was + " -> " + now;
}

std::string CostText(const Json& running, const Json& proposed) {
  if (running.empty() && proposed.empty()) return "";
  const auto count = [](const Json& side, const char* name) {
    return std::to_string(std::max<int64_t>(Whole(side, name), 0));
  };
  const auto megabytes = [](const Json& side) {
    return fmt::format("{:.1f}", Number(side, "parameter_bytes_per_step") / 1e6);
  };
  return fmt::format(
      "per collected step: {} sites, {} rows, {} MB of parameters, gradients and moments read (plus "
      "activations)\n",
      Change(count(running, "sites"), count(proposed, "sites")),
      Change(count(running, "rows_per_step"), count(proposed, "rows_per_step")),
      Change(megabytes(running), megabytes(proposed)));
}

std::string MeasuredText(const Json& measured) {
  if (measured.empty()) return "";
  return fmt::format("measured: a collected step of plan {} took {:.3f} ms of training time\n",
                     Whole(measured, "plan_id"), Number(measured, "seconds_per_collected_step") * 1e3);
}

std::string Paragraph(const std::string& text) {
  return text.empty() ? "" : "\n" + text;
}

}  // namespace

std::string PreviewText(const std::string& job, const Json& preview) {
  return HeadText(job, preview) + EffectText(preview) + Paragraph(DifferencesText(List(preview, "differences"))) +
         Paragraph(SitesText(List(preview, "sites"))) +
         Paragraph(CostText(Part(preview, "running"), Part(preview, "proposed"))) +
         MeasuredText(Part(preview, "measured"));
}

}  // namespace stepwatch::cli
