// Makes notices: of changes of incidents, and of the alerts in a body of Alertmanager's webhook. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "operations/delivery/notice.h"
#include "operations/store/batch.h"
#include "stepwatch/status.h"

namespace stepwatch::operations::delivery {

struct Links {
  // links.incident of the settings: an address with {id}, {run} and {kind}; empty: no link.
  std::string incident;
  // The signed address at which the incident can be acknowledged; not set: none.
  std::function<std::string(const Incident&)> acknowledge;
};

// The notice of one change. `updated` gives the notice of an open incident with the same `change` as `opened`: it
// replaces that one where alerts are posted again, and is no message of its own. Host and owner are not known here.
Notice NoticeOf(const StoredChange& change, const Links& links);
// A message that tests a receiver.
Notice TestNotice(double now);

inline constexpr size_t kWebhookBytesMax = size_t{4} << 20;
inline constexpr size_t kWebhookAlertsMax = 10'000;

// One notice for each alert, by the status of the alert, not of its group. Unknown members are ignored. kInvalid: not a
// webhook of version 4; kExhausted: above a limit.
Result<std::vector<Notice>> NoticesOfWebhook(std::string_view body_untrusted);

}  // namespace stepwatch::operations::delivery
