#include "operations/detectors/checkpoint_overdue.h"
#include "operations/detectors/detector.h"
#include "operations/detectors/disagreement.h"
#include "operations/detectors/exception.h"
#include "operations/detectors/grad_level.h"
#include "operations/detectors/hardware.h"
#include "operations/detectors/loss_level.h"
#include "operations/detectors/nonfinite.h"
#include "operations/detectors/process_lost.h"
#include "operations/detectors/straggler.h"
#include "operations/detectors/stuck.h"
#include "operations/detectors/throughput_drop.h"

namespace stepwatch::operations {

// Causes before what they cause: where two speak of one line, the first is heard first.
std::vector<std::unique_ptr<Detector>> MakeDetectors(const Settings& settings) {
  std::vector<std::unique_ptr<Detector>> detectors;
  detectors.push_back(std::make_unique<GpuDetector>());
  detectors.push_back(std::make_unique<HostMemoryDetector>());
  detectors.push_back(std::make_unique<ExceptionDetector>());
  detectors.push_back(std::make_unique<ProcessLostDetector>());
  detectors.push_back(std::make_unique<StuckDetector>(settings.stuck));
  detectors.push_back(std::make_unique<NonfiniteDetector>(settings.numerics));
  detectors.push_back(std::make_unique<LossLevelDetector>(settings.numerics));
  detectors.push_back(std::make_unique<GradLevelDetector>(settings.numerics));
  detectors.push_back(std::make_unique<DisagreementDetector>());
  detectors.push_back(std::make_unique<StragglerDetector>(settings.pace));
  detectors.push_back(std::make_unique<ThroughputDropDetector>(settings.pace));
  detectors.push_back(std::make_unique<CheckpointOverdueDetector>(settings.pace));
  return detectors;
}

}  // namespace stepwatch::operations
