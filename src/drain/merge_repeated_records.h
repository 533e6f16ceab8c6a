// Records of one step that are one row: the calls of a communication operator, joined, and gradients that come again.
//
// A record is one tensor of one call; those of one site and element, of all micro-batches of the step, become one
// record at the place of the first:
//   min, max, abs_max  the extremes, NaN if any call's is NaN
//   norm               sqrt of the sum of squares: that of all tensors together
//   nans, infs         the sum
//   mean, zeros        the plain average of the calls
//   std, id            none, since they cannot be had from those of the calls
//   dtype, shape       those of the calls if they agree (Record::kMixedDtype, kMixedShape)
// A call without a tensor adds nothing; a row of such calls alone is missing.
//
// Several backward passes may go through one call of a module, or through a parameter in one micro-batch: of a gradient
// that comes again the last record counts, at the place of the first.
//
// A parameter may be updated several times in a step: the records of the last update have call 0, so that a series of
// them is what each step has left, and those of the updates before it calls 1, 2, ...
#pragma once

#include <cstddef>
#include <vector>

#include "stepwatch/record.h"
#include "stepwatch/record_layout.h"

namespace stepwatch::drain {

// Joins in place; all other records stay as they are, and where they are. No record may be pending. Returns how many
// records there are less than before, and joins nothing more when it is called again. If it throws std::bad_alloc, the
// caller may have half of what is to be joined, and calls it again.
size_t MergeRepeatedRecords(const RecordLayout& layout, std::vector<Record>* records);

// The same over records of which some may be pending, which are left out.
std::vector<Record> MergedRecords(const RecordLayout& layout, const std::vector<Record>& records);

}  // namespace stepwatch::drain
