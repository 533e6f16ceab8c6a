// Runs and incidents, as stepwatchd tells of them, as text for people. Pure.
#pragma once

#include <string>
#include <vector>

#include "src/json/json.h"

namespace stepwatch::cli {

// The table of `stepwatch runs`. `now`: seconds of the wall clock. `all`: whose ids are to be told apart.
std::string RunsText(const std::vector<Json>& runs_untrusted, const std::vector<Json>& all, double now);
// "train", "ended (signal)".
std::string RunStateText(const Json& run_untrusted);
// It has not ended, or an incident of it is open.
bool IsOfInterest(const Json& run_untrusted);

// The table of `stepwatch incidents`.
std::string IncidentsText(const std::vector<Json>& incidents_untrusted, double now);
// A line of `stepwatch incidents --watch`: `change` is opened, updated, resolved, acknowledged, or open for one that
// was open before.
std::string ChangeLine(const std::string& change, const Json& incident_untrusted);

bool IsOpen(const Json& incident_untrusted);
// For how long an incident is, or was, open.
double OpenSeconds(const Json& incident_untrusted, double now);
// "acknowledged by kim: looking; silenced"; empty: neither.
std::string SaidOf(const Json& incident_untrusted);
// Critical before warning, what nobody has seen to before what somebody has, the oldest before the others.
bool IsWorse(const Json& a_untrusted, const Json& b_untrusted);

// Local time: "2026-11-23 19:20:11"; empty: not known.
std::string LocalTimeText(double t);

}  // namespace stepwatch::cli
