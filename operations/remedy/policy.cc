#include "operations/remedy/policy.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "operations/intake/incident_registry.h"
#include "src/json/json.h"

namespace stepwatch::operations::remedy {
namespace {

using config::Field;
using config::KeyRule;
using config::Notes;
using config::UnknownKeys;
using Kind = config::JsonValue::Kind;

constexpr size_t kArgumentsMax = 32;

template <auto member, class T>
constexpr KeyRule<T> Name(std::string_view key) {
  return {{.key = key},
          [](const Field& field, Notes& notes, T& out) { return config::ReadName(field, notes, out.*member); }};
}

template <auto member, int64_t least, int64_t most, class T>
constexpr KeyRule<T> Whole(std::string_view key) {
  return {{.key = key}, [](const Field& field, Notes& notes, T& out) {
            return config::ReadInteger(field, notes, {least, most}, out.*member);
          }};
}

template <auto member>
constexpr KeyRule<Rule> Seconds(std::string_view key) {
  return {{.key = key}, [](const Field& field, Notes& notes, Rule& out) {
            return config::ReadNumber(field, notes, {0, 604800}, "a number of seconds from 0 to 604800", out.*member);
          }};
}

// A word of a list, as its place in the list.
template <size_t count>
Status ReadWord(const Field& field, const Notes& notes, const std::array<std::string_view, count>& names, size_t* out) {
  const std::vector<std::string_view> words(names.begin(), names.end());
  std::string word;
  if (Status status = config::ReadString(field, notes, config::AcceptedWords(words), word); !status.ok()) return status;
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) return notes.RefuseWord(StatusCode::kOutOfRange, field, words);
  *out = static_cast<size_t>(found - words.begin());
  return Status();
}

// The values of a list of words.
template <class Value>
Status ReadWords(const Field& field, const Notes& notes, const std::vector<std::string_view>& words,
                 std::optional<Value> (*named)(std::string_view), std::vector<Value>* out) {
  const std::string accepted = "a list of " + config::AcceptedWords(words);
  std::vector<std::string> found;
  if (Status status = config::ReadStrings(field, notes, accepted, found); !status.ok()) return status;
  out->clear();
  for (size_t i = 0; i < found.size(); ++i) {
    const std::optional<Value> value = named(found[i]);
    if (!value) return notes.RefuseWord(StatusCode::kOutOfRange, config::ElementOf(field, i), words);
    out->push_back(*value);
  }
  return Status();
}

Json JsonOf(const config::JsonValue& value) {
  switch (value.kind) {
    case Kind::kNull: return nullptr;
    case Kind::kBool: return value.boolean;
    case Kind::kInteger: return value.integer ? Json(*value.integer) : Json(value.number);
    case Kind::kFloat: return value.number;
    case Kind::kString: return value.string;
    case Kind::kArray: {
      Json list = Json::array();
      for (const config::JsonValue& each : value.children) list.push_back(JsonOf(each));
      return list;
    }
    case Kind::kObject: break;
  }
  Json object = Json::object();
  for (const config::JsonValue& each : value.children) object[each.key] = JsonOf(each);
  return object;
}

template <auto member>
constexpr KeyRule<Rule> ObjectText(std::string_view key) {
  return {{.key = key}, [](const Field& field, Notes& notes, Rule& out) {
            if (!field.value.Is(Kind::kObject)) return notes.Refuse(StatusCode::kWrongType, field, "an object");
            out.*member = JsonOf(field.value).dump();
            return Status();
          }};
}

Status ReadLabels(const Field& field, Notes& notes, Rule& out) {
  constexpr std::string_view kAccepted = "an object of label names and patterns";
  if (!field.value.Is(Kind::kObject)) return notes.Refuse(StatusCode::kWrongType, field, kAccepted);
  for (const config::JsonValue& each : field.value.children) {
    if (!each.Is(Kind::kString))
      return notes.Refuse(StatusCode::kWrongType, config::MemberOf(field, each), "a pattern, as text");
    out.match.labels.emplace_back(each.key, each.string);
  }
  return Status();
}

Status ReadArgv(const Field& field, Notes& notes, Program& out) {
  constexpr std::string_view kAccepted = "a list of 1 to 32 texts that begins with the absolute path of a program";
  if (Status status = config::ReadStrings(field, notes, kAccepted, out.argv); !status.ok()) return status;
  const bool is_usable = !out.argv.empty() && out.argv.size() <= kArgumentsMax && out.argv.front().starts_with('/') &&
                         out.argv.front().find('{') == std::string::npos;
  return is_usable ? Status() : notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
}

constexpr KeyRule<Program> kProgram[] = {
    Name<&Program::name, Program>("name"),
    {{.key = "argv"}, ReadArgv},
    Whole<&Program::seconds, 1, 3600, Program>("seconds"),
    config::Bool<&Program::takes_node, Program>("takes_node", ""),
};

template <auto member>
constexpr KeyRule<Rule> MatchText(std::string_view key) {
  return {{.key = key}, [](const Field& field, Notes& notes, Rule& out) {
            return config::ReadString(field, notes, "a pattern, in which * stands for any characters",
                                      out.match.*member);
          }};
}

constexpr KeyRule<Rule> kRule[] = {
    Name<&Rule::name, Rule>("name"),
    MatchText<&Match::kind>("kind"),
    {{.key = "severity"},
     [](const Field& field, Notes& notes, Rule& out) {
       return ReadWords<Severity>(field, notes, {"info", "warning", "critical"}, SeverityNamed, &out.match.severities);
     }},
    MatchText<&Match::run>("run"),
    MatchText<&Match::owner>("owner"),
    {{.key = "labels"}, ReadLabels},
    Seconds<&Rule::after_seconds>("after_seconds"),
    {{.key = "phases"},
     [](const Field& field, Notes& notes, Rule& out) {
       return ReadWords<RunPhase>(field, notes, {"init", "train", "eval", "checkpoint", "paused"}, PhaseNamed,
                                  &out.phases);
     }},
    {{.key = "ranks_max"},
     [](const Field& field, Notes& notes, Rule& out) {
       int64_t number = 0;
       if (Status status = config::ReadInteger(field, notes, {1, 1 << 20}, number); !status.ok()) return status;
       out.ranks_max = number;
       return Status();
     }},
    {{.key = "action"},
     [](const Field& field, Notes& notes, Rule& out) {
       size_t type = 0;
       if (Status status = ReadWord(field, notes, kDeedTypeNames, &type); !status.ok()) return status;
       out.type = static_cast<DeedType>(type);
       return Status();
     }},
    ObjectText<&Rule::collect>("collect"),
    Whole<&Rule::steps, 1, 100000, Rule>("steps"),
    Name<&Rule::command, Rule>("command"),
    ObjectText<&Rule::arguments>("arguments"),
    Name<&Rule::program, Rule>("program"),
    Name<&Rule::undo, Rule>("undo"),
    {{.key = "power_percent"},
     [](const Field& field, Notes& notes, Rule& out) {
       double percent = 0;
       Status status = config::ReadNumber(field, notes, {10, 100}, "10 to 100 percent of the default limit", percent);
       out.power_ratio = percent / 100;
       return status;
     }},
    Whole<&Rule::checkpoints_kept, 1, 10000, Rule>("keep"),
    {{.key = "approval"},
     [](const Field& field, Notes& notes, Rule& out) {
       bool needs = false;
       if (Status status = config::ReadBool(field, notes, needs); !status.ok()) return status;
       out.approval = needs;
       return Status();
     }},
    Whole<&Rule::per_day_max, 1, 1000, Rule>("per_day_max"),
    Seconds<&Rule::cooldown_seconds>("cooldown_seconds"),
    config::Bool<&Rule::verifies, Rule>("verify", "", "", true),
    Seconds<&Rule::verify_seconds>("verify_seconds"),
    Seconds<&Rule::expires_seconds>("expires_seconds"),
};

// The member without which a deed has no content.
std::string_view NeededBy(DeedType type) {
  switch (type) {
    case DeedType::kEscalate: return "collect";
    case DeedType::kCommand: return "command";
    case DeedType::kPowerLimit: return "power_percent";
    case DeedType::kProgram: return "program";
    case DeedType::kCheckpoints:
    case DeedType::kNotify: return "";
  }
  return "";
}

Status CheckRule(const Field& field, const Notes& notes, const Policy& policy, const Rule& rule) {
  for (const char* key : {"name", "action"})
    if (field.value.Member(key) == nullptr)
      return notes.Refuse(StatusCode::kInvalid, field, std::string("an object with the key \"") + key + "\"");
  if (rule.match.kind.empty() && rule.match.labels.empty())
    return notes.Refuse(StatusCode::kInvalid, field,
                        "a rule with \"kind\" or \"labels\": without them it would follow every incident");
  if (const std::string_view needed = NeededBy(rule.type); !needed.empty() && field.value.Member(needed) == nullptr)
    return notes.Refuse(StatusCode::kInvalid, field,
                        "an object with the key \"" + std::string(needed) + "\", for the action \"" +
                            std::string(NameOf(rule.type)) + "\"");
  std::vector<std::string_view> programs;
  for (const Program& each : policy.programs) programs.push_back(each.name);
  for (const auto& [key, name] : {std::pair("program", &rule.program), std::pair("undo", &rule.undo)}) {
    if (name->empty() || ProgramNamed(policy, *name) != nullptr) continue;
    const Field member = config::MemberOf(field, *field.value.Member(key));
    return programs.empty() ? notes.Refuse(StatusCode::kOutOfRange, member,
                                           "the name of a program of \"remedy.programs\", which is empty")
                            : notes.RefuseWord(StatusCode::kOutOfRange, member, programs);
  }
  return Status();
}

// Reads a list of named objects.
template <class T, class Check>
Status ReadNamed(const Field& field, std::span<const KeyRule<T>> rules, std::string_view things, size_t count_max,
                 Notes& notes, std::vector<T>* out, const Check& check) {
  if (!field.value.Is(Kind::kArray))
    return notes.Refuse(StatusCode::kWrongType, field, "a list of " + std::string(things));
  if (field.value.children.size() > count_max)
    return notes.Refuse(StatusCode::kOutOfRange, field,
                        "at most " + std::to_string(count_max) + " " + std::string(things));
  std::set<std::string> names;
  for (size_t i = 0; i < field.value.children.size(); ++i) {
    const Field element = config::ElementOf(field, i);
    if (!element.value.Is(Kind::kObject))
      return notes.Refuse(StatusCode::kWrongType, element, config::ObjectWithKeys<T>(rules));
    T read;
    Status status = config::ReadMembers<T>(element, rules, UnknownKeys::kRefuse, notes, read);
    if (!status.ok()) return status;
    if (status = check(element, read); !status.ok()) return status;
    if (!names.insert(read.name).second)
      return notes.Refuse(StatusCode::kInvalid, config::MemberOf(element, *element.value.Member("name")),
                          "a name that no other element has");
    out->push_back(std::move(read));
  }
  return Status();
}

// Rules name programs: their lists are read last, whatever the order in the file.
constexpr KeyRule<Policy> kPolicy[] = {
    {{.key = "mode"},
     [](const Field& field, Notes& notes, Policy& out) {
       constexpr std::array<std::string_view, 3> kModes = {"off", "shadow", "act"};
       size_t mode = 0;
       if (Status status = ReadWord(field, notes, kModes, &mode); !status.ok()) return status;
       out.mode = static_cast<Mode>(mode);
       return Status();
     }},
    Whole<&Policy::nodes_max, 0, 1 << 20, Policy>("nodes_max"),
    {{.key = "programs"}, [](const Field&, Notes&, Policy&) { return Status(); }},
    {{.key = "rules"}, [](const Field&, Notes&, Policy&) { return Status(); }},
};

}  // namespace

Status ReadPolicy(const Field& field, Notes& notes, Policy& out) {
  if (!field.value.Is(Kind::kObject))
    return notes.Refuse(StatusCode::kWrongType, field, config::ObjectWithKeys<Policy>(kPolicy));
  Status status = config::ReadMembers<Policy>(field, kPolicy, UnknownKeys::kRefuse, notes, out);
  if (!status.ok()) return status;
  if (const config::JsonValue* programs = field.value.Member("programs")) {
    status = ReadNamed<Program>(config::MemberOf(field, *programs), kProgram, "programs", kProgramsMax, notes,
                                &out.programs, [&notes](const Field& element, const Program& program) {
                                  const bool is_whole = !program.name.empty() && !program.argv.empty();
                                  return is_whole ? Status()
                                                  : notes.Refuse(StatusCode::kInvalid, element,
                                                                 R"(an object with the keys "name" and "argv")");
                                });
    if (!status.ok()) return status;
  }
  if (const config::JsonValue* rules = field.value.Member("rules"))
    return ReadNamed<Rule>(
        config::MemberOf(field, *rules), kRule, "rules", kRulesMax, notes, &out.rules,
        [&](const Field& element, const Rule& rule) { return CheckRule(element, notes, out, rule); });
  return Status();
}

bool ChangesTraining(const Rule& rule) {
  if (rule.type != DeedType::kCommand) return false;
  // Other names are registered by the script: only its author knows what they change.
  return rule.command != "checkpoint" && rule.command != "relieve_memory";
}

bool NeedsApproval(const Rule& rule) {
  return rule.approval.value_or(ChangesTraining(rule));
}

bool MatchesTrigger(const Match& match, const Trigger& trigger) {
  const auto& severities = match.severities;
  if (!severities.empty() && std::find(severities.begin(), severities.end(), trigger.severity) == severities.end())
    return false;
  if (!Matches(match.kind, trigger.kind) || !Matches(match.run, trigger.run) || !Matches(match.owner, trigger.owner))
    return false;
  return std::all_of(match.labels.begin(), match.labels.end(), [&trigger](const auto& wanted) {
    return std::any_of(trigger.labels.begin(), trigger.labels.end(), [&wanted](const auto& label) {
      return label.first == wanted.first && Matches(wanted.second, label.second);
    });
  });
}

const Program* ProgramNamed(const Policy& policy, std::string_view name) {
  for (const Program& each : policy.programs)
    if (each.name == name) return &each;
  return nullptr;
}

}  // namespace stepwatch::operations::remedy
