#include "kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "kernels/formats.h"

namespace stepwatch::kernels::reference {
namespace {

// The two sums of a lane, a chunk or a group.
struct Sums {
  double sum = 0;
  double sum_of_squares = 0;
};

// Lane i += lane i + half, then lane i + half / 2, ...; the number of lanes is a power of two.
Sums Fold(std::vector<Sums> lanes) {
  for (size_t width = lanes.size() / 2; width > 0; width /= 2)
    for (size_t i = 0; i < width; ++i) {
      lanes[i].sum += lanes[i + width].sum;
      lanes[i].sum_of_squares += lanes[i + width].sum_of_squares;
    }
  return lanes[0];
}

Sums JoinInOrder(const std::vector<Sums>& chunks) {
  Sums all;
  for (const Sums& chunk : chunks) {
    all.sum += chunk.sum;
    all.sum_of_squares += chunk.sum_of_squares;
  }
  return all;
}

Sums JoinInGroups(const std::vector<Sums>& chunks, size_t group) {
  std::vector<Sums> lanes(group);
  for (size_t first = 0; first < chunks.size(); first += group) {
    std::vector<Sums> members(group);
    std::copy_n(chunks.begin() + static_cast<std::ptrdiff_t>(first), std::min(group, chunks.size() - first),
                members.begin());
    const Sums folded = Fold(members);
    Sums& lane = lanes[first / group % group];
    lane.sum += folded.sum;
    lane.sum_of_squares += folded.sum_of_squares;
  }
  return Fold(lanes);
}

template <class Number>
void AddElement(Number number, double threshold, Sums* lane, Totals* totals) {
  const double x = static_cast<double>(number);
  lane->sum += x;
  lane->sum_of_squares += x * x;
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
Totals Walk(const Layout& layout, double threshold, const SumOrder& order) {
  Totals totals;
  std::vector<Sums> chunks;
  Cursor cursor(layout, sizeof(typename Format::Raw));
  for (int64_t left = layout.count; left > 0; left -= order.chunk_elements) {
    std::vector<Sums> lanes(static_cast<size_t>(order.lanes));
    for (int64_t i = 0; i < std::min(left, order.chunk_elements); ++i) {
      const int64_t lane = order.lane_of != nullptr ? order.lane_of(i) : i % order.lanes;
      AddElement(Format::Load(cursor.NextRun(1).first), threshold, &lanes[static_cast<size_t>(lane)], &totals);
    }
    chunks.push_back(Fold(lanes));
  }
  const Sums all = order.group == 0 ? JoinInOrder(chunks) : JoinInGroups(chunks, static_cast<size_t>(order.group));
  totals.sum = all.sum;
  totals.sum_of_squares = all.sum_of_squares;
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

Status Measure(const TensorView& tensor, const MeasureOptions& options, Statistics* statistics, const SumOrder& order) {
  Layout layout;
  if (Status status = CanonicalLayout(tensor, &layout); !status.ok()) return status;
  const double threshold = Threshold(tensor.dtype, options);
  VisitFormat(tensor.dtype, [&](auto format) {
    *statistics = Finish(Walk<decltype(format)>(layout, threshold, order), layout, tensor.dtype);
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
