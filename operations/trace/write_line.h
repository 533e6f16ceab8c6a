// Lines and incidents as one JSON object each, without a newline. What is not UTF-8 becomes U+FFFD.
#pragma once

#include <string>

#include "operations/vocabulary/incident.h"
#include "operations/vocabulary/line.h"

namespace stepwatch::operations {

// ParseLine gives the same line back.
std::string LineJson(const Line& line);

// {"t": …, "incident": "stuck", "state": "opened", "run": …, "ranks": […], "since_step": …, "id": …, "severity": …,
// "evidence": {…}}; `since_step` is null if no step was good.
std::string IncidentJson(const Incident& incident);

// One line for people: time, state, severity, kind, run, ranks, and the evidence in short. It has no control
// characters.
std::string IncidentSentence(const Incident& incident);

}  // namespace stepwatch::operations
