// An action as the text of its row in the store, and as an answer of the intake.
#pragma once

#include <string>
#include <string_view>

#include "operations/remedy/action.h"
#include "stepwatch/status.h"

namespace stepwatch::operations::remedy {

// A JSON object on one line.
std::string ActionText(const Action& action);
Result<Action> ParseAction(std::string_view text);

}  // namespace stepwatch::operations::remedy
