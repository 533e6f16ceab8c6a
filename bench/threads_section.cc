// The gain of a second thread: one large tensor, measured by one thread and by two.

#include <cstdio>

#include "bench/buffer.h"
#include "bench/sections.h"
#include "bench/torch_parallel_for.h"
#include "kernels/kernels.h"

namespace stepwatch::bench {
namespace {

void MeasureWith(ParallelFor parallel_for, const TensorView& tensor) {
  kernels::BatchItem item;
  item.tensor = tensor;
  kernels::MeasureBatch(&item, 1, {}, parallel_for);
  Keep(item);
}

std::string BestText(double ratio) {
  char text[40];
  std::snprintf(text, sizeof text, "%.2f by the shortest times", ratio);
  return text;
}

}  // namespace

void MeasureTwoThreads(const Settings& settings, Report* report) {
  constexpr const char* kName = "two_threads_over_one";
  report->Section(std::string("one tensor on two pinned threads over one, on the clock, by ") + LentThreadsName());
  const PinnedPair pinned;
  if (*pinned.problem() != '\0') return report->LeftOut(kName, pinned.problem());
  Spread lowest{1e300, 0, 0};
  for (const char* dtype_name : {"fp32", "bf16"}) {
    const DType dtype = DTypeOfName(dtype_name);
    for (size_t megabytes : {size_t{4}, size_t{32}, size_t{512}}) {
      Buffer buffer(megabytes << 20);
      buffer.FillNormal(dtype);
      const TensorView view = buffer.View(dtype);
      Rounds rounds(Clock::kWall);
      const size_t alone = rounds.Add([&] { MeasureWith(nullptr, view); });
      const size_t both = rounds.Add([&] { MeasureWith(RunOnTwoThreads, view); });
      rounds.Run(2 * settings.rounds + 1);
      const Spread ratio = rounds.Ratio(alone, both);
      report->Ratio(std::string(kName) + "_" + dtype_name + "_" + std::to_string(megabytes) + "mb", ratio,
                    Style::kTimes, AtLeast(1.7), BestText(rounds.RatioOfBest(alone, both)));
      if (ratio.median < lowest.median) lowest = ratio;
    }
  }
  report->Ratio(kName, lowest, Style::kTimes, AtLeast(1.7), "the lowest of these");
}

}  // namespace stepwatch::bench
