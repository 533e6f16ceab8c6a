// Factories of the sinks of the run's own output: one for each OutputFormat.
#pragma once

#include <functional>
#include <iterator>
#include <memory>
#include <string>

#include "src/base/file_system.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/sink.h"

namespace stepwatch::sinks {

struct SinkPlace {
  std::string directory;  // created with the first row
  int rank = 0;
  std::function<double()> wall_clock = nullptr;  // seconds since 1970; null: the system's clock
  std::reference_wrapper<base::FileSystem> files = base::FileSystem::Real();
};
using MakeSink = std::unique_ptr<Sink> (*)(SinkPlace place);

// A sink that writes `{kind}_{a}-{b}.csv`, the CSV files of msProbe's TrainerMon; see docs/formats/csv.md. Drain thread
// only.
//
// A file appears complete with its header (temporary name, then link), and grows by whole lines, one append for each
// step and kind. A failed append is cut back to whole lines, reported as the Status of Write, and repeated by the next
// Write of the same frame without repeating rows that are already in other files.
std::unique_ptr<Sink> MakeCsvSink(SinkPlace place);

// A sink that writes one of TensorBoard's event files; see docs/formats/tensorboard.md: a scalar for each statistic
// that is a number, with the tag "{RecordTag}_{op}". A missing tensor has no scalars. A column of a heat map produces
// the image of all columns so far, including those of earlier plans, with the tag of its site. Drain thread only.
//
// A step is in the file as a whole or not at all; a failed append is cut back, reported, and repeated by the next
// Write.
std::unique_ptr<Sink> MakeTensorBoardSink(SinkPlace place);

// In the order of OutputFormat. Null: the format has no files.
inline constexpr MakeSink kSinkMakers[] = {MakeCsvSink, MakeTensorBoardSink, nullptr};
static_assert(std::size(kSinkMakers) == kOutputFormatCount);

}  // namespace stepwatch::sinks
