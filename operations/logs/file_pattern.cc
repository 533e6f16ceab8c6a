#include "operations/logs/file_pattern.h"

#include <algorithm>
#include <utility>

#include "src/base/file.h"
#include "src/base/parse_number.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kPatternBytesMax = 4096;
constexpr size_t kStarsMax = 4;  // of one part, which bounds the work on a name
constexpr size_t kDirectoriesMax = 4096;
constexpr std::string_view kRank = "{rank}", kRun = "{run}";

std::vector<std::string> PartsOf(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    if (slash > 0) parts.emplace_back(path.substr(0, slash));
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
  }
  return parts;
}

bool IsPlain(std::string_view part) {
  return part.find_first_of("*?{") == std::string_view::npos;
}

}  // namespace

std::string WrongPattern(std::string_view pattern) {
  if (!pattern.starts_with('/')) return "it is not an absolute path";
  if (pattern.size() > kPatternBytesMax) return "it is too long";
  if (pattern.ends_with('/')) return "it names a directory, not files";
  for (const std::string& part : PartsOf(pattern)) {
    size_t stars = static_cast<size_t>(std::count(part.begin(), part.end(), '*'));
    for (size_t brace = part.find('{'); brace != std::string::npos; brace = part.find('{', brace + 1)) {
      const std::string_view rest = std::string_view(part).substr(brace);
      if (!rest.starts_with(kRank) && !rest.starts_with(kRun))
        return "it has a brace that begins neither {rank} nor {run}";
      stars += rest.starts_with(kRun) ? 1 : 0;
    }
    if (part.find("**") != std::string::npos) return "it has **; name each directory, or use * for each";
    if (stars > kStarsMax) return "it has more than 4 stars between two slashes";
  }
  return "";
}

bool MatchesPart(std::string_view pattern, std::string_view name, PatternMatch* found) {
  if (pattern.empty()) return name.empty();
  if (pattern.starts_with(kRank)) {
    constexpr size_t kDigitsMax = 8;
    const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    if (digits == 0 || digits > kDigitsMax) return false;
    if (!MatchesPart(pattern.substr(kRank.size()), name.substr(digits), found)) return false;
    found->rank = base::ParseNumber<int64_t>(name.substr(0, digits));
    return true;
  }
  const bool is_run = pattern.starts_with(kRun);
  if (is_run || pattern.front() == '*') {
    const std::string_view rest = pattern.substr(is_run ? kRun.size() : 1);
    for (size_t size = is_run ? 1 : 0; size <= name.size(); ++size) {
      if (!MatchesPart(rest, name.substr(size), found)) continue;
      if (is_run) found->run = name.substr(0, size);
      return true;
    }
    return false;
  }
  if (name.empty() || (pattern.front() != '?' && pattern.front() != name.front())) return false;
  return MatchesPart(pattern.substr(1), name.substr(1), found);
}

FoundPaths FindPaths(const std::string& pattern, base::FileSystem& files) {
  FoundPaths found;
  std::vector<PatternMatch> level{{"/"}};
  const std::vector<std::string> parts = PartsOf(pattern);
  bool is_certain = true;  // all parts so far are plain
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_last = i + 1 == parts.size();
    std::vector<PatternMatch> next;
    is_certain = is_certain && IsPlain(parts[i]);
    for (const PatternMatch& at : level) {
      if (is_certain && !is_last) {
        next.push_back({base::JoinPath(at.path, parts[i]), at.rank, at.run});
        continue;
      }
      if (found.directories.size() == kDirectoriesMax) {
        found.is_cut = true;
        break;
      }
      found.directories.push_back(at.path);
      const Result<std::vector<std::string>> names = base::ListDirectory(at.path, files);
      if (!names.ok()) continue;
      for (const std::string& name : names.value()) {
        PatternMatch match = at;
        if ((name.starts_with('.') && !parts[i].starts_with('.')) || !MatchesPart(parts[i], name, &match)) continue;
        match.path = base::JoinPath(at.path, name);
        struct stat about {};
        if (base::RepeatInterrupted([&] { return files.Stat(match.path.c_str(), &about); }) != 0) continue;
        if (is_last ? !S_ISREG(about.st_mode) : !S_ISDIR(about.st_mode)) continue;
        if (next.size() == kPathsMax) {
          found.is_cut = true;
          break;
        }
        next.push_back(std::move(match));
      }
    }
    level = std::move(next);
  }
  found.matches = std::move(level);
  return found;
}

}  // namespace stepwatch::operations
