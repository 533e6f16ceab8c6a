// Ids of runs and incidents, of which people type and read the beginning.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "stepwatch/status.h"

namespace stepwatch::cli {

// An id, and what tells people which one that is.
using KnownId = std::pair<std::string, std::string>;

// The id that is meant: the one that is just this, else the only one that begins with it. kNotFound: none does;
// kInvalid: several do, and the message names them. `noun`: what it is an id of.
Result<std::string> MeantId(const std::string& beginning, const std::vector<KnownId>& known, const std::string& noun);

// Each id as it is if it is short, else as much of its beginning as no other of them has, and some more.
std::vector<std::string> ShortIds(const std::vector<std::string>& ids);

}  // namespace stepwatch::cli
