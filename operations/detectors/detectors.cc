#include "operations/detectors/detector.h"
#include "operations/detectors/life/exception.h"
#include "operations/detectors/life/hardware.h"
#include "operations/detectors/life/process_lost.h"
#include "operations/detectors/life/stuck.h"
#include "operations/detectors/numbers/disagreement.h"
#include "operations/detectors/numbers/grad_level.h"
#include "operations/detectors/numbers/loss_level.h"
#include "operations/detectors/numbers/nonfinite.h"
#include "operations/detectors/pace/checkpoint_overdue.h"
#include "operations/detectors/pace/straggler.h"
#include "operations/detectors/pace/throughput_drop.h"

namespace stepwatch::operations {

// Causes before their effects: of two findings on one line, the first one is handled first.
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
