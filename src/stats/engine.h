// Turns tensors into the values of records: the seam between the kernels and the data plane.
//
// Belongs to the run, not to a plan: it keeps running across swaps. Safe from several threads at once.
#pragma once

#include "kernels/kernels.h"
#include "stepwatch/record.h"
#include "stepwatch/site.h"
#include "stepwatch/status.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch::stats {

class Engine {
 public:
  // Fills dtype, dims and the values of `layout.stats` into `record`, in their order; shape and dtype, which the record
  // holds already, get no value. nans, infs and the extremes of an integer tensor are i64, all else is f64. `id` is the
  // element of a scalar, otherwise NaN. CPU tensors are measured before this returns. On an error (kUnsupported:
  // nothing here can measure it; kInvalid: the view contradicts itself) the record is untouched.
  Status Enqueue(const RecordLayout& layout, const kernels::MeasureOptions& options, const TensorView& tensor,
                 Record* record);
  // The same for the sign agreement of two tensors, recorded as a 0-d fp32 tensor.
  Status EnqueueAgreement(const RecordLayout& layout, const kernels::MeasureOptions& options,
                          const TensorView& gradient, const TensorView& momentum, Record* record);
};

}  // namespace stepwatch::stats
