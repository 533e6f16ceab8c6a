// What people say of incidents, and may ask of what they said: acknowledgements and silences.
#pragma once

#include "operations/intake/asked.h"

namespace stepwatch::operations {

void PostAck(const Asked& asked);
void PostSilence(const Asked& asked);
void GetSilences(const Asked& asked);
void DeleteSilence(const Asked& asked);

}  // namespace stepwatch::operations
