// `stepwatch why`: one screen about the incidents of a run.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "controller/cli/why_facts.h"
#include "src/json/json.h"

namespace stepwatch::cli {

struct WhyArguments {
  std::string run;  // a prefix of its id; empty: the run with the worst open incident
  bool stacks = false;
  bool json = false;
  std::string stepwatchd;
};

int RunWhy(const WhyArguments& arguments);

struct WhyFacts {
  std::string run;              // its id
  Json detail;                  // the answer of /v1/runs/ID; empty: stepwatchd no longer keeps the run
  std::vector<Json> incidents;  // the open ones, the worst first; if none is open, the last one
  ChangesBefore changes;        // before the first of them
  LayerFound layer;             // of the first of them
};

// Lines of at most `width` characters, at most 24 of them for one incident. Pure, as the next two.
std::string WhyText(const WhyFacts& facts, double now, size_t width);
// The stacks that the first of the incidents holds, in full.
std::string WhyStacksText(const WhyFacts& facts);
Json WhyJson(const WhyFacts& facts);

}  // namespace stepwatch::cli
