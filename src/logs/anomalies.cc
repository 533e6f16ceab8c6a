#include "src/logs/anomalies.h"

#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "src/base/check.h"
#include "src/logs/anomaly_patterns.h"
#include "src/logs/literals.h"
#include "src/logs/xid.h"

namespace stepwatch::logs {
namespace {

using vocabulary::Severity;

// An automaton of all patterns needs some megabytes; RE2 builds its states as texts need them.
constexpr int64_t kSetBytesMax = int64_t{64} << 20;
constexpr size_t kFactBytesMax = 200;

RE2::Options OptionsOfPatterns() {
  RE2::Options options;
  options.set_log_errors(false);
  options.set_encoding(RE2::Options::EncodingLatin1);  // bytes; patterns are ASCII
  options.set_max_mem(kSetBytesMax);
  return options;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::vector<std::string> WordsOf(std::span<const Pattern> patterns) {
  std::vector<std::string> words;
  for (const Pattern& pattern : patterns)
    for (const std::string_view word : Split(pattern.literals, '|')) words.emplace_back(word);
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

std::optional<int64_t> WholeNumber(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "2.50 GiB", "1024 bytes", "77kB" in bytes. Empty if it is none of them.
std::string BytesOf(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return {};
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  double factor = 1;
  const size_t power =
      unit.empty() ? std::string_view::npos : std::string_view("bkmgt").find(static_cast<char>(unit[0] | 0x20));
  if (power != std::string_view::npos) factor = std::pow(1024.0, static_cast<double>(power));
  const double bytes = number * factor;
  if (!(bytes >= 0 && bytes < 9e18)) return {};
  return std::to_string(static_cast<int64_t>(std::llround(bytes)));
}

void AddFact(const std::string& name, std::string_view value, Anomaly* anomaly) {
  if (value.empty()) return;
  if (name == "culprit") {
    if (!anomaly->culprit_rank) anomaly->culprit_rank = WholeNumber(value);
    return;
  }
  for (const auto& [known, unused] : anomaly->facts)
    if (known == name) return;
  std::string fact = name.starts_with("bytes") ? BytesOf(value) : std::string(value.substr(0, kFactBytesMax));
  if (!fact.empty()) anomaly->facts.emplace_back(name, std::move(fact));
}

// A class found twice keeps its strongest role, and all facts.
Anomaly* AddAnomaly(const AnomalyClass& kind, Role role, std::vector<Anomaly>* found) {
  const Severity severity = role == kind.role       ? kind.severity
                            : role == Role::kNotice ? Severity::kInfo
                                                    : std::min(kind.severity, Severity::kWarning);
  for (Anomaly& each : *found) {
    if (each.name != kind.name) continue;
    each.severity = std::max(each.severity, severity);
    if (each.role == Role::kNotice || role == Role::kRoot) each.role = role;
    return &each;
  }
  Anomaly anomaly;
  anomaly.name = kind.name;
  anomaly.severity = severity;
  anomaly.role = role;
  found->push_back(std::move(anomaly));
  return &found->back();
}

bool IsNamedIn(std::string_view name, std::string_view classes) {
  if (classes == "*") return true;
  const std::vector<std::string_view> names = Split(classes, ' ');
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The text in which phrases are evidence: all of it without an exception. With one, its type and message, and what
// stands before the stack: a line of source in the stack may contain any phrase.
std::string EvidenceOf(std::string_view message, const Exception& exception) {
  std::string evidence(message.substr(0, message.find("Traceback (most recent call last)")));
  const size_t line = evidence.find('\n');
  if (line != std::string::npos) evidence.resize(line);
  evidence += '\n';
  evidence += exception.type;
  evidence += ": ";
  evidence += exception.message;
  if (evidence.size() > kMessageBytesMax) evidence.resize(kMessageBytesMax);
  return evidence;
}

bool IsLossKey(std::string_view key) {
  return key == "loss" || key == "lm_loss" || key == "train_loss" || key == "total_loss" || key == "eval_loss" ||
         key == "val_loss" || key == "validation_loss";
}

bool IsGradKey(std::string_view key) {
  return key == "grad_norm" || key == "gradient_norm" || key == "grad_norm_unclipped";
}

}  // namespace

struct AnomalySet::Patterns {
  Patterns() : literals(WordsOf(AnomalyPatterns())), set(OptionsOfPatterns(), RE2::UNANCHORED) {
    for (const Pattern& pattern : AnomalyPatterns()) {
      std::string error;
      const int index = set.Add(re2::StringPiece(pattern.regex.data(), pattern.regex.size()), &error);
      STEPWATCH_CHECK(index == static_cast<int>(each.size()));
      each.push_back(
          std::make_unique<RE2>(re2::StringPiece(pattern.regex.data(), pattern.regex.size()), OptionsOfPatterns()));
    }
    STEPWATCH_CHECK(set.Compile());
  }

  // The positions of the patterns that match.
  std::vector<int> Matching(std::string_view text) const {
    std::vector<int> matching;
    RE2::Set::ErrorInfo error{};
    if (set.Match(re2::StringPiece(text.data(), text.size()), &matching, &error) || error.kind == RE2::Set::kNoError) {
      std::sort(matching.begin(), matching.end());
      return matching;
    }
    matching.clear();  // no memory for the automaton: one pattern after another
    for (size_t i = 0; i < each.size(); ++i)
      if (RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), *each[i]))
        matching.push_back(static_cast<int>(i));
    return matching;
  }

  void AddFacts(size_t index, std::string_view text, Anomaly* anomaly) const {
    const RE2& regex = *each[index];
    const int groups = regex.NumberOfCapturingGroups();
    if (groups == 0) return;
    std::vector<re2::StringPiece> captured(static_cast<size_t>(groups) + 1);
    if (!regex.Match(re2::StringPiece(text.data(), text.size()), 0, text.size(), RE2::UNANCHORED, captured.data(),
                     groups + 1))
      return;
    for (const auto& [group, name] : regex.CapturingGroupNames()) {
      const re2::StringPiece& value = captured[static_cast<size_t>(group)];
      AddFact(name, {value.data(), value.size()}, anomaly);
    }
  }

  Literals literals;
  RE2::Set set;
  std::vector<std::unique_ptr<RE2>> each;
};

AnomalySet::AnomalySet() : patterns_(std::make_unique<Patterns>()) {}
AnomalySet::~AnomalySet() = default;

namespace {

// Numbers of a progress line come before phrases: a finite loss in them is the loss.
struct NumericFindings {
  bool has_loss = false, has_grad = false;
};

NumericFindings AddNumeric(const Progress& progress, std::vector<Anomaly>* found) {
  NumericFindings findings;
  for (const auto& [key, value] : progress.numbers) {
    const bool is_loss = IsLossKey(key), is_grad = IsGradKey(key);
    findings.has_loss |= is_loss;
    findings.has_grad |= is_grad;
    if ((!is_loss && !is_grad) || std::isfinite(value)) continue;
    const AnomalyClass& kind = *AnomalyClassNamed(is_loss ? "loss_nonfinite" : "grad_nonfinite");
    Anomaly* anomaly = AddAnomaly(kind, kind.role, found);
    AddFact("value", std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf", anomaly);
    if (progress.step) AddFact("step", std::to_string(*progress.step), anomaly);
  }
  return findings;
}

void ApplyPrecedences(std::vector<Anomaly>* found) {
  if (found->size() < 2) return;
  std::string hidden;
  for (const Precedence& rule : AnomalyPrecedences())
    for (const Anomaly& each : *found)
      if (each.role != Role::kNotice && IsNamedIn(each.name, rule.better)) (hidden += ' ') += rule.hidden;
  std::erase_if(*found, [&](const Anomaly& each) { return IsNamedIn(each.name, hidden); });
}

bool EndsProgram(const Exception& exception) {
  return exception.type != "SystemExit" && !exception.type.ends_with("Warning") && !exception.type.empty();
}

}  // namespace

void AnomalySet::Find(std::string_view message_untrusted, const Context& context,
                      std::vector<Anomaly>* anomalies) const {
  std::string_view text = message_untrusted.substr(0, kMessageBytesMax);
  std::string evidence;
  if (context.exception != nullptr) {
    evidence = EvidenceOf(text, *context.exception);
    text = evidence;
  }
  const bool may_match = patterns_->literals.AnyIn(text);
  if (!may_match && context.progress == nullptr && context.exception == nullptr) return;

  std::vector<Anomaly> found;
  NumericFindings numeric;
  if (context.progress != nullptr) numeric = AddNumeric(*context.progress, &found);
  std::string cancelled, softened;
  if (may_match) {
    const std::span<const Pattern> patterns = AnomalyPatterns();
    for (const int index : patterns_->Matching(text)) {
      const Pattern& pattern = patterns[static_cast<size_t>(index)];
      if (pattern.effect == Effect::kCancels || pattern.effect == Effect::kSoftens) {
        // A hint inside of an error does not undo the error.
        const bool is_error = context.exception != nullptr || context.level >= Level::kError;
        if (pattern.effect == Effect::kCancels && pattern.classes == "*" && is_error) continue;
        std::string& classes = pattern.effect == Effect::kCancels ? cancelled : softened;
        classes = pattern.classes == "*" || classes == "*" ? "*" : classes + " " + std::string(pattern.classes);
        continue;
      }
      if (pattern.effect == Effect::kFindsXid) {
        Anomaly facts;
        patterns_->AddFacts(static_cast<size_t>(index), text, &facts);
        const XidMeaning meaning = MeaningOfXid(facts.facts, text);
        Anomaly* anomaly = AddAnomaly(*AnomalyClassNamed(meaning.name), meaning.role, &found);
        for (const auto& [name, value] : facts.facts) AddFact(name, value, anomaly);
        continue;
      }
      const AnomalyClass& kind = *AnomalyClassNamed(pattern.classes);
      if ((kind.name == "loss_nonfinite" && numeric.has_loss) || (kind.name == "grad_nonfinite" && numeric.has_grad))
        continue;
      const Role role = pattern.effect == Effect::kFindsCascade   ? Role::kCascade
                        : pattern.effect == Effect::kFindsSymptom ? Role::kSymptom
                        : pattern.effect == Effect::kFindsNotice  ? Role::kNotice
                                                                  : kind.role;
      patterns_->AddFacts(static_cast<size_t>(index), text, AddAnomaly(kind, role, &found));
    }
  }
  std::erase_if(found, [&](const Anomaly& each) { return !cancelled.empty() && IsNamedIn(each.name, cancelled); });
  for (Anomaly& each : found) {
    if (softened.empty() || !IsNamedIn(each.name, softened)) continue;
    each.role = Role::kNotice;
    each.severity = Severity::kInfo;
  }
  ApplyPrecedences(&found);
  if (context.exception != nullptr && found.empty() && EndsProgram(*context.exception)) {
    const AnomalyClass& kind = *AnomalyClassNamed("python_exception");
    AddFact("type", context.exception->type, AddAnomaly(kind, kind.role, &found));
  }
  anomalies->insert(anomalies->end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
}

}  // namespace stepwatch::logs
