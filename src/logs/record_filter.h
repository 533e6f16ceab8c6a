// Selects records by rank, time, level and text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "src/logs/record.h"
#include "stepwatch/status.h"

namespace re2 {
class RE2;
}

namespace stepwatch::logs {

class RecordFilter {
 public:
  static constexpr size_t kPatternBytesMax = 1000;

  struct Options {
    std::optional<int64_t> rank = {};
    std::optional<double> since_t = {};  // seconds of the wall clock
    Level level_min = Level::kUnset;     // of EffectiveLevel
    std::string pattern = {};            // RE2, searched in the message and in the stack; empty: any text
  };

  // kInvalid: the pattern is no regular expression, is too long, or needs too much memory.
  static Result<RecordFilter> Make(const Options& options_untrusted);

  // A rank also matches the local rank of a record without a rank.
  bool Selects(const Record& record) const;
  bool selects_all() const;

 private:
  explicit RecordFilter(Options options) : options_(std::move(options)) {}

  Options options_;
  std::shared_ptr<const re2::RE2> pattern_;  // null: any text
};

}  // namespace stepwatch::logs
