// The answers of the intake as JSON: each has "version": 1, and a later release only adds members.
#pragma once

#include <string>
#include <vector>

#include "operations/intake/incident_registry.h"
#include "operations/runs/series.h"
#include "operations/runs/snapshot.h"
#include "src/http/answers.h"
#include "src/json/json.h"

namespace stepwatch::operations {

// Without ranks.
Json RunJson(const RunSnapshot& run);
Json RankJson(const RankSnapshot& rank);
Json PointJson(const SeriesPoint& point);
// The change as in IncidentJson, and: opened_t; acknowledged {by, note, t} or null; silenced_by, the id of a silence,
// or null.
Json IncidentAnswer(const Incident& incident, const std::optional<Acknowledgement>& acknowledgement,
                    const Silence* silence);
Json SilenceJson(const Silence& silence);
// An answer with these members. Bytes that are not UTF-8 are replaced.
http::Answer AnswerWith(Json members, int status = 200);
// 404: unknown name.
http::Answer Missing(const std::string& what);

}  // namespace stepwatch::operations
