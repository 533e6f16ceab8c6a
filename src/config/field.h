// Common parts of the rules for config fields: the field with its path, the warnings, readers for the usual types, and
// the iteration over an object with fixed keys.
//
// A reader stores the value or rejects it; tolerated faults become warnings in the notes.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/config/config.h"
#include "src/config/json_value.h"
#include "stepwatch/status.h"

namespace stepwatch::config {

// User documentation of a config key: a row of the tables in docs/use/config.md, and a property of the JSON schema.
// Texts are Markdown; the schema's description uses them as sentences without marks and links. Placeholders: {ops} and
// {features} are the names in the tables of statistics and of site kinds, {formats} those in the table of output
// formats, {where rows go} its description of each, and {kinds} the words of `kinds`.
struct FieldText {
  std::string_view key = {};
  std::string_view type = {};      // for people: "integer ≥ 0"
  std::string_view fallback = {};  // value of a config without the key, as JSON; empty: no default
  std::string_view what = {};      // its effect
  std::string_view notes = {};     // values that are rejected, replaced or restored
  // Members of the key's property beside default and description, as JSON: `"type": "boolean"`. Values that the config
  // tolerates with a warning pass the schema.
  std::string_view schema = {};
};

struct Field {
  const JsonValue& value;
  std::string path;
};

Field MemberOf(const Field& object, const JsonValue& member);
Field ElementOf(const Field& list, size_t i);

class Notes {
 public:
  // Limits work and output for a file that is wrong throughout.
  static constexpr size_t kWarningsMax = 100;

  explicit Notes(const JsonDocument& document) : document_(document) {}

  // `"yes" (a string)`, `a list of 3`.
  std::string Found(const JsonValue& value) const;

  // "found …; accepted: …", at the value.
  Status Refuse(StatusCode code, const Field& field, std::string_view accepted) const;
  // The same for a string outside the accepted words, with the nearest of them.
  Status RefuseWord(StatusCode code, const Field& field, const std::vector<std::string_view>& words) const;
  // The same at a byte of a string's value.
  Status RefuseInside(StatusCode code, const Field& field, size_t byte, std::string_view accepted) const;
  // The same for an unknown key of an object.
  Status RefuseKey(const Field& member, const std::vector<std::string_view>& keys) const;

  // "found …; accepted: …; <instead>", at the value.
  void Replaced(const Field& field, std::string_view accepted, std::string_view instead);
  void NotEffective(const Field& field, std::string message) {
    Add(Warning::Kind::kNotEffective, field, std::move(message));
  }
  void Note(const Field& field, std::string message) { Add(Warning::Kind::kNote, field, std::move(message)); }
  void UnknownKey(const Field& member, const std::vector<std::string_view>& keys);

  // False once further warnings are only counted: a search for the nearest word is then unnecessary.
  bool TakesMore() const { return warnings_.size() < kWarningsMax; }
  // In file order; a last one counts those beyond kWarningsMax.
  std::vector<Warning> TakeWarnings();

 private:
  void Add(Warning::Kind kind, const Field& field, std::string message);
  bool Full();

  const JsonDocument& document_;
  std::vector<Warning> warnings_;
  size_t left_out_ = 0;
};

// `"a", "b" or "c"`
std::string AcceptedWords(const std::vector<std::string_view>& words);
// ` (did you mean "ops"?)`, or empty.
std::string DidYouMean(std::string_view word_untrusted, const std::vector<std::string_view>& words);

Status ReadBool(const Field& field, const Notes& notes, bool& out);
Status ReadString(const Field& field, const Notes& notes, std::string_view accepted, std::string& out);
Status ReadStrings(const Field& field, const Notes& notes, std::string_view accepted, std::vector<std::string>& out);
// A value of another type is kWrongType, an integer outside [least, most] kOutOfRange.
struct IntegerRange {
  int64_t least;
  int64_t most = std::numeric_limits<int64_t>::max();
};
Status ReadInteger(const Field& field, const Notes& notes, IntegerRange range, int64_t& out);
struct NumberRange {
  double least;
  double most;
};
// An integer or another number; faults as those of ReadInteger.
Status ReadNumber(const Field& field, const Notes& notes, NumberRange range, std::string_view accepted, double& out);
// A name of 1 to 64 letters, digits, - and _.
Status ReadName(const Field& field, const Notes& notes, std::string& out);

// One key of an object that is read into a T: the row from which the parser, the schema and the tables of
// docs/use/config.md are made.
template <class T>
struct KeyRule {
  FieldText text;
  Status (*read)(const Field& field, Notes& notes, T& out);
};

// The rows of the usual types: Bool<&Config::dynamic_on>("dynamic_on", ...).
template <auto member, class T = Config>
constexpr KeyRule<T> Bool(std::string_view key, std::string_view what, std::string_view notes = "",
                          bool fallback = false) {
  return {{key, "boolean", fallback ? "true" : "false", what, notes, R"("type": "boolean")"},
          [](const Field& field, Notes& notes_taken, T& out) { return ReadBool(field, notes_taken, out.*member); }};
}

// The same for settings that are documented elsewhere.
template <auto member, class T>
constexpr KeyRule<T> Text(std::string_view key) {
  return {{.key = key},
          [](const Field& field, Notes& notes, T& out) { return ReadString(field, notes, "text", out.*member); }};
}

// `an object with the keys "a", "b" and "c"`
template <class T>
std::string ObjectWithKeys(std::span<const KeyRule<T>> rules) {
  std::string text = "an object with the keys ";
  for (size_t i = 0; i < rules.size(); ++i)
    text.append(i == 0 ? "\"" : i + 1 == rules.size() ? " and \"" : ", \"").append(rules[i].text.key).append("\"");
  return text;
}

enum class UnknownKeys : uint8_t { kWarn, kRefuse };

// Members in file order, so the first refusal is the first in the file.
template <class T>
Status ReadMembers(const Field& object, std::span<const KeyRule<T>> rules, UnknownKeys unknown, Notes& notes, T& out) {
  std::vector<std::string_view> keys;
  for (const KeyRule<T>& rule : rules) keys.push_back(rule.text.key);
  for (const JsonValue& child : object.value.children) {
    const Field member = MemberOf(object, child);
    const KeyRule<T>* known = nullptr;
    for (const KeyRule<T>& rule : rules)
      if (rule.text.key == child.key) known = &rule;
    if (known == nullptr && unknown == UnknownKeys::kRefuse) return notes.RefuseKey(member, keys);
    if (known == nullptr) {
      notes.UnknownKey(member, keys);
      continue;
    }
    Status status = known->read(member, notes, out);
    if (!status.ok()) return status;
  }
  return Status();
}

}  // namespace stepwatch::config
