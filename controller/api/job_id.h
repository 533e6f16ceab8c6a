// The id by which a restarted job recognises the work of its earlier starts.
#pragma once

#include <string>

namespace stepwatch::api {

// Returns the first usable id: `wanted`, STEPWATCH_JOB_ID, then the variables that launchers set: the rendezvous of
// torchrun, and the job of a scheduler. Empty: no id.
std::string JobIdOr(const std::string& wanted);

}  // namespace stepwatch::api
