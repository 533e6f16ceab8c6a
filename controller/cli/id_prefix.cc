#include "controller/cli/id_prefix.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/text.h"

namespace stepwatch::cli {
namespace {

constexpr size_t kNamedMax = 8;
constexpr size_t kWholeMax = 16;
constexpr size_t kShownMin = 8;

size_t CommonBytes(const std::string& a, const std::string& b) {
  const size_t size = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(size), b.begin()).first -
                             a.begin());
}

}  // namespace

Result<std::string> MeantId(const std::string& beginning, const std::vector<KnownId>& known, const std::string& noun) {
  std::vector<const KnownId*> meant;
  for (const KnownId& each : known) {
    if (each.first == beginning) return beginning;
    if (each.first.starts_with(beginning)) meant.push_back(&each);
  }
  if (meant.size() == 1) return meant.front()->first;
  if (meant.empty())
    return Status(StatusCode::kNotFound,
                  fmt::format("stepwatchd has no {} with the id prefix \"{}\"", noun, base::Printable(beginning)));
  std::string names;
  for (size_t i = 0; i < meant.size() && i < kNamedMax; ++i) {
    names += (i == 0 ? "" : ", ") + base::Printable(meant[i]->first);
    if (!meant[i]->second.empty()) names += " (" + base::Printable(meant[i]->second) + ")";
  }
  if (meant.size() > kNamedMax) names += fmt::format(" and {} more", meant.size() - kNamedMax);
  return Status(StatusCode::kInvalid, fmt::format("the id of {} {}s begins with \"{}\": {}", meant.size(), noun,
                                                  base::Printable(beginning), names));
}

std::vector<std::string> ShortIds(const std::vector<std::string>& ids) {
  std::vector<std::string> sorted = ids;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<std::string> shown;
  for (const std::string& id : ids) {
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), id);
    size_t common = 0;
    if (at != sorted.begin()) common = CommonBytes(id, *(at - 1));
    if (at + 1 != sorted.end()) common = std::max(common, CommonBytes(id, *(at + 1)));
    const size_t bytes = std::max(kShownMin, common + 1);
    shown.push_back(base::Printable(id.size() <= kWholeMax ? id : id.substr(0, bytes)));
  }
  return shown;
}

}  // namespace stepwatch::cli
