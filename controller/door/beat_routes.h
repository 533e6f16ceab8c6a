// What the door says of the beats of its process.
#pragma once

#include "controller/door/answers.h"
#include "controller/door/routes.h"

namespace stepwatch::door {

Answer GetBeats(const Request& request, Job& job);
// What goes with the descriptors of the pulse.
Answer PulseAnswer(const PulseGrant& grant);

}  // namespace stepwatch::door
