// The compiled patterns that readers share.
#pragma once

#include "src/logs/anomalies.h"
#include "src/logs/record.h"

namespace stepwatch::logs {

// Built once; used by any number of threads at once.
class Recogniser {
 public:
  // Fills the anomalies of a record, and its progress unless it has one. Message, level and exception are set.
  void Recognise(Record* record) const;
  // Fills only the anomalies.
  void FindAnomalies(Record* record) const;

 private:
  AnomalySet anomalies_;
};

}  // namespace stepwatch::logs
