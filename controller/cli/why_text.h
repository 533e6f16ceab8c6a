// The screen of `stepwatch why`. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "controller/cli/why_edits.h"
#include "controller/cli/why_layer.h"
#include "src/json/json.h"

namespace stepwatch::cli {

struct WhyFacts {
  std::string run;              // its id
  Json detail;                  // as /v1/runs/ID tells; empty: stepwatchd has forgotten it
  std::vector<Json> incidents;  // the open ones, the worst first; without one the last that was
  ChangesBefore changes;        // before the first of them
  LayerFound layer;             // of the first of them
};

// Lines of at most `width` characters: 24 of them are enough for one incident with what belongs to it.
std::string WhyText(const WhyFacts& facts, double now, size_t width);
// The stacks that the first of the incidents holds, in full.
std::string WhyStacksText(const WhyFacts& facts);
Json WhyJson(const WhyFacts& facts);

// When the worst of the incidents went wrong.
Moment MomentOf(const Json& incident_untrusted);

}  // namespace stepwatch::cli
