// The jobs of this machine, as discovery finds them; none while the settings disable it.
//
// On the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "operations/daemon/daemon_settings.h"
#include "operations/daemon/known_until.h"
#include "operations/daemon/state_writer.h"
#include "operations/discovery/discovery.h"

namespace stepwatch::operations {

class LossLog;

class LocalJobs {
 public:
  struct Dependencies {
    std::function<double()> wall;
    std::function<void(Line line)> report;
    KnownUntil* known_until;
    StateWriter* state;
    LossLog* losses;
  };

  // Pointers must outlive it.
  LocalJobs(boost::asio::io_context& loop, Dependencies dependencies)
      : loop_(loop), dependencies_(std::move(dependencies)) {}

  void Start(const DiscoverySettings& settings);
  // Known processes, and the time of each rank's last line, stay.
  void Apply(const DiscoverySettings& settings);
  // No line is reported afterwards; the known processes stay known.
  void Stop();
  // Processes that an earlier stepwatchd knew and this one has not found yet.
  void Remember(const std::vector<KnownProcess>& processes);
  // Passes the known processes on to the store.
  void StoreProcesses();
  // The runs' ranks on this machine report their stacks.
  void CollectStacks(const std::string& run, const std::vector<int64_t>& ranks);

  std::vector<KnownProcess> Processes() const;
  int64_t left_out() const { return discovery_ ? discovery_->left_out() : 0; }
  void FetchMetrics(std::function<void(const JobPages& pages)> done);
  void FetchStatus(std::function<void(const JobPages& pages)> done);

 private:
  boost::asio::io_context& loop_;
  const Dependencies dependencies_;
  std::unique_ptr<Discovery> discovery_;  // null: it is disabled
};

}  // namespace stepwatch::operations
