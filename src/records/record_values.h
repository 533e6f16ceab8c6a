// From statistics to the values of a record.
#pragma once

#include "kernels/kernels.h"
#include "stepwatch/record.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/site_kind.h"
#include "stepwatch/statistics.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch::records {

// False: the plan asks for more statistics of this site than a record holds.
bool Fits(const RecordLayout& layout, SiteId site) noexcept;

// Fills dtype and dims.
void Describe(const TensorView& tensor, Record* record) noexcept;

// Fills the values of the statistics of the record's site (StatsOf), in their order, into a record that Describe has
// filled. shape and dtype, which the record holds already, get no value. nans, infs and the extremes of an integer
// tensor are i64, all else is f64. `id` is the element of a scalar, otherwise NaN.
void FillValues(const RecordLayout& layout, const Statistics& statistics, Record* record) noexcept;

// Fills the record of an L2 feature from numbers that were computed elsewhere, one for each column. False: the kind is
// no feature, or has another number of columns.
bool FillFeature(const RecordLayout& layout, SiteKind kind, const double* values, size_t count,
                 Record* record) noexcept;

// Fills all of the record of a sign agreement: that of a 0-d fp32 tensor.
void FillAgreement(const RecordLayout& layout, const kernels::MeasureOptions& options, double agreement,
                   Record* record) noexcept;

}  // namespace stepwatch::records
