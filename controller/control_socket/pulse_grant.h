// What a control socket gives whoever asks for the pulse of its process.
#pragma once

#include "controller/control_socket/job.h"
#include "src/step/pulse_writer.h"

namespace stepwatch::control_socket {

// The page, and the table of modules as it is now, which the grant keeps alive. The page lives as long as the writer.
PulseGrant GrantPulse(const step::PulseWriter& pulse);

}  // namespace stepwatch::control_socket
