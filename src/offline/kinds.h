// The kinds of metric files, in the order in which tools list them.
#pragma once

#include <string>
#include <vector>

#include "stepwatch/status.h"

namespace stepwatch::offline {

// Activations, gradients, weights, moments.
const std::vector<std::string>& MainKinds();
// The files of the L2 features.
const std::vector<std::string>& FeatureKinds();

// `chosen`, or `known` if `chosen` is empty. kInvalid names those not in `known`.
Result<std::vector<std::string>> ChooseKinds(const std::vector<std::string>& chosen,
                                             const std::vector<std::string>& known);

}  // namespace stepwatch::offline
