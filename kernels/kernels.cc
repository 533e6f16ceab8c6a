#include "kernels/kernels.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/cpu_engine.h"

namespace stepwatch::kernels {
namespace {

std::string WantedTarget() {
  const char* const wanted = std::getenv("STEPWATCH_CPU_TARGET");
  return wanted == nullptr ? "" : wanted;
}

const Level* ChooseLevel() {
  const std::vector<const Level*> levels = AvailableLevels();
  const std::string wanted = WantedTarget();
  for (const Level* level : levels)
    if (wanted == level->name) return level;
  return levels.front();
}

// Chosen once from processor and environment, at the first use.
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

CpuReport DetectCpu() {
  CpuReport report;
  report.in_use = ChosenLevel().name;
  for (const Level* level : AvailableLevels()) report.available.emplace_back(level->name);
  report.wanted = WantedTarget();
  report.granted = report.wanted.empty() || report.wanted == report.in_use;
  return report;
}

}  // namespace stepwatch::kernels
