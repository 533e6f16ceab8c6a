// The prefixes that launchers, schedulers, containers and loggers put before a line.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "src/logs/line_time.h"
#include "src/logs/record.h"

namespace stepwatch::logs {

// All texts lie in the line.
struct Prefixes {
  std::string_view message;  // the line without its prefixes; blanks before a line of a stack stay
  std::optional<double> t;   // of the innermost prefix that has one
  std::optional<int64_t> rank, local_rank;
  std::string_view host;
  std::string_view writer;  // a process or pod by another name; with the ranks it tells writers of a stream apart
  Level level = Level::kUnset;
  std::string_view component;
  std::optional<int64_t> repeated;  // Ray's "[repeated 7x ...]"
  bool has_own_header = false;      // the program itself printed a time or a level: a new record begins
  bool is_partial = false;          // the container runtime cut the line; the next one continues it
};

// At most 12 prefixes; nested and doubled ones count once. Costs a comparison of the first byte for a line without.
Prefixes DecodePrefixes(std::string_view line, const TimePolicy& policy);

// A level as loggers spell it (INFO, warn, Error, W): the whole word. kUnset: another word.
Level LevelOf(std::string_view word);

// "==> FILE <==" of tail: the file; empty: another line.
std::string_view TailedFile(std::string_view line);

struct PathRank {
  std::optional<int64_t> rank, local_rank;
};
// The rank that a path names: rank3.log, rank_3/stdout, or torchrun's attempt_0/3/stderr.log (a local rank).
PathRank RankOfPath(std::string_view path);

}  // namespace stepwatch::logs
