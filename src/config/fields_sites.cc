#include <algorithm>
#include <string>
#include <vector>

#include "src/config/fields.h"
#include "src/config/name_pattern.h"

namespace stepwatch::config {
namespace {

using Kind = JsonValue::Kind;

constexpr std::string_view kAPattern =
    "a pattern of names, such as \"layers.*.attn\", or \"re:\" and a regular expression";

Status ReadPattern(const Field& field, Notes& notes, std::string& out) {
  Status status = ReadString(field, notes, kAPattern, out);
  if (!status.ok()) return status;
  PatternFault fault;
  if (NamePattern::Compile(out, &fault)) return Status();
  if (fault.too_large) return notes.Refuse(StatusCode::kOutOfRange, field, fault.what);
  return notes.RefuseInside(StatusCode::kOutOfRange, field, fault.at, fault.what);
}

Status ReadMatch(const Field& field, Notes& notes, SiteGroup& group) {
  return ReadPattern(field, notes, group.match);
}

Status ReadExclude(const Field& field, Notes& notes, SiteGroup& group) {
  if (!field.value.Is(Kind::kArray))
    return notes.Refuse(StatusCode::kWrongType, field, "a list of patterns, such as [\"**.bias\"]");
  if (field.value.children.size() > kExcludesMax)
    return notes.Refuse(StatusCode::kOutOfRange, field, "at most " + std::to_string(kExcludesMax) + " patterns");
  for (size_t i = 0; i < field.value.children.size(); ++i) {
    std::string pattern;
    Status status = ReadPattern(ElementOf(field, i), notes, pattern);
    if (!status.ok()) return status;
    group.exclude.push_back(std::move(pattern));
  }
  return Status();
}

Status ReadKind(const Field& element, Notes& notes, SiteGroup& group) {
  std::vector<std::string_view> words;
  for (const KindWord& known : kKindWords) {
    words.emplace_back(known.word);
    if (!element.value.Is(Kind::kString) || element.value.string != known.word) continue;
    group.kinds.insert(group.kinds.end(), known.kinds.begin(), known.kinds.end());
    return Status();
  }
  return element.value.Is(Kind::kString) ? notes.RefuseWord(StatusCode::kOutOfRange, element, words)
                                         : notes.Refuse(StatusCode::kWrongType, element, AcceptedWords(words));
}

Status ReadKinds(const Field& field, Notes& notes, SiteGroup& group) {
  constexpr std::string_view kAccepted = "a list of at least one kind, such as [\"actv\", \"grad_reduced\"]";
  if (!field.value.Is(Kind::kArray)) return notes.Refuse(StatusCode::kWrongType, field, kAccepted);
  if (field.value.children.empty()) return notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
  for (size_t i = 0; i < field.value.children.size(); ++i) {
    Status status = ReadKind(ElementOf(field, i), notes, group);
    if (!status.ok()) return status;
  }
  std::sort(group.kinds.begin(), group.kinds.end());
  group.kinds.erase(std::unique(group.kinds.begin(), group.kinds.end()), group.kinds.end());
  return Status();
}

Status ReadEvery(const Field& field, Notes& notes, SiteGroup& group) {
  return ReadInteger(field, notes, {0, 100000000}, group.every);
}

Status ReadGroupOps(const Field& field, Notes& notes, SiteGroup& group) {
  constexpr std::string_view kAccepted = "a list of at least one statistic, such as [\"norm\", \"max\"]";
  if (!field.value.Is(Kind::kArray)) return notes.Refuse(StatusCode::kWrongType, field, kAccepted);
  if (field.value.children.empty()) return notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
  for (size_t i = 0; i < field.value.children.size(); ++i) {
    const Field element = ElementOf(field, i);
    std::string name;
    Status status = ReadString(element, notes, "a statistic, such as \"norm\"", name);
    if (!status.ok()) return status;
    if (!StatFromName(name)) return notes.RefuseWord(StatusCode::kOutOfRange, element, StatNames());
    if (TakeOp(name, false, group.ops)) return notes.Refuse(StatusCode::kOutOfRange, element, "each statistic once");
  }
  CompleteOps(group.ops);
  return Status();
}

constexpr KeyRule<SiteGroup> kSiteGroupKeys[] = {
    {{"match", "string", "", "pattern of the names of the group's modules and parameters",
      "missing: wrong type; not a pattern: out of range", R"("type": "string", "maxLength": 1000)"},
     ReadMatch},
    {{"exclude", "list of strings", "[]", "patterns of names that the group leaves out although `match` matches them",
      "not a pattern, or more than 16: out of range",
      R"("type": "array", "maxItems": 16, "items": {"type": "string", "maxLength": 1000})"},
     ReadExclude},
    {{"kinds", "list of strings", "",
      "the kinds collected for these names, regardless of the other fields: {kinds}. Without it the group selects no "
      "sites itself: it covers sites that the other fields and other groups select",
      "another name, or an empty list: out of range",
      R"("type": "array", "minItems": 1, "items": {"enum": [{kinds}]})"},
     ReadKinds},
    {{"every", "integer 0 to 100000000", "1",
      "interval in collected steps: `10` is each tenth, counted from `start_step`; `0` collects no step", "",
      R"("type": "integer", "minimum": 0, "maximum": 100000000)"},
     ReadEvery},
    {{"ops", "list of strings", "",
      "the statistics of the group's rows; without it, those of [`ops`](#statistics-and-files)",
      "unknown or repeated entries, or an empty list: out of range",
      R"("type": "array", "minItems": 1, "uniqueItems": true, "items": {"enum": [{ops}]})"},
     ReadGroupOps},
};

}  // namespace

Status ReadSites(const Field& field, Notes& notes, OwnOptions& own) {
  if (!field.value.Is(Kind::kArray))
    return notes.Refuse(StatusCode::kWrongType, field, "a list of groups, such as [{\"match\": \"layers.*.attn\"}]");
  if (field.value.children.size() > kSiteGroupsMax)
    return notes.Refuse(StatusCode::kOutOfRange, field, "at most " + std::to_string(kSiteGroupsMax) + " groups");
  for (size_t i = 0; i < field.value.children.size(); ++i) {
    const Field element = ElementOf(field, i);
    if (!element.value.Is(Kind::kObject))
      return notes.Refuse(StatusCode::kWrongType, element, ObjectWithKeys<SiteGroup>(kSiteGroupKeys));
    SiteGroup group;
    Status status = ReadMembers<SiteGroup>(element, kSiteGroupKeys, UnknownKeys::kRefuse, notes, group);
    if (!status.ok()) return status;
    if (element.value.Member("match") == nullptr)
      return notes.Refuse(StatusCode::kWrongType, element, "an object with the key \"match\", a pattern of names");
    own.sites.push_back(std::move(group));
  }
  return Status();
}

std::span<const KeyRule<SiteGroup>> InsideSites() {
  return kSiteGroupKeys;
}

}  // namespace stepwatch::config
