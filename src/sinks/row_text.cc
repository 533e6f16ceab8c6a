#include "src/sinks/row_text.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "src/sinks/impossible_frame.h"
#include "src/vocabulary/number_text.h"
#include "stepwatch/tag.h"

namespace stepwatch::sinks {
namespace {

constexpr uint32_t kUnranked = std::numeric_limits<uint32_t>::max();

bool OfModule(SiteKind kind) {
  return OwnerOf(kind) == SiteOwner::kModule;
}

const StatValue* FindValue(const Record& record, Stat stat) {
  for (size_t i = 0; i < record.value_count; ++i)
    if (record.values[i].stat == stat) return &record.values[i];
  return nullptr;
}

void AppendShape(const Record& record, std::string* text) {
  const bool quoted = record.ndim > 1;  // the list contains a comma
  text->append(quoted ? "\"[" : "[");
  for (size_t i = 0; i < record.ndim; ++i) {
    if (i > 0) text->append(", ");
    vocabulary::AppendInteger(record.dims[i], text);
  }
  text->append(quoted ? "]\"" : "]");
}

bool HasNone(const Record& record, Stat stat) {
  return record.missing() || (stat == Stat::kShape && record.mixed_shape()) ||
         (stat == Stat::kDtype && record.mixed_dtype());
}

void AppendStat(const Record& record, Stat stat, int ndigits, std::string* text) {
  if (HasNone(record, stat)) {
    text->append("nan");
  } else if (stat == Stat::kShape) {
    AppendShape(record, text);
  } else if (stat == Stat::kDtype) {
    text->append(DTypeName(record.dtype));
  } else if (const StatValue* value = FindValue(record, stat); value == nullptr) {
    text->append("nan");
  } else if (!value->is_integer) {
    vocabulary::AppendDouble(value->f64, ndigits, text);
  } else if (record.dtype == DType::kBool && !record.mixed_dtype() && TraitsOf(stat).is_element) {
    text->append(value->i64 != 0 ? "True" : "False");
  } else {
    vocabulary::AppendInteger(value->i64, text);
  }
}

bool Contains(const std::vector<Stat>& stats, Stat stat) {
  return std::find(stats.begin(), stats.end(), stat) != stats.end();
}

void AppendName(const PlannedSite& site, const Record& record, std::string* text) {
  if (record.element == kNoElement && record.call == 0) {
    vocabulary::AppendCell(site.name, text);
    return;
  }
  vocabulary::AppendCell(RecordName(site, record), text);
}

void AppendRow(const RecordLayout& layout, const Record& record, std::string* text) {
  const PlannedSite& site = layout.sites[record.site];
  vocabulary::AppendInteger(site.chunk, text);
  text->push_back(',');
  AppendName(site, record, text);
  text->push_back(',');
  vocabulary::AppendInteger(record.step, text);
  if (HasMicroStep(layout, site.kind)) {
    text->push_back(',');
    vocabulary::AppendInteger(record.micro_step, text);
  }
  const bool has_all = layout.groups.empty() || IsFeature(site.kind);
  const std::vector<Stat>* of_site = has_all ? nullptr : &StatsOf(layout, record.site);
  for (Stat stat : ColumnsOf(layout, site.kind)) {
    text->push_back(',');
    if (of_site == nullptr || Contains(*of_site, stat)) AppendStat(record, stat, layout.ndigits, text);
  }
  if (layout.plan_id_column) {
    text->push_back(',');
    vocabulary::AppendInteger(layout.plan_id, text);
  }
  text->push_back('\n');
}

}  // namespace

std::string HeaderLine(const RecordLayout& layout, SiteKind kind) {
  std::string line = "vpp_stage,name,step";
  if (HasMicroStep(layout, kind)) line += ",micro_step";
  for (Stat stat : ColumnsOf(layout, kind)) line.append(",").append(StatName(stat));
  if (layout.plan_id_column) line += ",plan_id";
  return line += '\n';
}

void RowFormatter::Collect(const RecordLayout& layout, const StepFrame& frame) {
  for (Kind& kind : kinds_) {
    kind.records.clear();
    std::fill(kind.rank_of_owner.begin(), kind.rank_of_owner.end(), kUnranked);
    kind.ranks = 0;
  }
  for (size_t i = 0; i < frame.count; ++i) {
    const Record& record = frame.records[i];
    if (record.site >= layout.sites.size())
      throw ImpossibleFrame("a record belongs to a site that its plan does not contain");
    const PlannedSite& site = layout.sites[record.site];
    Kind& kind = kinds_[static_cast<size_t>(FileKind(site.kind))];
    uint32_t rank = 0;
    if (OfModule(site.kind)) {
      if (site.owner >= kind.rank_of_owner.size()) kind.rank_of_owner.resize(site.owner + size_t{1}, kUnranked);
      uint32_t& known = kind.rank_of_owner[site.owner];
      if (known == kUnranked) known = kind.ranks++;
      rank = known;
    }
    kind.records.push_back({&record, rank});
  }
}

void RowFormatter::Format(const RecordLayout& layout, const StepFrame& frame) {
  Collect(layout, frame);
  const auto order = [&layout](const PlacedRecord& placed) {
    const Record& record = *placed.record;
    return std::make_tuple(placed.module_rank, record.micro_step, record.call, layout.sites[record.site].port,
                           record.element);
  };
  for (size_t k = 0; k < kinds_.size(); ++k) {
    Kind& kind = kinds_[k];
    if (OfModule(static_cast<SiteKind>(k)))
      std::stable_sort(kind.records.begin(), kind.records.end(),
                       [&order](const PlacedRecord& a, const PlacedRecord& b) { return order(a) < order(b); });
    kind.rows.text.clear();
    kind.rows.records = kind.records.size();
    for (const PlacedRecord& placed : kind.records) AppendRow(layout, *placed.record, &kind.rows.text);
  }
}

}  // namespace stepwatch::sinks
