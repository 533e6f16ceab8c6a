// A pattern for paths of log files, such as "/logs/job7/rank_{rank}/*.log".
//
// `*` stands for any characters of one part of a path, `?` for one, `{rank}` for digits, and `{run}` for characters
// without a slash, at least one. It blocks, and what it finds is bounded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/file_system.h"

namespace stepwatch::operations {

struct PatternMatch {
  std::string path;
  std::optional<int64_t> rank = {};
  std::string run = {};  // empty: the pattern does not name it
};

struct FoundPaths {
  std::vector<PatternMatch> matches;     // sorted
  std::vector<std::string> directories;  // that were searched
  bool is_cut = false;                   // there are more
};

inline constexpr size_t kPathsMax = 2048;

// An empty text, or the reason why the pattern is unusable.
std::string WrongPattern(std::string_view pattern);
FoundPaths FindPaths(const std::string& pattern, base::FileSystem& files = base::FileSystem::Real());
// Matches one part of a path. Pure.
bool MatchesPart(std::string_view pattern, std::string_view name, PatternMatch* found);

}  // namespace stepwatch::operations
