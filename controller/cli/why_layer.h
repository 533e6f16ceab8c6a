// In which layer something first went wrong, as far as anybody knows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "controller/control_socket/find_jobs.h"
#include "src/json/json.h"

namespace stepwatch::cli {

struct LayerFound {
  std::string text;     // empty: not known
  std::string unknown;  // why; empty as well: the incident is of no layer
};

// What the incident itself says, or stepwatchd of the rank, or the latest values of the job. `jobs`: those of the run
// on this machine. `run`: as /v1/runs/ID tells of it.
LayerFound FindLayer(const std::vector<control_socket::FoundJob>& jobs, const Json& run_untrusted,
                     const Json& incident_untrusted);

// Of the values of /v1/latest: the first site with NaN or infinities; with `backwards` the last one, which a backward
// pass comes to first.
std::optional<std::string> FirstNonfinite(const Json& latest_untrusted, bool backwards);
// The site with the largest norm.
std::optional<std::string> LargestNorm(const Json& latest_untrusted);
// The innermost frame of a Python stack; empty: it has none.
std::string InnermostFrame(const std::string& stack_untrusted);

}  // namespace stepwatch::cli
