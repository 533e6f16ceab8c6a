// A config compiled on a site index; a config that must compile.
#pragma once

#include <utility>

#include "src/plan/plan.h"
#include "tests/catch.h"

namespace stepwatch::plan {

inline CompiledPlan Compile(const config::Config& config, const SiteIndex& index, const PlanInputs& inputs = {}) {
  Result<CompiledPlan> compiled = CompilePlan(config, index, inputs);
  REQUIRE(compiled.ok());
  return std::move(compiled).value();
}

}  // namespace stepwatch::plan
