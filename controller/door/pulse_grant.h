// What a door gives whoever asks for the pulse of its process.
#pragma once

#include "controller/door/job.h"
#include "src/step/pulse_writer.h"

namespace stepwatch::door {

// The page, and the table of modules as it is now, which the grant keeps alive. The page lives as long as the writer.
PulseGrant GrantPulse(const step::PulseWriter& pulse);

}  // namespace stepwatch::door
