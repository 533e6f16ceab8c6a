// Merges records of one step that form one row: the calls of a communication operator, and repeated gradients.
//
// A record is one tensor of one call; those of one site and element, of all micro-batches of the step, become one
// record at the position of the first:
//   min, max, abs_max  the extremes, NaN if any call's is NaN
//   norm               sqrt of the sum of squares: that of all tensors together
//   nans, infs         the sum
//   mean, zeros        the plain average of the calls
//   std, id            absent, since they cannot be derived from those of the calls
//   dtype, shape       those of the calls if they agree (Record::kMixedDtype, kMixedShape)
// A call without a tensor adds nothing; a row that consists of such calls is missing.
//
// Several backward passes may run through one call of a module, or through a parameter in one micro-batch: of a
// repeated gradient the last record counts, at the position of the first.
//
// A parameter may be updated several times in a step: the records of the last update have call 0, so that a series of
// them shows the result of each step, and those of earlier updates have calls 1, 2, ...
#pragma once

#include <cstddef>
#include <vector>

#include "stepwatch/record.h"
#include "stepwatch/record_layout.h"

namespace stepwatch::drain {

// Merges in place; all other records stay unchanged, in place. No record may be pending. Returns how many records were
// removed; repeating the call has no further effect. If it throws std::bad_alloc, the merge may be incomplete, and the
// caller repeats the call.
size_t MergeRepeatedRecords(const RecordLayout& layout, std::vector<Record>* records);

// The same for records of which some may be pending, which are left out.
std::vector<Record> MergedRecords(const RecordLayout& layout, const std::vector<Record>& records);

}  // namespace stepwatch::drain
