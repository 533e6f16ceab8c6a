// The pulse of another process, received through its control socket.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/sealed_memory.h"
#include "src/http/client.h"
#include "src/vocabulary/pulse_page.h"
#include "stepwatch/status.h"

namespace stepwatch::control_socket {

// Stays readable after the process has died, with its last writes. The other process may be any program: values are
// bounded and valid UTF-8, but otherwise untrusted.
class PulseView {
 public:
  // Takes ownership of a page and of the table of names of this generation, which may be empty.
  PulseView(base::Mapping page, base::Mapping names, uint32_t names_generation);

  Result<vocabulary::Pulse> Read() const;
  std::vector<vocabulary::LastWord> LastWords() const;
  // The module in the pulse as "0:layers.3.attn": chunk and name. Empty: unknown, or from another table of names.
  std::string ModuleName(const vocabulary::Pulse& pulse) const;
  // True if there is a newer table of names; fetch the pulse again.
  bool IsOutdated() const;

 private:
  const vocabulary::PulsePage& page() const { return *static_cast<const vocabulary::PulsePage*>(page_.data()); }

  base::Mapping page_;
  std::vector<std::string> names_;
  uint32_t names_generation_ = 0;
};

// Requests the pulse at this socket. kNotFound: the process has no pulse; kInvalid: the received data is not a pulse.
// `trusted`: see Client.
Result<PulseView> FetchPulse(const std::string& socket_path, std::optional<uid_t> trusted = std::nullopt,
                             std::chrono::milliseconds time = http::Client::kUsualTime);

}  // namespace stepwatch::control_socket
