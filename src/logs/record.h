// A record of a log: one line, or the lines of one exception, without its prefixes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/vocabulary/incident_kinds.h"

namespace stepwatch::logs {

inline constexpr size_t kMessageBytesMax = size_t{64} << 10;

enum class Level : uint8_t { kUnset, kTrace, kDebug, kInfo, kWarning, kError, kFatal };

// The part of an anomaly in the story of a failure.
enum class Role : uint8_t {
  kRoot,     // may be the first cause
  kCascade,  // follows from a fault elsewhere
  kSymptom,  // shows that something is wrong, and no cause
  kNotice,   // worth a line, and no fault
};

struct Anomaly {
  std::string_view name;  // of the catalogue, such as "nccl_timeout"; static storage
  vocabulary::Severity severity = vocabulary::Severity::kWarning;
  Role role = Role::kSymptom;
  std::optional<int64_t> culprit_rank;
  std::vector<std::pair<std::string, std::string>> facts;
};

// A finished step, or an evaluation.
struct Progress {
  std::optional<int64_t> step;
  bool is_evaluation = false;
  // Keys as in beats: loss, grad_norm, lr, tokens, samples, step_seconds, loss_scale, tokens_per_second, ... NaN and
  // infinities are kept. Keys are unique.
  std::vector<std::pair<std::string, double>> numbers;
};

struct Exception {
  std::string type;     // as printed: torch.OutOfMemoryError, SIGSEGV, ...
  std::string message;  // after the type
  std::string stack;    // all lines, without their prefixes
};

struct Record {
  std::string id;           // of file and offset, set by the intake; empty: none
  std::string source;       // file, unit or agent, set by the intake
  std::optional<double> t;  // the line's own time, in seconds of the wall clock
  double observed_t = 0;
  std::string host;
  std::optional<int64_t> rank, local_rank;
  Level level = Level::kUnset;
  std::string component;  // the logger, or the source file
  std::string message;    // without prefixes; valid UTF-8; at most kMessageBytesMax
  bool is_truncated = false;
  std::optional<Progress> progress;
  std::optional<Exception> exception;
  std::vector<Anomaly> anomalies;
  std::vector<std::pair<std::string, std::string>> attributes;  // of the line, at most kAttributesMax
};

inline constexpr size_t kAttributesMax = 32;

// The line's own time, else when it was read.
inline double TimeOf(const Record& record) {
  return record.t.value_or(record.observed_t);
}

}  // namespace stepwatch::logs
