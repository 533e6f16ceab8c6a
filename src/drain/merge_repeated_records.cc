#include "src/drain/merge_repeated_records.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <unordered_map>
#include <utility>

namespace stepwatch::drain {
namespace {

// The calls form one row: without micro-batch and call.
void MakeRow(Record* record) {
  record->micro_step = 0;
  record->call = 0;
}

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

// If shapes differ, the record keeps one, by which alarms detect that a NaN comes from an empty tensor.
void AddDescription(const Record& call, Record* row) {
  if (call.dtype != row->dtype) row->flags |= Record::kMixedDtype;
  if (call.ndim == row->ndim && call.dims == row->dims) return;
  row->flags |= Record::kMixedShape;
  if (!IsEmpty(call)) return;
  row->ndim = call.ndim;
  row->dims = call.dims;
}

// `calls` counts the calls with a tensor in the row. From the second call on, the row holds sums in place of roots and
// averages.
void AddCall(const Record& call, int64_t* calls, Record* record) {
  record->flags |= call.flags & Record::kInDoubt;
  if (call.missing()) return;
  if (record->missing()) {
    const uint8_t in_doubt = record->flags & Record::kInDoubt;
    *record = call;
    MakeRow(record);
    record->flags |= in_doubt;
    *calls = 1;
    return;
  }
  if (++*calls == 2) Square(record);
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

bool IsCall(const RecordLayout& layout, const Record& record) {
  return TraitsOf(layout.sites[record.site].kind).repeats == Repeats::kJoin;
}

bool MayComeAgain(const RecordLayout& layout, const Record& record) {
  return TraitsOf(layout.sites[record.site].kind).repeats == Repeats::kReplace;
}

// Key that distinguishes the gradients of a step.
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

// The target of each record. All allocation comes before the first record moves: if memory runs out, the records are
// unchanged.
struct Places {
  std::vector<size_t> of_record;
  size_t kept = 0;
};

// Calls of one site and element share a row, if they have the same number of values. (Otherwise, which would be a bug
// of Stepwatch, each is a row of its own.)
Places PlacesOfCalls(const RecordLayout& layout, const std::vector<Record>& records, size_t first) {
  Places places{std::vector<size_t>(records.size()), first};
  struct Row {
    size_t place;
    uint8_t value_count;
  };
  std::unordered_map<uint64_t, Row> rows;
  for (size_t i = first; i < records.size(); ++i) {
    const Record& record = records[i];
    places.of_record[i] = places.kept;
    if (IsCall(layout, record)) {
      const auto [found, is_new] =
          rows.try_emplace(uint64_t{record.site} << 16 | record.element, Row{places.kept, record.value_count});
      Row& row = found->second;
      if (row.value_count == 0) row.value_count = record.value_count;
      const bool joins = !is_new && (record.value_count == row.value_count || record.missing());
      if (joins) places.of_record[i] = row.place;
      if (joins) continue;
    }
    ++places.kept;
  }
  return places;
}

Places PlacesOfGradients(const RecordLayout& layout, const std::vector<Record>& records) {
  Places places{std::vector<size_t>(records.size()), 0};
  std::unordered_map<Gradient, size_t, GradientHash> known;
  for (size_t i = 0; i < records.size(); ++i) {
    size_t place = places.kept;
    if (MayComeAgain(layout, records[i])) place = known.try_emplace(KeyOf(records[i]), place).first->second;
    places.of_record[i] = place;
    if (place == places.kept) ++places.kept;
  }
  return places;
}

void JoinCalls(const RecordLayout& layout, const Places& places, size_t first, std::vector<int64_t> calls,
               std::vector<Record>* records) noexcept {
  size_t filled = first;
  for (size_t i = first; i < records->size(); ++i) {
    Record& record = (*records)[i];
    const size_t place = places.of_record[i];
    if (place < filled) {
      AddCall(record, &calls[place - first], &(*records)[place]);
      continue;
    }
    if (IsCall(layout, record)) {
      MakeRow(&record);
      calls[place - first] = record.missing() ? 0 : 1;
    }
    if (i != place) (*records)[place] = record;
    ++filled;
  }
  for (size_t place = first; place < places.kept; ++place) Finish(calls[place - first], &(*records)[place]);
  records->resize(places.kept);
}

void ReplaceRepeated(const Places& places, std::vector<Record>* records) noexcept {
  for (size_t i = 0; i < records->size(); ++i)
    if (i != places.of_record[i]) (*records)[places.of_record[i]] = (*records)[i];
  records->resize(places.kept);
}

bool IsFurtherUpdate(const RecordLayout& layout, const Record& record) {
  return record.call > 0 && OwnerOf(layout.sites[record.site].kind) == SiteOwner::kParameter;
}

// The records of a parameter's site become calls 0, 1, 2, ... in their order: an update without a record leaves no gap,
// and a repeated update has the records of its last attempt.
void NumberUpdates(const RecordLayout& layout, std::vector<Record>* records) {
  struct Updates {
    uint16_t count = 0;
    size_t last = 0;
  };
  std::unordered_map<Gradient, Updates, GradientHash> updates;
  size_t kept = 0;
  for (size_t i = 0; i < records->size(); ++i) {
    Record record = (*records)[i];
    size_t place = kept;
    if (OwnerOf(layout.sites[record.site].kind) == SiteOwner::kParameter) {
      const bool repeats = (record.call & kRepeatedUpdate) != 0;
      record.call = 0;
      Updates& own = updates[KeyOf(record)];
      if (repeats && own.count > 0) {
        place = own.last;
      } else {
        ++own.count;
        own.last = kept;
      }
      record.call = static_cast<uint16_t>(own.count - 1);
    }
    (*records)[place] = record;
    if (place == kept) ++kept;
  }
  records->resize(kept);
}

}  // namespace

size_t MergeRepeatedRecords(const RecordLayout& layout, std::vector<Record>* records) {
  const size_t before = records->size();
  const auto call =
      std::find_if(records->begin(), records->end(), [&](const Record& record) { return IsCall(layout, record); });
  if (call != records->end()) {
    const auto first = static_cast<size_t>(std::distance(records->begin(), call));
    const Places places = PlacesOfCalls(layout, *records, first);
    JoinCalls(layout, places, first, std::vector<int64_t>(places.kept - first), records);
  }
  const bool may_repeat =
      std::any_of(records->begin(), records->end(), [&](const Record& record) { return MayComeAgain(layout, record); });
  if (may_repeat) ReplaceRepeated(PlacesOfGradients(layout, *records), records);
  const bool any_further = std::any_of(records->begin(), records->end(),
                                       [&](const Record& record) { return IsFurtherUpdate(layout, record); });
  if (any_further) NumberUpdates(layout, records);
  return before - records->size();
}

std::vector<Record> MergedRecords(const RecordLayout& layout, const std::vector<Record>& records) {
  std::vector<Record> arrived;
  std::copy_if(records.begin(), records.end(), std::back_inserter(arrived),
               [](const Record& record) { return !record.pending(); });
  (void)MergeRepeatedRecords(layout, &arrived);
  return arrived;
}

}  // namespace stepwatch::drain
