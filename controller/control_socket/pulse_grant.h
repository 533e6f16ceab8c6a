// The descriptors that a control socket sends to a client that requests the pulse of its process.
#pragma once

#include "controller/control_socket/job.h"
#include "src/step/pulse_writer.h"

namespace stepwatch::control_socket {

// The page and the current table of modules. The grant keeps the table alive; the page lives as long as the writer.
PulseGrant GrantPulse(const step::PulseWriter& pulse);

}  // namespace stepwatch::control_socket
