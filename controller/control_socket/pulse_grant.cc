#include "controller/control_socket/pulse_grant.h"

namespace stepwatch::control_socket {

PulseGrant GrantPulse(const step::PulseWriter& pulse) {
  PulseGrant grant;
  grant.page_fd = pulse.page_fd();
  grant.page_bytes = pulse.page_bytes();
  if (const auto table = pulse.modules()) {
    grant.names_fd = table->memory.fd.get();
    grant.names_bytes = table->memory.bytes;
    grant.names_generation = table->generation;
    grant.keep = table;
  }
  return grant;
}

}  // namespace stepwatch::control_socket
