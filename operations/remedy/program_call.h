// The arguments of an allowed program for one trigger. Pure; no shell is ever involved.
#pragma once

#include <string>
#include <vector>

#include "operations/remedy/policy.h"
#include "stepwatch/status.h"

namespace stepwatch::operations::remedy {

// Refused: a placeholder whose value is unknown, or has other characters than letters, digits and . _ : -, or begins
// with -, which a program could read as an option.
Result<std::vector<std::string>> ArgumentsFor(const Program& program, const Trigger& trigger);

}  // namespace stepwatch::operations::remedy
