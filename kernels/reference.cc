#include "kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/formats.h"

namespace stepwatch::kernels::reference {
namespace {

struct Lanes {
  std::array<double, kLanes> sum{};
  std::array<double, kLanes> sum_of_squares{};
};

template <class Number>
void AddElement(Number number, size_t lane, double threshold, Lanes* lanes, Totals* totals) {
  const double x = static_cast<double>(number);
  lanes->sum[lane] += x;
  lanes->sum_of_squares[lane] += x * x;
  if constexpr (std::is_same_v<Number, int64_t>) {
    totals->min_int = std::min(totals->min_int, number);
    totals->max_int = std::max(totals->max_int, number);
  }
  if (std::isnan(x)) ++totals->nans;
  if (std::isinf(x)) ++totals->infs;
  if (std::abs(x) < threshold) ++totals->zeros;
  if (x < totals->min) totals->min = x;
  if (x > totals->max) totals->max = x;
}

template <class Format>
Totals Walk(const Layout& layout, double threshold, int64_t chunk_elements) {
  Totals totals;
  Cursor cursor(layout, sizeof(typename Format::Raw));
  for (int64_t left = layout.count; left > 0;) {
    const int64_t count = std::min(left, chunk_elements);
    Lanes lanes;
    for (int64_t i = 0; i < count; ++i)
      AddElement(Format::Load(cursor.NextRun(1).first), static_cast<size_t>(i % kLanes), threshold, &lanes, &totals);
    totals.sum += FoldLanes(lanes.sum);
    totals.sum_of_squares += FoldLanes(lanes.sum_of_squares);
    left -= count;
  }
  return totals;
}

int Sign(double x) {
  return (x > 0 ? 1 : 0) - (x < 0 ? 1 : 0);
}

int SignAt(DType dtype, const std::byte* address) {
  int sign = 0;
  VisitFormat(dtype, [&](auto format) { sign = Sign(static_cast<double>(format.Load(address))); });
  return sign;
}

}  // namespace

Status Measure(const TensorView& tensor, const MeasureOptions& options, Statistics* statistics,
               int64_t chunk_elements) {
  Layout layout;
  if (Status status = CanonicalLayout(tensor, &layout); !status.ok()) return status;
  const double threshold = Threshold(tensor.dtype, options);
  VisitFormat(tensor.dtype, [&](auto format) {
    *statistics = Finish(Walk<decltype(format)>(layout, threshold, chunk_elements), layout, tensor.dtype);
  });
  return Status();
}

Status SignAgreement(const TensorView& a, const TensorView& b, double* agreement) {
  Layout layout_a, layout_b;
  if (Status status = LogicalLayout(a, &layout_a); !status.ok()) return status;
  if (Status status = LogicalLayout(b, &layout_b); !status.ok()) return status;
  if (!SameShape(a, b)) return *agreement = 0, Status();
  Cursor cursor_a(layout_a, ElementSize(a.dtype));
  Cursor cursor_b(layout_b, ElementSize(b.dtype));
  int64_t sum = 0;
  for (int64_t i = 0; i < a.numel; ++i)
    sum += SignAt(a.dtype, cursor_a.NextRun(1).first) * SignAt(b.dtype, cursor_b.NextRun(1).first);
  *agreement = Agreement(sum, a.numel);
  return Status();
}

}  // namespace stepwatch::kernels::reference
