// What the intake says, as JSON: every answer has "version": 1, and a later release only adds members.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "operations/intake/incident_book.h"
#include "operations/runs/series.h"
#include "operations/runs/snapshot.h"

namespace stepwatch::operations {

using AnswerJson = nlohmann::ordered_json;

inline constexpr int kAnswerVersion = 1;

// init, train, eval, checkpoint, paused or ended.
std::string StateOf(const RunSnapshot& run);
// Without ranks.
AnswerJson RunJson(const RunSnapshot& run);
AnswerJson RankJson(const RankSnapshot& rank);
AnswerJson PointJson(const SeriesPoint& point);
// The change that IncidentJson writes, and: opened_t; acknowledged {by, note, t} or null; silenced_by, the id of a
// silence, or null.
AnswerJson IncidentAnswer(const Incident& incident, const std::optional<Acknowledgement>& acknowledgement,
                          const Silence* silence);
AnswerJson SilenceJson(const Silence& silence);
// An answer with these members; what is no UTF-8 in them is replaced.
std::string AnswerText(AnswerJson members);
std::string Dump(const AnswerJson& json);

}  // namespace stepwatch::operations
