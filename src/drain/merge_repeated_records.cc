#include "src/drain/merge_repeated_records.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <unordered_map>

#include "src/base/check.h"

namespace stepwatch::drain {
namespace {

// The calls are one row: in no micro-batch, and none of several calls.
void MakeRow(Record* record) {
  record->micro_step = 0;
  record->call = 0;
}

// A row on its way: where it is, and how many calls with a tensor are in it. From the second call on the record holds
// sums where the row will hold a root or an average.
struct Row {
  size_t position = 0;
  int64_t calls = 0;
};

double Number(const StatValue& value) {
  return value.is_integer ? static_cast<double>(value.i64) : value.f64;
}

void SetReal(StatValue* value, double number) {
  value->is_integer = false;
  value->f64 = number;
}

// Integers stay exact as long as all calls have them.
void TakeExtreme(StatValue* into, const StatValue& from) {
  const bool larger = TraitsOf(into->stat).merge == StatMerge::kGreatest;
  if (into->is_integer && from.is_integer) {
    into->i64 = larger ? std::max(into->i64, from.i64) : std::min(into->i64, from.i64);
    return;
  }
  const double a = Number(*into), b = Number(from);
  const double extreme = larger ? std::max(a, b) : std::min(a, b);
  SetReal(into, std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : extreme);
}

bool IsRoot(const StatValue& value) {
  return TraitsOf(value.stat).merge == StatMerge::kRootOfSquares;
}

void Square(Record* record) {
  for (size_t i = 0; i < record->value_count; ++i)
    if (StatValue& value = record->values[i]; IsRoot(value)) SetReal(&value, value.f64 * value.f64);
}

void AddValue(StatValue* into, const StatValue& from) {
  switch (TraitsOf(into->stat).merge) {
    case StatMerge::kLeast:
    case StatMerge::kGreatest: return TakeExtreme(into, from);
    case StatMerge::kRootOfSquares: return SetReal(into, into->f64 + from.f64 * from.f64);
    case StatMerge::kSum: into->i64 += from.i64; return;
    case StatMerge::kAverage: return SetReal(into, Number(*into) + Number(from));
    case StatMerge::kNone: return;
  }
}

bool IsEmpty(const Record& record) {
  const auto end = record.dims.begin() + record.ndim;
  return std::find(record.dims.begin(), end, 0) != end;
}

// Of different shapes the record keeps one, by which alarms tell that a NaN comes from an empty tensor.
void AddDescription(const Record& call, Record* row) {
  if (call.dtype != row->dtype) row->flags |= Record::kMixedDtype;
  if (call.ndim == row->ndim && call.dims == row->dims) return;
  row->flags |= Record::kMixedShape;
  if (!IsEmpty(call)) return;
  row->ndim = call.ndim;
  row->dims = call.dims;
}

void AddCall(const Record& call, Row* row, Record* record) {
  record->flags |= call.flags & Record::kInDoubt;
  if (call.missing()) return;
  if (record->missing()) {
    const uint8_t in_doubt = record->flags & Record::kInDoubt;
    *record = call;
    MakeRow(record);
    record->flags |= in_doubt;
    row->calls = 1;
    return;
  }
  STEPWATCH_CHECK(call.value_count == record->value_count);
  if (++row->calls == 2) Square(record);
  for (size_t i = 0; i < record->value_count; ++i) AddValue(&record->values[i], call.values[i]);
  AddDescription(call, record);
}

void Finish(int64_t calls, Record* record) {
  if (calls < 2) return;
  size_t kept = 0;
  for (size_t i = 0; i < record->value_count; ++i) {
    StatValue value = record->values[i];
    const StatMerge merge = TraitsOf(value.stat).merge;
    if (merge == StatMerge::kNone) continue;
    if (merge == StatMerge::kRootOfSquares) SetReal(&value, std::sqrt(value.f64));
    if (merge == StatMerge::kAverage) SetReal(&value, value.f64 / static_cast<double>(calls));
    record->values[kept++] = value;
  }
  record->value_count = static_cast<uint8_t>(kept);
}

Repeats RepeatsOf(const RecordLayout& layout, const Record& record) {
  return TraitsOf(layout.sites[record.site].kind).repeats;
}

// What tells the gradients of a step apart.
struct Gradient {
  uint64_t site_and_micro_step, element_and_call;

  bool operator==(const Gradient& other) const {
    return site_and_micro_step == other.site_and_micro_step && element_and_call == other.element_and_call;
  }
};

struct GradientHash {
  size_t operator()(const Gradient& gradient) const {
    return std::hash<uint64_t>()((gradient.site_and_micro_step * 0x9e3779b97f4a7c15) ^ gradient.element_and_call);
  }
};

Gradient KeyOf(const Record& record) {
  return {uint64_t{record.site} << 32 | static_cast<uint32_t>(record.micro_step),
          uint64_t{record.element} << 16 | record.call};
}

size_t ReplaceRepeated(const RecordLayout& layout, std::vector<Record>* records) {
  std::unordered_map<Gradient, size_t, GradientHash> positions;
  size_t kept = 0;
  for (size_t i = 0; i < records->size(); ++i) {
    const Record& record = (*records)[i];
    if (RepeatsOf(layout, record) == Repeats::kReplace) {
      const auto [position, is_new] = positions.try_emplace(KeyOf(record), kept);
      if (!is_new) {
        (*records)[position->second] = record;
        continue;
      }
    }
    if (i != kept) (*records)[kept] = record;
    ++kept;
  }
  const size_t repeated = records->size() - kept;
  records->resize(kept);
  return repeated;
}

}  // namespace

size_t MergeRepeatedRecords(const RecordLayout& layout, std::vector<Record>* records) {
  const auto first = std::find_if(records->begin(), records->end(),
                                  [&](const Record& record) { return RepeatsOf(layout, record) == Repeats::kJoin; });
  std::unordered_map<uint64_t, Row> rows;
  size_t kept = static_cast<size_t>(std::distance(records->begin(), first));
  for (size_t i = kept; i < records->size(); ++i) {
    Record& call = (*records)[i];
    if (RepeatsOf(layout, call) == Repeats::kJoin) {
      const auto [row, is_new] =
          rows.try_emplace(uint64_t{call.site} << 16 | call.element, Row{kept, call.missing() ? 0 : 1});
      if (!is_new) {
        AddCall(call, &row->second, &(*records)[row->second.position]);
        continue;
      }
      MakeRow(&call);
    }
    if (i != kept) (*records)[kept] = call;
    ++kept;
  }
  for (const auto& [key, row] : rows) Finish(row.calls, &(*records)[row.position]);
  const size_t joined = records->size() - kept;
  records->resize(kept);
  return joined + ReplaceRepeated(layout, records);
}

std::vector<Record> MergedRecords(const RecordLayout& layout, const std::vector<Record>& records) {
  std::vector<Record> arrived;
  std::copy_if(records.begin(), records.end(), std::back_inserter(arrived),
               [](const Record& record) { return !record.pending(); });
  (void)MergeRepeatedRecords(layout, &arrived);
  return arrived;
}

}  // namespace stepwatch::drain
