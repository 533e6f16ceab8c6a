#include "operations/daemon/local_jobs.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "operations/daemon/loss_log.h"
#include "operations/discovery/pulse_source.h"
#include "src/base/process_identity.h"
#include "src/sockets/runtime_directory.h"

namespace stepwatch::operations {

void LocalJobs::Start(const DiscoverySettings& settings) {
  if (!settings.enabled) return;
  DiscoveryOptions options;
  options.named = settings.directories;
  if (options.named.empty()) options.directories = sockets::RuntimeDirectories(::geteuid());
  options.host = base::ThisProcess().host;
  Discovery::Dependencies dependencies;
  dependencies.open_pulse = OpenSocketPulse;
  dependencies.now = dependencies_.wall;
  dependencies.known_until = [this](const std::string& run, int64_t rank) {
    return dependencies_.known_until->Until(run, rank);
  };
  dependencies.on_left_out = [this](const std::string& why) { dependencies_.losses->Write(why); };
  discovery_ = std::make_unique<Discovery>(loop_, std::move(options), dependencies_.report, std::move(dependencies));
  discovery_->Remember(dependencies_.state->Processes());
  discovery_->Start();
}

void LocalJobs::Apply(const DiscoverySettings& settings) {
  if (discovery_) {
    for (const KnownProcess& each : discovery_->Processes())
      dependencies_.known_until->Note(each.run, each.rank, each.reported_t);
    StoreProcesses();
    discovery_->Stop();
    discovery_.reset();
  }
  Start(settings);
}

void LocalJobs::Stop() {
  if (discovery_) discovery_->Stop();
}

void LocalJobs::Remember(const std::vector<KnownProcess>& processes) {
  if (!discovery_) return;
  const std::vector<KnownProcess> seen = discovery_->Processes();
  std::vector<KnownProcess> unseen;
  for (const KnownProcess& each : processes)
    if (std::none_of(seen.begin(), seen.end(), [&](const auto& other) { return KeyOf(other) == KeyOf(each); }))
      unseen.push_back(each);
  discovery_->Remember(unseen);
}

void LocalJobs::StoreProcesses() {
  if (discovery_) dependencies_.state->StoreProcesses(discovery_->Processes());
}

void LocalJobs::CollectStacks(const std::string& run, const std::vector<int64_t>& ranks) {
  if (discovery_) discovery_->CollectStacks(run, ranks);
}

std::vector<KnownProcess> LocalJobs::Processes() const {
  return discovery_ ? discovery_->Processes() : std::vector<KnownProcess>();
}

void LocalJobs::FetchMetrics(std::function<void(const JobPages& pages)> done) {
  if (!discovery_) return done({});
  discovery_->FetchMetrics(std::move(done));
}

void LocalJobs::FetchStatus(std::function<void(const JobPages& pages)> done) {
  if (!discovery_) return done({});
  discovery_->FetchStatus(std::move(done));
}

}  // namespace stepwatch::operations
