// A change of an incident from the text that IncidentJson made of it.
#pragma once

#include <string_view>

#include "operations/vocabulary/incident.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

// `opened_t` is the text's, or `t` if it has none. Evidence of a type that IncidentJson does not write is left out.
// Refused as kInvalid: what is no such object.
Result<Incident> ParseIncident(std::string_view text_untrusted);

}  // namespace stepwatch::operations
