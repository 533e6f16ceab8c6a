// The line of a run's logs that shows the cause of an incident.
#pragma once

#include "operations/logs/log_events.h"
#include "operations/vocabulary/incident.h"
#include "src/json/json.h"

namespace stepwatch::operations {

// The most likely first cause across ranks among the kept records around the opening of the incident; without an
// anomaly, the first exception. Members: t, rank, source, text, anomaly. Null if there is none.
Json CauseLine(const LogEvents& events, const Incident& incident);

}  // namespace stepwatch::operations
