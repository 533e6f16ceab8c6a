// Names of records: their name in CSV rows, and their tag in alarms, TensorBoard and `api`.
#pragma once

#include <string>

#include "stepwatch/record.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/site.h"

namespace stepwatch {

// The site's name with element and call: "fc.input", "fc.output_1", "shared.output_1@2".
std::string RecordName(const PlannedSite& site, const Record& record);

// "{chunk}:{name}[:{micro_step}]/rank{R}/{task}", such as "0:fc.input:0/rank0/actv" or "0:fc.weight/rank0/post_grad";
// for a communication operator "{operator}/rank{R}/{side}_{element}", such as "all_reduce/rank0/post_0".
std::string RecordTag(const RecordLayout& layout, const Record& record, int rank);
// The same without a layout, for LatestValue.
std::string RecordTag(const PlannedSite& site, bool has_micro_step, const Record& record, int rank);

}  // namespace stepwatch
