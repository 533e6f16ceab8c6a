// Texts of alarms: the sentence of a log line, the entry of anomaly.json. Pure.
#pragma once

#include <string>
#include <vector>

#include "src/alerts/rule_evaluator.h"
#include "stepwatch/record.h"
#include "stepwatch/record_layout.h"

namespace stepwatch::alerts {

// Source of an alarm: the keys by which msProbe's analysis sorts alarms, besides step and call.
struct AlarmOrigin {
  int rank = 0;
  int pp_stage = 0;              // pipeline stage of the rank, 0 without pipeline parallelism
  std::vector<int> group_mates;  // ranks of the front end's group
};

struct AlarmText {
  std::string tag;
  // "Rule AnomalyNan reports anomaly signal in ('0:fc.weight/rank0/post_grad', 'norm') at step 7, current value nan,
  // history mean 0.25."
  std::string sentence;
};
AlarmText TextOf(const RecordLayout& layout, const Record& record, const alerts::Alarm& alarm, int rank);

// Appends one member of the object in anomaly.json, indented, without a comma. Its key is
// "{tag}_{statistic}_step_{step}_call_{call_id}". call_id is the position of the record among those of its step, in the
// order of production; dropped records leave no gap. Must be fast: when a model has diverged to NaN, every value of
// every step is an alarm, and rows wait meanwhile.
void AppendAnomaly(const RecordLayout& layout, const Record& record, const alerts::Alarm& alarm,
                   const AlarmOrigin& origin, const AlarmText& text, std::string* entry);

}  // namespace stepwatch::alerts
