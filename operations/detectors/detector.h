// A detector watches one run for one kind of fault, or two close ones.
//
// Its findings depend only on the lines of the run, their order and their virtual times. It raises a finding when the
// fault begins and again when it has more evidence, and clears it once when the fault is over; the incident manager
// drops repeats. One object per run.
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

  // After the run has applied the beat. Not called for beats of a run that has ended.
  virtual void OnBeat(const RunState&, const BeatFacts&, Findings*) {}
  // After the run has applied the event of the line.
  virtual void OnEvent(const RunState&, const Line&, double /*now*/, Findings*) {}
  // About twice a second, as long as the run has not ended.
  virtual void OnTick(const RunState&, double /*now*/, Findings*) {}
  // The run is about to start again, and still has its old state: the last moment to raise waiting findings.
  virtual void BeforeRestart(const RunState&, Findings*) {}
  // The run starts again: learnt levels of its numbers are no longer valid.
  virtual void OnRestart() {}
  // From now on applies these settings. Learnt levels and raised findings stay.
  virtual void Apply(const Settings&) {}
};

// All detectors of a run, in the order in which they are called.
std::vector<std::unique_ptr<Detector>> MakeDetectors(const Settings& settings);

}  // namespace stepwatch::operations
