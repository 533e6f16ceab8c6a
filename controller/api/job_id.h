// By which id a restart of a job knows what an earlier start has done.
#pragma once

#include <string>

namespace stepwatch::api {

// The first of these that says something: `wanted`, STEPWATCH_JOB_ID, and the variables that launchers set: the
// rendezvous of torchrun, then the job of a scheduler. Empty: none does.
std::string JobIdOr(const std::string& wanted);

}  // namespace stepwatch::api
