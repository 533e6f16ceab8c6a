#include "src/http/router.h"

#include <algorithm>
#include <charconv>

#include "src/base/parse_number.h"

namespace stepwatch::http {
namespace {

// An incomplete %xx stays as it is.
std::string Decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const bool is_escape =
        text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ptr == text.data() + i + 3;
    decoded += is_escape ? static_cast<char>(byte) : text[i];
    if (is_escape) i += 2;
  }
  return decoded;
}

std::vector<std::string_view> Split(std::string_view text, char mark) {
  std::vector<std::string_view> pieces;
  for (size_t end = 0; end != std::string_view::npos; text.remove_prefix(std::min(end + 1, text.size()))) {
    end = text.find(mark);
    pieces.push_back(text.substr(0, end));
  }
  return pieces;
}

}  // namespace

Target ParseTarget(std::string_view target_untrusted, PathRule rule) {
  const size_t question = std::min(target_untrusted.find('?'), target_untrusted.size());
  std::string_view path = target_untrusted.substr(0, question);
  Target target;
  target.query = target_untrusted.substr(std::min(question + 1, target_untrusted.size()));
  if (rule == PathRule::kLenient) {
    for (const std::string_view part : Split(path, '/'))
      if (!part.empty()) target.parts.push_back(Decoded(part));
  } else if (path.starts_with('/')) {
    for (const std::string_view part : Split(path.substr(1), '/')) target.parts.emplace_back(part);
  }
  return target;
}

std::map<std::string, std::string> ParseQuery(std::string_view query_untrusted) {
  std::map<std::string, std::string> parameters;
  for (const std::string_view pair : Split(query_untrusted, '&')) {
    const size_t equals = std::min(pair.find('='), pair.size());
    if (!pair.empty())
      parameters[Decoded(pair.substr(0, equals))] = Decoded(pair.substr(std::min(equals + 1, pair.size())));
  }
  return parameters;
}

std::optional<uint64_t> NumberInQuery(std::string_view query_untrusted, std::string_view name, uint64_t otherwise) {
  if (query_untrusted.empty()) return otherwise;
  const size_t equals = query_untrusted.find('=');
  if (equals == std::string_view::npos || query_untrusted.substr(0, equals) != name) return std::nullopt;
  return base::ParseNumber<uint64_t>(query_untrusted.substr(equals + 1));
}

bool MatchPath(std::string_view form, const Target& target, std::vector<std::string>* parameters) {
  const std::vector<std::string_view> parts = Split(form.substr(1), '/');
  if (parts.size() != target.parts.size()) return false;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].starts_with('{')) {
      if (parts[i] != target.parts[i]) return false;
    } else if (target.parts[i].empty()) {
      return false;
    } else {
      parameters->push_back(target.parts[i]);
    }
  }
  return true;
}

}  // namespace stepwatch::http
