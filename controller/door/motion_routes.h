// Routes that act on the running plan and leave the config file alone: pause, resume, rotate.
#pragma once

#include "controller/door/routes.h"

namespace stepwatch::door {

Answer PostPause(const Request& request, Job& job);
Answer PostResume(const Request& request, Job& job);
Answer PostRotate(const Request& request, Job& job);

}  // namespace stepwatch::door
