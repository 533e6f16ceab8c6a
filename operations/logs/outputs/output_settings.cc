#include "operations/logs/outputs/output_settings.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "operations/delivery/escape.h"

namespace stepwatch::operations::outputs {
namespace {

using config::Field;
using config::KeyRule;
using config::Notes;
using config::UnknownKeys;
using Kind = config::JsonValue::Kind;

constexpr size_t kNameBytesMax = 64;
constexpr size_t kIndexBytesMax = 255;
constexpr std::array<std::string_view, 3> kTypeNames = {"file", "elasticsearch", "otlp"};  // as OutputType

template <auto member>
constexpr KeyRule<OutputSettings> WholeFrom1(std::string_view key) {
  return {{.key = key}, [](const Field& field, Notes& notes, OutputSettings& out) {
            return config::ReadInteger(field, notes, {1, 1 << 20}, out.*member);
          }};
}

bool IsSmall(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// The name is a part of the path of the spool.
bool IsOutputName(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax &&
         std::all_of(name.begin(), name.end(), [](char c) { return IsSmall(c) || c == '_' || c == '-'; });
}

// Elasticsearch refuses upper case, most punctuation, and names that begin with - _ +. Others would change the path.
bool IsIndex(std::string_view index) {
  return !index.empty() && index.size() <= kIndexBytesMax && (IsSmall(index.front()) || index.front() == '.') &&
         index != "." && index != ".." &&
         std::all_of(index.begin(), index.end(), [](char c) { return IsSmall(c) || c == '_' || c == '-' || c == '.'; });
}

constexpr KeyRule<OutputSettings> kOutputRules[] = {
    {{.key = "name"},
     [](const Field& field, Notes& notes, OutputSettings& out) {
       constexpr std::string_view kAccepted = "a name of 1 to 64 small letters, digits, - and _";
       if (Status status = config::ReadString(field, notes, kAccepted, out.name); !status.ok()) return status;
       return IsOutputName(out.name) ? Status() : notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
     }},
    {{.key = "type"},
     [](const Field& field, Notes& notes, OutputSettings& out) {
       const std::vector<std::string_view> words(kTypeNames.begin(), kTypeNames.end());
       std::string name;
       if (Status status = config::ReadString(field, notes, config::AcceptedWords(words), name); !status.ok())
         return status;
       const auto found = std::find(kTypeNames.begin(), kTypeNames.end(), name);
       if (found == kTypeNames.end()) return notes.RefuseWord(StatusCode::kOutOfRange, field, words);
       out.type = static_cast<OutputType>(found - kTypeNames.begin());
       return Status();
     }},
    config::Text<&OutputSettings::url, OutputSettings>("url"),
    {{.key = "index"},
     [](const Field& field, Notes& notes, OutputSettings& out) {
       constexpr std::string_view kAccepted = "the name of an index or data stream: small letters, digits, . - and _";
       if (Status status = config::ReadString(field, notes, kAccepted, out.index); !status.ok()) return status;
       return IsIndex(out.index) ? Status() : notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
     }},
    config::Text<&OutputSettings::api_key_file, OutputSettings>("api_key_file"),
    config::Text<&OutputSettings::headers_file, OutputSettings>("headers_file"),
    config::Text<&OutputSettings::ca_file, OutputSettings>("ca_file"),
    WholeFrom1<&OutputSettings::spool_mib>("spool_mib"),
    {{.key = "path"},
     [](const Field& field, Notes& notes, OutputSettings& out) {
       constexpr std::string_view kAccepted = "the absolute path of a file";
       if (Status status = config::ReadString(field, notes, kAccepted, out.path); !status.ok()) return status;
       const bool is_path = out.path.starts_with('/') && !out.path.ends_with('/');
       return is_path ? Status() : notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
     }},
    WholeFrom1<&OutputSettings::file_mib>("file_mib"),
    {{.key = "files"},
     [](const Field& field, Notes& notes, OutputSettings& out) {
       return config::ReadInteger(field, notes, {1, 100}, out.files);
     }},
};

// Refuses keys that would have no effect, and requires those without which the output cannot work.
Status CheckKeys(const Field& field, const Notes& notes, OutputType type) {
  struct Use {
    const char* key;
    bool is_required;
    std::vector<OutputType> types;
  };
  using enum OutputType;
  const Use uses[] = {{"url", true, {kElasticsearch, kOtlp}},
                      {"index", true, {kElasticsearch}},
                      {"path", true, {kFile}},
                      {"api_key_file", false, {kElasticsearch}},
                      {"headers_file", false, {kElasticsearch, kOtlp}},
                      {"ca_file", false, {kElasticsearch, kOtlp}},
                      {"spool_mib", false, {kElasticsearch, kOtlp}},
                      {"file_mib", false, {kFile}},
                      {"files", false, {kFile}}};
  const std::string name(kTypeNames[static_cast<size_t>(type)]);
  for (const Use& use : uses) {
    const config::JsonValue* const member = field.value.Member(use.key);
    const bool is_used = std::find(use.types.begin(), use.types.end(), type) != use.types.end();
    if (member != nullptr && !is_used)
      return notes.Refuse(StatusCode::kInvalid, config::MemberOf(field, *member),
                          std::string("no \"") + use.key + "\" with the type \"" + name + "\"");
    if (member == nullptr && is_used && use.is_required)
      return notes.Refuse(StatusCode::kInvalid, field, "an output of type \"" + name + "\" with \"" + use.key + "\"");
  }
  return Status();
}

Status ReadOutput(const Field& field, Notes& notes, OutputSettings& out) {
  if (!field.value.Is(Kind::kObject))
    return notes.Refuse(StatusCode::kWrongType, field, config::ObjectWithKeys<OutputSettings>(kOutputRules));
  Status status = config::ReadMembers<OutputSettings>(field, kOutputRules, UnknownKeys::kRefuse, notes, out);
  if (!status.ok()) return status;
  for (const char* key : {"name", "type"})
    if (field.value.Member(key) == nullptr)
      return notes.Refuse(StatusCode::kInvalid, field, std::string("an object with the key \"") + key + "\"");
  if (Status checked = CheckKeys(field, notes, out.type); !checked.ok()) return checked;
  // Refused at the output: the address may have a password in it, which no message contains.
  const bool is_usable =
      out.url.empty() || (delivery::IsWebAddress(out.url) && out.url.find_first_of("?#") == std::string::npos);
  while (out.url.ends_with('/')) out.url.pop_back();
  const bool is_missing = out.url.empty() && out.type != OutputType::kFile;
  return is_usable && !is_missing ? Status()
                                  : notes.Refuse(StatusCode::kOutOfRange, field,
                                                 "an output whose \"url\" is an http or https address without a user");
}

}  // namespace

Status ReadOutputs(const Field& field, Notes& notes, std::vector<OutputSettings>& out) {
  if (!field.value.Is(Kind::kArray)) return notes.Refuse(StatusCode::kWrongType, field, "a list of outputs");
  if (field.value.children.size() > kOutputsMax)
    return notes.Refuse(StatusCode::kOutOfRange, field, "at most " + std::to_string(kOutputsMax) + " outputs");
  std::set<std::string> names, paths;
  for (size_t i = 0; i < field.value.children.size(); ++i) {
    const Field element = config::ElementOf(field, i);
    OutputSettings output;
    if (Status status = ReadOutput(element, notes, output); !status.ok()) return status;
    if (!names.insert(output.name).second)
      return notes.Refuse(StatusCode::kInvalid, config::MemberOf(element, *element.value.Member("name")),
                          "a name that no other output has");
    if (output.type == OutputType::kFile && !paths.insert(output.path).second)
      return notes.Refuse(StatusCode::kInvalid, config::MemberOf(element, *element.value.Member("path")),
                          "a path that no other output has");
    out.push_back(std::move(output));
  }
  return Status();
}

}  // namespace stepwatch::operations::outputs
