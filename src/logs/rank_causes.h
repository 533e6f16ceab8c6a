// The order of causes among the anomalies of all ranks of a run. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "src/logs/record.h"

namespace stepwatch::logs {

// The indices of the records that have anomalies, the most likely first cause first, across ranks.
//
// Clocks of hosts differ, and lines of several files come in any order, so that the earliest record is often a
// consequence. Therefore, in this order: a fault from which the run recovered, and a notice, come last; consequences
// and noise of the end come after faults; a rank that others name, or that fell behind in a collective, comes before
// ranks that waited for it; a fault of hardware or scheduler comes before the errors of a program that it explains.
// Time, corrected by the steps that hosts report, decides among the rest.
std::vector<size_t> RankCauses(std::span<const Record> records);

}  // namespace stepwatch::logs
