// What the ranks of a job have said as text for people. What is in an answer was written by other processes: it is read
// as it is found, and what is missing is left out.
#pragma once

#include <string>

#include "src/json/json.h"

namespace stepwatch::cli {

// The screen of `stepwatch status --ranks`.
std::string RanksText(const Json& ranks_untrusted);
// The lines of `stepwatch apply --dry-run=ranks`.
std::string DryRunText(const Json& trials_untrusted);

}  // namespace stepwatch::cli
