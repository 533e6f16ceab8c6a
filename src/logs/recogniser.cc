#include "src/logs/recogniser.h"

namespace stepwatch::logs {

void Recogniser::Recognise(Record* record) const {
  Context context;
  context.rank = record->rank;
  context.level = record->level;
  context.progress = record->progress ? &*record->progress : nullptr;
  context.exception = record->exception ? &*record->exception : nullptr;
  context.component = record->component;
  anomalies_.Find(record->message, context, &record->anomalies);
}

}  // namespace stepwatch::logs
