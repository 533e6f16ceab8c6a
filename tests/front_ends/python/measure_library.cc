// The kernels behind a C interface, for Python's ctypes: see measure_library.py.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/kernels.h"

namespace {

using stepwatch::DType;
using stepwatch::TensorView;

DType DTypeOfName(const char* name) {
  for (int i = 0; i < static_cast<int>(DType::kOther); ++i)
    if (std::strcmp(stepwatch::DTypeName(static_cast<DType>(i)), name) == 0) return static_cast<DType>(i);
  return DType::kOther;
}

TensorView ViewOf(const void* data, const char* dtype, int ndim, const int64_t* sizes, const int64_t* strides) {
  TensorView view = stepwatch::DenseView(data, DTypeOfName(dtype), sizes, ndim);
  std::copy_n(strides, ndim, view.strides.begin());
  return view;
}

// stepwatch::Statistics with fields of 8 bytes.
struct MeasuredStatistics {
  int64_t numel;
  double norm, mean, min, max, abs_max, zeros, std_dev;
  int64_t nans, infs, integral, min_int, max_int;
};

MeasuredStatistics Flat(const stepwatch::Statistics& found) {
  return {found.numel,   found.norm, found.mean, found.min,      found.max,     found.abs_max, found.zeros,
          found.std_dev, found.nans, found.infs, found.integral, found.min_int, found.max_int};
}

using Batch = std::vector<stepwatch::kernels::BatchItem>;

}  // namespace

extern "C" {

// Both give a StatusCode, 0 being ok. `ndim` is at most 8; strides count elements.
int stepwatch_measure(const void* data, const char* dtype, int ndim, const int64_t* sizes, const int64_t* strides,
                      double eps, int exact_eps, MeasuredStatistics* measured) {
  const stepwatch::kernels::MeasureOptions options{
      eps, exact_eps != 0 ? stepwatch::EpsMode::kExact : stepwatch::EpsMode::kParity};
  stepwatch::Statistics found;
  const stepwatch::Status status =
      stepwatch::kernels::Measure(ViewOf(data, dtype, ndim, sizes, strides), options, &found);
  *measured = Flat(found);
  return static_cast<int>(status.code());
}

// A list of tensors that is measured in one call, as often as one likes.
Batch* stepwatch_batch_create() {
  return new Batch();
}
void stepwatch_batch_add(Batch* batch, const void* data, const char* dtype, int ndim, const int64_t* sizes,
                         const int64_t* strides) {
  batch->emplace_back().tensor = ViewOf(data, dtype, ndim, sizes, strides);
}
void stepwatch_batch_measure(Batch* batch) {
  stepwatch::kernels::MeasureBatch(batch->data(), batch->size(), {}, nullptr);
}
int stepwatch_batch_get(const Batch* batch, int64_t i, MeasuredStatistics* measured) {
  const stepwatch::kernels::BatchItem& item = (*batch)[static_cast<size_t>(i)];
  *measured = Flat(item.statistics);
  return static_cast<int>(item.code);
}
void stepwatch_batch_delete(const Batch* batch) {
  delete batch;
}

// Two tensors of one shape.
int stepwatch_sign_agreement(const void* data_a, const char* dtype_a, const int64_t* strides_a, const void* data_b,
                             const char* dtype_b, const int64_t* strides_b, int ndim, const int64_t* sizes,
                             double* agreement) {
  return static_cast<int>(stepwatch::kernels::SignAgreement(ViewOf(data_a, dtype_a, ndim, sizes, strides_a),
                                                            ViewOf(data_b, dtype_b, ndim, sizes, strides_b), agreement)
                              .code());
}

}  // extern "C"
