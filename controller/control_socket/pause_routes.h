// Routes that act on the running plan and leave the config file unchanged: pause, resume, rotate.
#pragma once

#include "controller/control_socket/routes.h"
#include "src/http/answers.h"

namespace stepwatch::control_socket {

http::Answer PostPause(const Request& request, Job& job);
http::Answer PostResume(const Request& request, Job& job);
http::Answer PostRotate(const Request& request, Job& job);

}  // namespace stepwatch::control_socket
