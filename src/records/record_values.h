// Converts statistics to the values of a record.
#pragma once

#include "kernels/kernels.h"
#include "stepwatch/record.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/site_kind.h"
#include "stepwatch/statistics.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch::records {

// False if the plan requests more statistics of this site than a record holds.
bool Fits(const RecordLayout& layout, SiteId site) noexcept;

// Fills dtype and dims.
void Describe(const TensorView& tensor, Record* record) noexcept;

// Fills the values of the site's statistics (StatsOf), in their order, into a record that Describe has filled. shape
// and dtype, which the record already holds, have no value. nans, infs and the extremes of an integer tensor are i64,
// all others are f64. `id` is the element of a scalar, otherwise NaN.
void FillValues(const RecordLayout& layout, const Statistics& statistics, Record* record) noexcept;

// Fills the record of an L2 feature from numbers computed elsewhere, one for each column. Returns false if the kind is
// not a feature, or has another number of columns.
bool FillFeature(const RecordLayout& layout, SiteKind kind, const double* values, size_t count,
                 Record* record) noexcept;

// Fills the whole record of a sign agreement: that of a 0-d fp32 tensor.
void FillAgreement(const RecordLayout& layout, const kernels::MeasureOptions& options, double agreement,
                   Record* record) noexcept;

}  // namespace stepwatch::records
