// What the control socket says of the beats of its process.
#pragma once

#include "controller/control_socket/routes.h"
#include "src/http/answers.h"

namespace stepwatch::control_socket {

http::Answer GetBeats(const Request& request, Job& job);
// What goes with the descriptors of the pulse.
http::Answer PulseAnswer(const PulseGrant& grant);

}  // namespace stepwatch::control_socket
