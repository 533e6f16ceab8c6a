#include "src/config/field.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "src/base/text.h"

namespace stepwatch::config {
namespace {

using Kind = JsonValue::Kind;

constexpr size_t kValueBytesShown = 40;

std::string Counted(size_t n, std::string_view noun) {
  return std::to_string(n) + " " + std::string(noun) + (n == 1 ? "" : "s");
}

}  // namespace

Field MemberOf(const Field& object, const JsonValue& member) {
  return {member, PathOfMember(object.path, member.key)};
}

Field ElementOf(const Field& list, size_t i) {
  return {list.value.children[i], PathOfElement(list.path, i)};
}

std::string Notes::Found(const JsonValue& value) const {
  const std::string_view written = document_.text.substr(value.range.begin, value.range.end - value.range.begin);
  switch (value.kind) {
    case Kind::kNull: return "null";
    case Kind::kBool: return std::string(written) + " (a boolean)";
    case Kind::kInteger:
      return base::Printable(written, kValueBytesShown) +
             (value.integer ? " (an integer)" : " (an integer beyond 64 bits)");
    case Kind::kFloat: return base::Printable(written, kValueBytesShown) + " (a number with a fraction or an exponent)";
    case Kind::kString: return base::Printable(written, kValueBytesShown) + " (a string)";
    case Kind::kArray:
      return value.children.empty() ? "an empty list" : "a list of " + std::to_string(value.children.size());
    case Kind::kObject: break;
  }
  return value.children.empty() ? "an empty object" : "an object with " + Counted(value.children.size(), "key");
}

Status Notes::Refuse(StatusCode code, const Field& field, std::string_view accepted) const {
  return Status(code, "found " + Found(field.value) + "; accepted: " + std::string(accepted),
                document_.index.Place(field.value.range.begin, field.path));
}

Status Notes::RefuseWord(StatusCode code, const Field& field, const std::vector<std::string_view>& words) const {
  return Refuse(code, field, AcceptedWords(words) + DidYouMean(field.value.string, words));
}

Status Notes::RefuseInside(StatusCode code, const Field& field, size_t byte, std::string_view accepted) const {
  const size_t at = PlaceInString(document_.text, field.value.range, byte);
  return Status(code, "found " + Found(field.value) + "; accepted: " + std::string(accepted),
                document_.index.Place(at, field.path));
}

Status Notes::RefuseKey(const Field& member, const std::vector<std::string_view>& keys) const {
  return Status(StatusCode::kWrongType,
                "found the key \"" + base::Printable(member.value.key) + "\"; accepted: " + AcceptedWords(keys) +
                    DidYouMean(member.value.key, keys),
                document_.index.Place(member.value.key_range.begin, member.path));
}

void Notes::Replaced(const Field& field, std::string_view accepted, std::string_view instead) {
  Add(Warning::Kind::kReplaced, field,
      "found " + Found(field.value) + "; accepted: " + std::string(accepted) + "; " + std::string(instead));
}

void Notes::UnknownKey(const Field& member, const std::vector<std::string_view>& keys) {
  if (Full()) return;
  warnings_.push_back({Warning::Kind::kUnknownKey, document_.index.Place(member.value.key_range.begin, member.path),
                       "unknown key, ignored" + DidYouMean(member.value.key, keys)});
}

std::vector<Warning> Notes::TakeWarnings() {
  std::stable_sort(warnings_.begin(), warnings_.end(), [](const Warning& a, const Warning& b) {
    return std::tie(a.place.line, a.place.column) < std::tie(b.place.line, b.place.column);
  });
  if (left_out_ > 0)
    warnings_.push_back({Warning::Kind::kNote, {}, "and " + Counted(left_out_, "further warning") + ", not shown"});
  return std::move(warnings_);
}

void Notes::Add(Warning::Kind kind, const Field& field, std::string message) {
  if (Full()) return;
  warnings_.push_back({kind, document_.index.Place(field.value.range.begin, field.path), std::move(message)});
}

bool Notes::Full() {
  if (TakesMore()) return false;
  ++left_out_;
  return true;
}

std::string AcceptedWords(const std::vector<std::string_view>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "\"" : i + 1 == words.size() ? " or \"" : ", \"") + std::string(words[i]) + "\"";
  return text;
}

std::string DidYouMean(std::string_view word_untrusted, const std::vector<std::string_view>& words) {
  const std::string_view nearest = base::NearestWord(word_untrusted, words);
  return nearest.empty() ? "" : " (did you mean \"" + std::string(nearest) + "\"?)";
}

Status ReadBool(const Field& field, const Notes& notes, bool& out) {
  if (!field.value.Is(Kind::kBool)) return notes.Refuse(StatusCode::kWrongType, field, "true or false");
  out = field.value.boolean;
  return Status();
}

Status ReadString(const Field& field, const Notes& notes, std::string_view accepted, std::string& out) {
  if (!field.value.Is(Kind::kString)) return notes.Refuse(StatusCode::kWrongType, field, accepted);
  out = field.value.string;
  return Status();
}

Status ReadStrings(const Field& field, const Notes& notes, std::string_view accepted, std::vector<std::string>& out) {
  if (!field.value.Is(Kind::kArray)) return notes.Refuse(StatusCode::kWrongType, field, accepted);
  out.clear();
  for (size_t i = 0; i < field.value.children.size(); ++i) {
    const Field element = ElementOf(field, i);
    if (!element.value.Is(Kind::kString)) return notes.Refuse(StatusCode::kWrongType, element, "a string");
    out.push_back(element.value.string);
  }
  return Status();
}

Status ReadInteger(const Field& field, const Notes& notes, IntegerRange range, int64_t& out) {
  const bool bounded = range.most != std::numeric_limits<int64_t>::max();
  const std::string accepted =
      bounded ? "an integer from " + std::to_string(range.least) + " to " + std::to_string(range.most)
              : "an integer, at least " + std::to_string(range.least);
  if (!field.value.Is(Kind::kInteger)) return notes.Refuse(StatusCode::kWrongType, field, accepted);
  const std::optional<int64_t> value = field.value.integer;
  if (!value || *value < range.least || *value > range.most)
    return notes.Refuse(StatusCode::kOutOfRange, field, accepted);
  out = *value;
  return Status();
}

Status ReadNumber(const Field& field, const Notes& notes, NumberRange range, std::string_view accepted, double& out) {
  if (!field.value.Is(JsonValue::Kind::kInteger) && !field.value.Is(JsonValue::Kind::kFloat))
    return notes.Refuse(StatusCode::kWrongType, field, accepted);
  if (!(field.value.number >= range.least && field.value.number <= range.most))
    return notes.Refuse(StatusCode::kOutOfRange, field, accepted);
  out = field.value.number;
  return Status();
}

Status ReadName(const Field& field, const Notes& notes, std::string& out) {
  constexpr std::string_view kAccepted = "a name of 1 to 64 letters, digits, - and _";
  if (Status status = ReadString(field, notes, kAccepted, out); !status.ok()) return status;
  const bool is_name = !out.empty() && out.size() <= 64 && std::all_of(out.begin(), out.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  return is_name ? Status() : notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
}

}  // namespace stepwatch::config
