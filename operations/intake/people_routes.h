// Routes for acknowledgements and silences, which users set.
#pragma once

#include "operations/intake/route_call.h"

namespace stepwatch::operations {

void PostAck(const RouteCall& call);
void PostSilence(const RouteCall& call);
void GetSilences(const RouteCall& call);
void DeleteSilence(const RouteCall& call);

}  // namespace stepwatch::operations
