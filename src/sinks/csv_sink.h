// The CSV files of msProbe's TrainerMon, written as docs/csv_format.md says.
#pragma once

#include <memory>
#include <string>

#include "src/base/file_system.h"
#include "stepwatch/sink.h"

namespace stepwatch::sinks {

// A sink that writes `{kind}_{a}-{b}.csv` into `directory`, which it creates at the first row. Drain thread only.
//
// A file appears whole with its header (temporary name, then link), and grows by whole lines, one append for each step
// and kind. A failed append is cut back to whole lines, reported as the Status of Write, and repeated by the next Write
// of the same frame without repeating rows that are already in other files of it.
std::unique_ptr<Sink> MakeCsvSink(std::string directory, base::FileSystem& files = base::FileSystem::Real());

}  // namespace stepwatch::sinks
