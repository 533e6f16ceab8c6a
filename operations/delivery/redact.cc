#include "operations/delivery/redact.h"

#include <algorithm>

namespace stepwatch::operations::delivery {
namespace {

constexpr size_t kSecretBytesMin = 3;
// Shorter parts of a path are words such as "hook", which errors may contain.
constexpr size_t kPartBytesMin = 8;

}  // namespace

std::vector<std::string> SecretPartsOf(std::string_view url) {
  const size_t scheme = url.find("://");
  if (url.empty()) return {};
  if (scheme == std::string_view::npos) return {std::string(url)};
  const size_t path = url.find_first_of("/?#", scheme + 3);
  if (path == std::string_view::npos || path + 1 >= url.size()) return {};
  const std::string_view rest = url.substr(path);
  std::vector<std::string> parts = {std::string(rest)};
  for (size_t begin = 0; begin < rest.size();) {
    const size_t end = std::min(rest.find_first_of("/?&=#", begin), rest.size());
    if (end - begin >= kPartBytesMin) parts.emplace_back(rest.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string Redacted(std::string text, const std::vector<std::string>& secrets) {
  std::vector<std::string> longest_first = secrets;
  std::stable_sort(longest_first.begin(), longest_first.end(),
                   [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  for (const std::string& secret : longest_first) {
    if (secret.size() < kSecretBytesMin) continue;
    for (size_t at = text.find(secret); at != std::string::npos; at = text.find(secret, at + 3))
      text.replace(at, secret.size(), "***");
  }
  return text;
}

}  // namespace stepwatch::operations::delivery
