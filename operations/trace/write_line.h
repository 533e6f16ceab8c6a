// Lines and incidents as one JSON object each, without a newline. Bytes that are not UTF-8 become U+FFFD.
#pragma once

#include <string>

#include "operations/vocabulary/incident.h"
#include "operations/vocabulary/line.h"

namespace stepwatch::operations {

// ParseLine returns the same line for it.
std::string LineJson(const Line& line);

// {"t": …, "incident": "stuck", "state": "opened", "run": …, "ranks": […], "since_step": …, "id": …, "severity": …,
// "evidence": {…}}; `since_step` is null if no step was good.
std::string IncidentJson(const Incident& incident);

// One line for people: time, state, severity, kind, run, ranks, and a summary of the evidence, without control
// characters.
std::string IncidentSentence(const Incident& incident);

}  // namespace stepwatch::operations
