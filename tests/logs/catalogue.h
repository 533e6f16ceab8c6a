// The patterns of anomalies, compiled once for all tests of a program.
#pragma once

#include "src/logs/anomalies.h"

namespace stepwatch::logs {

inline const AnomalySet& Catalogue() {
  static const AnomalySet set;
  return set;
}

}  // namespace stepwatch::logs
