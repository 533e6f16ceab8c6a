#include "src/records/record_values.h"

#include <algorithm>
#include <limits>

#include "stepwatch/tag.h"

namespace stepwatch::records {
namespace {

StatValue Real(Stat stat, double value) {
  StatValue result;
  result.stat = stat;
  result.f64 = value;
  return result;
}

StatValue Count(Stat stat, int64_t value) {
  StatValue result;
  result.stat = stat;
  result.is_integer = true;
  result.i64 = value;
  return result;
}

StatValue Extreme(Stat stat, const Statistics& statistics, int64_t exact, double value) {
  return statistics.integral ? Count(stat, exact) : Real(stat, value);
}

// The element of a scalar is its own maximum.
StatValue Identity(const Statistics& statistics, int ndim) {
  if (ndim > 0) return Real(Stat::kId, std::numeric_limits<double>::quiet_NaN());
  return Extreme(Stat::kId, statistics, statistics.max_int, statistics.max);
}

StatValue ValueOf(Stat stat, const Statistics& statistics, int ndim) {
  switch (stat) {
    case Stat::kNorm: return Real(stat, statistics.norm);
    case Stat::kMean: return Real(stat, statistics.mean);
    case Stat::kMin: return Extreme(stat, statistics, statistics.min_int, statistics.min);
    case Stat::kMax: return Extreme(stat, statistics, statistics.max_int, statistics.max);
    case Stat::kZeros: return Real(stat, statistics.zeros);
    case Stat::kNans: return Count(stat, statistics.nans);
    case Stat::kId: return Identity(statistics, ndim);
    case Stat::kInfs: return Count(stat, statistics.infs);
    case Stat::kStd: return Real(stat, statistics.std_dev);
    case Stat::kAbsMax: return Real(stat, statistics.abs_max);
    default: break;  // shape and dtype have no value, features are not measured
  }
  return Real(stat, std::numeric_limits<double>::quiet_NaN());
}

bool NeedsValue(Stat stat) {
  return stat != Stat::kShape && stat != Stat::kDtype;
}

}  // namespace

bool Fits(const RecordLayout& layout) noexcept {
  return std::count_if(layout.stats.begin(), layout.stats.end(), NeedsValue) <= kValuesMax;
}

void Describe(const TensorView& tensor, Record* record) noexcept {
  record->dtype = tensor.dtype;
  record->ndim = static_cast<uint8_t>(tensor.ndim);
  record->dims.fill(0);
  std::copy_n(tensor.sizes.begin(), tensor.ndim, record->dims.begin());
}

void FillValues(const RecordLayout& layout, const Statistics& statistics, Record* record) noexcept {
  record->value_count = 0;
  for (Stat stat : layout.stats)
    if (NeedsValue(stat)) record->values[record->value_count++] = ValueOf(stat, statistics, record->ndim);
}

bool FillFeature(const RecordLayout& layout, SiteKind kind, const double* values, size_t count,
                 Record* record) noexcept {
  const Columns columns = ColumnsOf(layout, kind);
  if (!IsFeature(kind) || columns.count != count) return false;
  record->value_count = 0;
  for (const Stat stat : columns) record->values[record->value_count++] = Real(stat, *values++);
  return true;
}

void FillAgreement(const RecordLayout& layout, const kernels::MeasureOptions& options, double agreement,
                   Record* record) noexcept {
  const float scalar = static_cast<float>(agreement);
  kernels::BatchItem item;
  item.tensor = DenseView(&scalar, DType::kFloat32, nullptr, 0);
  kernels::MeasureBatch(&item, 1, options, nullptr);
  Describe(item.tensor, record);
  FillValues(layout, item.statistics, record);
}

}  // namespace stepwatch::records
