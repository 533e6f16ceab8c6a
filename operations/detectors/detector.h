// A detector watches one run for one thing, or two close ones.
//
// It is a value machine: what it says depends only on what it was told, in which order and at which virtual times. It
// raises a finding once when it begins and again when it knows more, and clears it once when it is over; who already
// knows is the desk's matter. One object a run.
#pragma once

#include <memory>
#include <vector>

#include "operations/detectors/finding.h"
#include "operations/detectors/settings.h"
#include "operations/runs/run_state.h"

namespace stepwatch::operations {

class Detector {
 public:
  virtual ~Detector() = default;

  // After the run has taken the beat. Beats of a run that has ended are not told.
  virtual void OnBeat(const RunState&, const BeatFacts&, Findings*) {}
  // After the run has taken the event of the line.
  virtual void OnEvent(const RunState&, const Line&, double /*now*/, Findings*) {}
  // About twice a second, as long as the run has not ended.
  virtual void OnTick(const RunState&, double /*now*/, Findings*) {}
  // The run is about to start again, and is still as it was: the last moment for what waits to be told.
  virtual void BeforeRestart(const RunState&, Findings*) {}
  // The run starts again: what was learnt of its numbers holds no longer.
  virtual void OnRestart() {}
  // From now on it judges by these. What it has learnt and raised stays.
  virtual void Apply(const Settings&) {}
};

// All detectors of a run, in the order in which they are asked.
std::vector<std::unique_ptr<Detector>> MakeDetectors(const Settings& settings);

}  // namespace stepwatch::operations
