// The answer of a job to a proposed config (POST /v1/plan) as text.
#pragma once

#include <string>

#include "src/json/json.h"

namespace stepwatch::cli {

// `job`: its name in `stepwatch ps`. Without the warnings.
std::string PreviewText(const std::string& job, const Json& preview_untrusted);

}  // namespace stepwatch::cli
