// The pulse of another process, as its control socket hands it over.
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

// Stays readable when the process is dead: what it wrote last is there then. Values are the other process's, which may
// be any program: bounded and valid UTF-8, and not to be believed beyond that.
class PulseView {
 public:
  // Takes over a page and, unless it is empty, a table of names of this generation.
  PulseView(base::Mapping page, base::Mapping names, uint32_t names_generation);

  Result<vocabulary::Pulse> Read() const;
  std::vector<vocabulary::LastWord> LastWords() const;
  // Of the module that the pulse is at, "0:layers.3.attn": chunk and name. Empty: unknown, or of another table than
  // this.
  std::string ModuleName(const vocabulary::Pulse& pulse) const;
  // There is another table of names: fetch the pulse again.
  bool IsOutdated() const;

 private:
  const vocabulary::PulsePage& page() const { return *static_cast<const vocabulary::PulsePage*>(page_.data()); }

  base::Mapping page_;
  std::vector<std::string> names_;
  uint32_t names_generation_ = 0;
};

// Asks the control socket at this socket. kNotFound: the process has no pulse; kInvalid: what it has handed over is
// none. `trusted`: see Client.
Result<PulseView> FetchPulse(const std::string& socket_path, std::optional<uid_t> trusted = std::nullopt,
                             std::chrono::milliseconds time = http::Client::kUsualTime);

}  // namespace stepwatch::control_socket
