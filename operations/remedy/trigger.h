// The cause of an action: an incident of stepwatchd, or an alert of Alertmanager.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operations/vocabulary/names.h"

namespace stepwatch::operations::remedy {

struct Trigger {
  std::string id;    // of the incident; of an alert its fingerprint and start, so that a repetition has the same
  std::string kind;  // of the incident; of an alert its name
  Severity severity = Severity::kWarning;
  std::string run;    // empty: an alert without a run
  std::string host;   // of the culprit, if it is known
  std::string owner;  // of the run
  std::vector<int64_t> ranks;
  std::optional<int64_t> since_step;                        // the last good step
  std::vector<std::pair<std::string, std::string>> labels;  // of an alert
  std::string summary;                                      // one line for people

  bool operator==(const Trigger&) const = default;
};

}  // namespace stepwatch::operations::remedy
