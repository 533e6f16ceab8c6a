// A config file looked at without a monitor.
#include "controller/watch/look.h"
#include "src/config/parse_config.h"
#include "stepwatch/monitor.h"

namespace stepwatch {

Status CheckConfig(const std::string& path) try {
  const watch::Look look = watch::LookAt(path);
  if (look.kind == watch::LookKind::kUnstable)
    return Status(StatusCode::kUnavailable, path + " changes while it is read");
  if (look.kind != watch::LookKind::kBytes)
    return Status(look.kind == watch::LookKind::kMissing ? StatusCode::kNotFound : StatusCode::kUnavailable,
                  look.error);
  return config::ParseConfig(look.bytes).status();
} catch (const std::exception& error) {  // no descriptor or memory left
  return Status(StatusCode::kExhausted, path + " cannot be looked at: " + error.what());
}

Status CheckConfigText(const std::string& text) try {
  return config::ParseConfig(text).status();
} catch (const std::exception& error) {
  return Status(StatusCode::kExhausted, std::string("the text cannot be looked at: ") + error.what());
}

}  // namespace stepwatch
