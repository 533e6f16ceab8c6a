#include "src/logs/recogniser.h"

#include "src/logs/progress.h"

namespace stepwatch::logs {

void Recogniser::Recognise(Record* record) const {
  if (!record->progress) record->progress = FindProgress(record->message);
  FindAnomalies(record);
}

void Recogniser::FindAnomalies(Record* record) const {
  Context context;
  context.rank = record->rank;
  context.level = record->level;
  context.progress = record->progress ? &*record->progress : nullptr;
  context.exception = record->exception ? &*record->exception : nullptr;
  context.component = record->component;
  anomalies_.Find(record->message, context, &record->anomalies);
}

}  // namespace stepwatch::logs
