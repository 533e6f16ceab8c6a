#include "operations/remedy/program_call.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace stepwatch::operations::remedy {
namespace {

constexpr size_t kValueBytesMax = 253;  // of a host name

bool IsPlain(std::string_view text) {
  return !text.empty() && text.size() <= kValueBytesMax && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
                  c == ':' || c == '-';
         });
}

std::optional<std::string> ValueOf(std::string_view name, const Trigger& trigger) {
  if (name == "node") return trigger.host;
  if (name == "run") return trigger.run;
  if (name == "kind") return trigger.kind;
  if (name == "rank") return trigger.ranks.empty() ? "" : std::to_string(trigger.ranks.front());
  return std::nullopt;
}

}  // namespace

Result<std::vector<std::string>> ArgumentsFor(const Program& program, const Trigger& trigger) {
  std::vector<std::string> arguments;
  for (const std::string& written : program.argv) {
    std::string argument;
    for (size_t at = 0; at < written.size();) {
      const size_t open = std::min(written.find('{', at), written.size());
      argument.append(written, at, open - at);
      at = open;
      if (at == written.size()) break;
      const size_t close = written.find('}', at);
      const auto value = close == std::string::npos
                             ? std::nullopt
                             : ValueOf(std::string_view(written).substr(at + 1, close - at - 1), trigger);
      if (!value) {  // braces of the argument itself
        argument.push_back(written[at++]);
        continue;
      }
      const std::string name = written.substr(at, close - at + 1);
      if (value->empty()) return Status(StatusCode::kNotFound, name + " of the trigger is unknown");
      if (!IsPlain(*value))
        return Status(StatusCode::kInvalid, name + " of the trigger has characters that no argument may have");
      argument += *value;
      at = close + 1;
    }
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

}  // namespace stepwatch::operations::remedy
