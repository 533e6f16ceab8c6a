// The answers of a control socket as text for people. What is in an answer was written by another process: it is read
// as it is found, and what is missing is left out.
#pragma once

#include <string>
#include <vector>

#include "controller/control_socket/find_jobs.h"
#include "src/json/json.h"

namespace stepwatch::cli {

// The table of `stepwatch ps`.
std::string PsText(const std::vector<control_socket::FoundJob>& jobs);
// The screen of `stepwatch status`.
std::string StatusText(const std::string& name, const Json& status_untrusted);
// Lines of it, without colours: who, in which state, and what a step and its rows cost.
std::string JobLine(const std::string& name, const Json& status_untrusted);
std::string PlainStateLine(const Json& status_untrusted);
std::string CostLine(const Json& status_untrusted);
// A line of `stepwatch events`.
std::string EventLine(const std::string& name, const Json& event_untrusted);
// The newest edit is not taken over: it was refused, or is tried in vain.
bool IsDegraded(const Json& status_untrusted);

}  // namespace stepwatch::cli
