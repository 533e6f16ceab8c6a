// Settings of delivery: who gets which message, and how.
#pragma once

#include <string>
#include <vector>

#include "operations/delivery/notice.h"
#include "operations/delivery/receiver.h"
#include "src/config/field.h"
#include "stepwatch/status.h"

namespace stepwatch::operations::delivery {

// Messages that match all of it go to these receivers. Patterns may contain * for any characters; empty ones, and no
// severities, match all.
struct Route {
  std::vector<std::string> receivers;
  std::vector<Severity> severities;
  std::string owner;
  std::string run;
  std::string kind;

  bool operator==(const Route&) const = default;
};

struct DeliverySettings {
  std::vector<ReceiverSettings> receivers;
  std::vector<Route> routes;    // a message that no route matches goes to all receivers
  std::string language = "en";  // of receivers without their own
  std::string link;             // to an incident, see Links
  std::string watchdog_url;     // gets a request every watchdog_seconds; empty: none
  std::string watchdog_url_file;
  double watchdog_seconds = 60;
  // A message is sent when no Watchdog alert has arrived for so long; 0: none is expected.
  double watchdog_expected_seconds = 0;

  bool operator==(const DeliverySettings&) const = default;
};

inline constexpr size_t kReceiversMax = 32;
inline constexpr size_t kRoutesMax = 100;

// The object "delivery".
Status ReadDelivery(const config::Field& field, config::Notes& notes, DeliverySettings& out);

// Indices of the receivers of a notice.
std::vector<size_t> ReceiversOf(const DeliverySettings& settings, const Notice& notice);

}  // namespace stepwatch::operations::delivery
