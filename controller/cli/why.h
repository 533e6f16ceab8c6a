// `stepwatch why`: one screen about the incidents of a run, with the edits and the learning rate before the worst one
// and the layer where it began.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "controller/control_socket/find_jobs.h"
#include "src/json/json.h"

namespace stepwatch::cli {

struct WhyArguments {
  std::string run;  // a prefix of its id; empty: the run with the worst open incident
  bool stacks = false;
  bool json = false;
  std::string stepwatchd;
};

int RunWhy(const WhyArguments& arguments);

// When an incident began.
struct Moment {
  int64_t step = -1;  // the last good one; -1: unknown
  double t = 0;       // when it was detected
};

struct ChangesBefore {
  std::vector<std::string> lines;  // the last ones first
  std::string unknown;             // why the edits are unknown; empty: they are known
};

// From the job, else from the history in the usual output base. `jobs`: those of the run on this machine.
ChangesBefore FindEdits(const std::vector<control_socket::FoundJob>& jobs, const std::string& run,
                        const Moment& moment);

// The text of a config by its hash; no value: it is not kept.
using ConfigText = std::function<std::optional<std::string>(const std::string& sha256)>;
// A line for each of the last edits in a history (docs/formats/history.md), whose oldest line comes first: the plan
// that began, its time, the author, and the changed keys.
std::vector<std::string> EditLines(const std::vector<Json>& history_untrusted, const Moment& moment,
                                   const ConfigText& text_of);

// The last jump of the learning rate before the moment in the points of the series `lr`; empty: no jump.
std::string LearningRateJump(const Json& points_untrusted, const Moment& moment);

struct LayerFound {
  std::string text;     // empty: not known
  std::string unknown;  // the reason; empty as well: the incident concerns no layer
};

// The layer from the incident, else from stepwatchd for the rank, else from the latest values of the job. `jobs`: those
// of the run on this machine. `run`: the answer of /v1/runs/ID.
LayerFound FindLayer(const std::vector<control_socket::FoundJob>& jobs, const Json& run_untrusted,
                     const Json& incident_untrusted);

// The first site with NaN or infinities in an answer of /v1/latest; with `backwards` the last one, which a backward
// pass reaches first.
std::optional<std::string> FirstNonfinite(const Json& latest_untrusted, bool backwards);
// The site with the largest norm.
std::optional<std::string> LargestNorm(const Json& latest_untrusted);
// The innermost frame of a Python stack; empty: no frame.
std::string InnermostFrame(const std::string& stack_untrusted);

struct WhyFacts {
  std::string run;              // its id
  Json detail;                  // the answer of /v1/runs/ID; empty: stepwatchd no longer keeps the run
  std::vector<Json> incidents;  // the open ones, the worst first; if none is open, the last one
  ChangesBefore changes;        // before the first of them
  LayerFound layer;             // of the first of them
};

// Lines of at most `width` characters, at most 24 of them for one incident. Pure, like the next two.
std::string WhyText(const WhyFacts& facts, double now, size_t width);
// The stacks in the first of the incidents, in full.
std::string WhyStacksText(const WhyFacts& facts);
Json WhyJson(const WhyFacts& facts);

}  // namespace stepwatch::cli
