// The dead man's switch, both ways: something outside raises an alarm when our requests stay away, and a message
// reports that the Watchdog alert of Prometheus, which always fires, no longer arrives. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "operations/delivery/delivery_settings.h"
#include "operations/delivery/notice.h"
#include "operations/delivery/outbox.h"
#include "operations/delivery/receiver.h"

namespace stepwatch::operations::delivery {

class Watchdog {
 public:
  using Then = std::function<void(const Judgement& judgement)>;
  struct Dependencies {
    // Sends a request to the address outside. `then` is called later, or at once.
    std::function<void(const ReceiverSettings& target, Then then)> ping;
    // Sends a message to people. Not through an Alertmanager, which is silent, too, when it is gone.
    std::function<void(const Notice& notice)> report;
    std::function<void(bool is_trouble, const std::string& text)> log;
  };

  // Must outlive the requests that `ping` begins.
  explicit Watchdog(Dependencies dependencies) : dependencies_(std::move(dependencies)) {}

  // Some times a second.
  void Tick(const DeliverySettings& settings, Moment now);
  // A Watchdog alert has arrived.
  void Hear(Moment now);

 private:
  void Ping(const DeliverySettings& settings, Moment now);
  void LookForAlert(const DeliverySettings& settings, Moment now);
  void Report(NoticeState state, Moment now);

  const Dependencies dependencies_;
  std::optional<double> pinged_;
  bool is_pinging_ = false;
  bool in_trouble_ = false;
  std::optional<double> heard_;   // when the last Watchdog alert arrived, or was first expected
  std::optional<double> missed_;  // the wall time since which it is reported as missing
};

}  // namespace stepwatch::operations::delivery
