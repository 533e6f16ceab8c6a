// Runs and incidents, as stepwatchd tells of them, as text for people. Pure.
#pragma once

#include <string>
#include <vector>

#include "controller/door/json_values.h"

namespace stepwatch::cli {

// The table of `stepwatch runs`. `now`: seconds of the wall clock. `all`: whose ids are to be told apart.
std::string RunsText(const std::vector<door::Json>& runs_untrusted, const std::vector<door::Json>& all, double now);
// "train", "ended (signal)".
std::string RunStateText(const door::Json& run_untrusted);
// It has not ended, or an incident of it is open.
bool IsOfInterest(const door::Json& run_untrusted);

// The table of `stepwatch incidents`.
std::string IncidentsText(const std::vector<door::Json>& incidents_untrusted, double now);
// A line of `stepwatch incidents --watch`: `change` is opened, updated, resolved, acknowledged, or open for one that
// was open before.
std::string ChangeLine(const std::string& change, const door::Json& incident_untrusted);

bool IsOpen(const door::Json& incident_untrusted);
// For how long an incident is, or was, open.
double OpenSeconds(const door::Json& incident_untrusted, double now);
// "acknowledged by kim: looking; silenced"; empty: neither.
std::string SaidOf(const door::Json& incident_untrusted);
// Critical before warning, what nobody has seen to before what somebody has, the oldest before the others.
bool IsWorse(const door::Json& a_untrusted, const door::Json& b_untrusted);

// Local time: "2026-11-23 19:20:11"; empty: not known.
std::string LocalTimeText(double t);

}  // namespace stepwatch::cli
