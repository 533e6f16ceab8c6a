// What the evidence of an incident says.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "controller/cli/duration.h"
#include "controller/cli/incident_words.h"
#include "controller/cli/read_json.h"
#include "src/base/text.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

constexpr size_t kEvidenceBytesMax = 300;
constexpr size_t kListMax = 8;
constexpr size_t kRanksShown = 4, kRanksShownShort = 3;
constexpr std::string_view kStacksOfRank = "stacks_of_rank_";

// By what it is known who stands still.
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

std::string EvidenceValueText(const Json& value) {
  if (value.is_string()) return base::Printable(value.get_ref<const std::string&>(), kEvidenceBytesMax);
  if (value.is_number()) return NumberText(value.get<double>());
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_array()) return base::Printable(json::Dump(value), kEvidenceBytesMax);
  std::string text;
  for (size_t i = 0; i < value.size() && i < kListMax; ++i) text += (i == 0 ? "" : ", ") + EvidenceValueText(value[i]);
  if (value.size() > kListMax) text += fmt::format(" and {} more", value.size() - kListMax);
  return text;
}

std::string WordOf(std::string_view key, const Json& value) {
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
  return WordOf(key, value);
}

// Nothing: the evidence lacks a key of it, or all of them were told of.
std::optional<std::string> Filled(std::string_view sentence, const Json& evidence, std::set<std::string>* told) {
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
  const size_t before = told->size();
  told->insert(keys.begin(), keys.end());
  return told->size() == before ? std::nullopt : std::optional(text);
}

bool IsStack(std::string_view key) {
  return key == "stack" || key == "stacks" || key.starts_with(kStacksOfRank);
}

// Of the end, of the alert, and what has a line of its own.
bool IsToldElsewhere(const std::string& key) {
  return IsStack(key) || key == "resolved_by" || key == "open_seconds" || key == "symptoms" || key == "fingerprint";
}

}  // namespace

std::vector<std::string> EvidenceWords(const Json& incident) {
  const Json& evidence = Part(incident, "evidence");
  std::vector<std::string> words;
  std::set<std::string> told;
  for (const char* sentence : WordsOfKind(Text(incident, "incident")).sentences)
    if (std::optional<std::string> text = Filled(sentence, evidence, &told)) words.push_back(*std::move(text));
  std::string rest;
  for (const auto& [key, value] : evidence.items())
    if (!told.contains(key) && !IsToldElsewhere(key))
      rest += (rest.empty() ? "" : ", ") + base::Printable(key) + " " + EvidenceValueText(value);
  if (!rest.empty()) words.push_back(rest);
  if (const Json& symptoms = List(evidence, "symptoms"); !symptoms.empty())
    words.push_back("consequences: " + EvidenceValueText(symptoms));
  return words;
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
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size() && i < kRanksShown; ++i)
    text += (i == 0 ? "" : ", ") + EvidenceValueText(ranks[i]);
  return ranks.size() <= kRanksShown ? text : text + fmt::format(" and {} more", ranks.size() - kRanksShown);
}

std::string ShortCulpritsText(const Json& incident) {
  const Json& ranks = List(incident, "ranks");
  if (ranks.empty()) return "-";
  std::string text;
  for (size_t i = 0; i < ranks.size() && i < kRanksShownShort; ++i)
    text += (i == 0 ? "" : ",") + EvidenceValueText(ranks[i]);
  return ranks.size() <= kRanksShownShort ? text : text + fmt::format(" +{}", ranks.size() - kRanksShownShort);
}

}  // namespace stepwatch::cli
