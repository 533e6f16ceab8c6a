// What records hold and what they are called: their columns, their name in CSV rows, and the tag by which alarms,
// TensorBoard and `api` know them.
#pragma once

#include <cstddef>
#include <string>

#include "stepwatch/record.h"
#include "stepwatch/site.h"

namespace stepwatch {

// Whether records of this kind say in which micro-batch they were seen: a column of CSV files, a part of tags.
bool HasMicroStep(const RecordLayout& layout, SiteKind kind);

// The statistics of records of this kind, in the order of columns. An L2 feature has its own, which are numbers
// throughout; all other kinds have those of `ops`, shape and dtype included. Valid as long as the layout.
struct Columns {
  const Stat* stats = nullptr;
  size_t count = 0;

  const Stat* begin() const { return stats; }
  const Stat* end() const { return stats + count; }
};
Columns ColumnsOf(const RecordLayout& layout, SiteKind kind);
bool IsFeature(SiteKind kind);
// Sites of this kind have heat maps and no records.
bool HasHeatmap(SiteKind kind);

// The kind as tags name it: "actv", "acc_grad" (grad_unreduced), "post_grad" (grad_reduced), "qkt" (attention), ...
const char* SiteKindTask(SiteKind kind);

// The site's name with element and call: "fc.input", "fc.output_1", "shared.output_1@2".
std::string RecordName(const PlannedSite& site, const Record& record);

// "{chunk}:{name}[:{micro_step}]/rank{R}/{task}", such as "0:fc.input:0/rank0/actv" or "0:fc.weight/rank0/post_grad";
// of a communication operator "{operator}/rank{R}/{side}_{element}", such as "all_reduce/rank0/post_0".
std::string RecordTag(const RecordLayout& layout, const Record& record, int rank);
// The same without a layout, for LatestValue.
std::string RecordTag(const PlannedSite& site, bool has_micro_step, const Record& record, int rank);

}  // namespace stepwatch
