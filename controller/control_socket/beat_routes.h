// Routes of the control socket for the beats and the pulse of its process.
#pragma once

#include "controller/control_socket/routes.h"
#include "src/http/answers.h"

namespace stepwatch::control_socket {

http::Answer GetBeats(const Request& request, Job& job);
// The answer sent with the descriptors of the pulse.
http::Answer PulseAnswer(const PulseGrant& grant);

}  // namespace stepwatch::control_socket
