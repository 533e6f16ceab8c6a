#include "src/records/record_values.h"

#include <algorithm>
#include <limits>

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

StatValue ValueOf(const StatTraits& traits, const Statistics& statistics, int ndim) {
  if (traits.stat == Stat::kId && ndim > 0) return Real(traits.stat, std::numeric_limits<double>::quiet_NaN());
  if (traits.number == nullptr && statistics.*traits.integer < 0)  // unknown count
    return Real(traits.stat, std::numeric_limits<double>::quiet_NaN());
  if (traits.integer != nullptr && (statistics.integral || traits.number == nullptr))
    return Count(traits.stat, statistics.*traits.integer);
  return Real(traits.stat, statistics.*traits.number);
}

bool NeedsValue(Stat stat) {
  return TraitsOf(stat).number != nullptr || TraitsOf(stat).integer != nullptr;
}

}  // namespace

bool Fits(const RecordLayout& layout, SiteId site) noexcept {
  const std::vector<Stat>& stats = StatsOf(layout, site);
  return std::count_if(stats.begin(), stats.end(), NeedsValue) <= kValuesMax;
}

void Describe(const TensorView& tensor, Record* record) noexcept {
  record->dtype = tensor.dtype;
  record->ndim = static_cast<uint8_t>(tensor.ndim);
  record->dims.fill(0);
  std::copy_n(tensor.sizes.begin(), tensor.ndim, record->dims.begin());
}

void FillValues(const RecordLayout& layout, const Statistics& statistics, Record* record) noexcept {
  record->value_count = 0;
  for (Stat stat : StatsOf(layout, record->site))
    if (NeedsValue(stat)) record->values[record->value_count++] = ValueOf(TraitsOf(stat), statistics, record->ndim);
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
