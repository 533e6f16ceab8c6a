#include "kernels/kernels.h"

#include <cstdlib>
#include <string_view>

#include "kernels/cpu_engine.h"

namespace stepwatch::kernels {
namespace {

// Without the level that is asked for, the best one; `stepwatch doctor` says so.
const Level* ChooseLevel() {
  const std::vector<const Level*> levels = AvailableLevels();
  const char* const wanted = std::getenv("STEPWATCH_CPU_TARGET");
  for (const Level* level : levels)
    if (wanted != nullptr && std::string_view(wanted) == level->name) return level;
  return levels.front();
}

// Asked of the processor and the environment once, at the first use.
const Level& ChosenLevel() {
  static const Level* const level = ChooseLevel();
  return *level;
}

}  // namespace

Status Measure(const TensorView& tensor, const MeasureOptions& options, Statistics* statistics) {
  return cpu::Measure(ChosenLevel(), tensor, options, statistics, nullptr);
}

Status Measure(const TensorView& tensor, const MeasureOptions& options, Statistics* statistics, Histogram* histogram) {
  return cpu::Measure(ChosenLevel(), tensor, options, statistics, histogram);
}

void MeasureBatch(BatchItem* items, size_t count, const MeasureOptions& options, ParallelFor parallel_for) {
  cpu::MeasureBatch(ChosenLevel(), items, count, options, parallel_for);
}

Status SignAgreement(const TensorView& a, const TensorView& b, double* agreement) {
  return cpu::SignAgreement(ChosenLevel(), a, b, agreement);
}

const char* MeasurePathName() {
  return ChosenLevel().name;
}

}  // namespace stepwatch::kernels
