// The rules of the top-level keys, grouped by what they are about. docs/config.md describes each for users.
#pragma once

#include <span>

#include "src/config/config.h"
#include "src/config/field.h"

namespace stepwatch::config {

std::span<const KeyRule<Config>> SelectionFields();  // what is collected, and when
std::span<const KeyRule<Config>> OutputFields();     // which statistics, in which files; "stepwatch"
std::span<const KeyRule<Config>> FeatureFields();    // communication, L2 features, update ratios
std::span<const KeyRule<Config>> AlertFields();

// `ops` as it is used: `norm` if nothing is asked for, shape and dtype last unless they were placed.
void CompleteOps(std::vector<Stat>& ops);

// For a key that is read and checked but has no effect in this version.
inline constexpr const char* kNotYetEffective = "accepted, but not yet effective in this version: ";

}  // namespace stepwatch::config
