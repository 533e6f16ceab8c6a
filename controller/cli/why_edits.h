// What was changed before something went wrong: the edits of a run's config, and its learning rate.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "controller/control_socket/find_jobs.h"
#include "src/json/json.h"

namespace stepwatch::cli {

// When it went wrong.
struct Moment {
  int64_t step = -1;  // the last good one; -1: none is known
  double t = 0;       // when it was noticed
};

struct ChangesBefore {
  std::vector<std::string> lines;  // the last ones first
  std::string unknown;             // why nothing is known of edits; empty: it is
};

// Asks the job, else looks for the history where runs write usually. `jobs`: those of the run on this machine.
ChangesBefore FindEdits(const std::vector<control_socket::FoundJob>& jobs, const std::string& run,
                        const Moment& moment);

// The text of a config by its hash; nothing: it is not kept.
using ConfigText = std::function<std::optional<std::string>(const std::string& sha256)>;
// Of lines of a history (docs/formats/history.md), the oldest first: which plan began when, by whom, and which keys
// differ.
std::vector<std::string> EditLines(const std::vector<Json>& history_untrusted, const Moment& moment,
                                   const ConfigText& text_of);

// Of the points of the series `lr`: the last jump of the learning rate before the moment; empty: there is none.
std::string LearningRateJump(const Json& points_untrusted, const Moment& moment);

// Seconds since 1970 of "2026-11-22T17:34:39.123Z"; nothing: it is no such time.
std::optional<double> ParseUtc(const std::string& text);

}  // namespace stepwatch::cli
