// Answers of a control socket as text. Another process wrote them: members that are missing, or of another type, are
// left out.
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
// Lines of that screen without colours: the job, its state, the cost of a step and of its rows.
std::string JobLine(const std::string& name, const Json& status_untrusted);
std::string PlainStateLine(const Json& status_untrusted);
std::string CostLine(const Json& status_untrusted);
// A line of `stepwatch events`.
std::string EventLine(const std::string& name, const Json& event_untrusted);
// The newest edit is not applied: it was refused, or every attempt failed.
bool IsDegraded(const Json& status_untrusted);

}  // namespace stepwatch::cli
