// Records to put into a store.
#pragma once

#include <string>

#include "operations/store/batch.h"

namespace stepwatch::testing {

inline operations::StoredLine LineOf(int64_t number, const std::string& run, double t, bool begins = false) {
  const std::string what = begins ? R"("event":{"kind":"start"})" : R"("rank":0,"beat":{"step":1})";
  return {number, run, t, R"({"t":)" + std::to_string(t) + R"(,"run":")" + run + "\"," + what + "}", begins};
}

inline operations::StoredChange ChangeOf(int64_t number, const std::string& id, operations::IncidentState state) {
  operations::Incident incident;
  incident.t = static_cast<double>(number);
  incident.opened_t = 1;
  incident.state = state;
  incident.run = "a";
  incident.ranks = {3, 1};
  incident.since_step = 41;
  incident.id = id;
  return {number, std::string(operations::NameOf(state)), incident, std::nullopt};
}

inline operations::StoredChange AcknowledgedChange(int64_t number, const std::string& id, const std::string& by) {
  operations::StoredChange change = ChangeOf(number, id, operations::IncidentState::kOpened);
  change.what = "acknowledged";
  change.acknowledgement = operations::Acknowledgement{by, "seen", 2};
  return change;
}

}  // namespace stepwatch::testing
