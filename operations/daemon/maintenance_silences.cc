#include "operations/daemon/maintenance_silences.h"

#include <chrono>
#include <optional>
#include <utility>

#include "operations/daemon/log.h"

namespace stepwatch::operations {

void MaintenanceSilences::Apply(const MaintenanceSettings& settings) {
  if (settings == settings_) return;
  settings_ = settings;
  watch_.reset();
  if (settings.scontrol.empty() && settings.labels_file.empty()) return;
  MaintenanceWatch::Options options;
  options.scontrol = settings.scontrol;
  options.labels_file = settings.labels_file;
  options.interval = std::chrono::seconds(settings.seconds);
  options.wall = parts_.wall;
  options.on_note = [log = parts_.log](const std::string& note) { log->Write(LogLevel::kWarning, note); };
  options.on_windows = [this] { Tick(); };
  watch_ = std::make_unique<MaintenanceWatch>(loop_, std::move(options));
  watch_->Start();
}

void MaintenanceSilences::Tick() {
  const double now = parts_.wall();
  std::vector<MaintenanceWindow> windows;
  if (watch_) {
    std::optional<std::vector<MaintenanceWindow>> read = watch_->windows();
    if (!read) return;  // silences of the previous process stay
    windows = std::move(*read);
  }
  std::erase_if(windows, [&](const MaintenanceWindow& each) { return now < each.begin_t || now >= each.end_t; });
  std::vector<RunOnHosts> runs;
  if (!windows.empty())
    for (RunSnapshot& run : parts_.observer->Runs())
      if (!run.ended) runs.push_back({std::move(run.id), std::move(run.hosts)});
  SilenceChanges changes = SilencesFor(windows, runs, parts_.ledger->registry().Silences(now), now);
  for (const std::string& id : changes.removed) (void)parts_.ledger->RemoveSilence(id, {});
  for (const Silence& each : changes.set) Set(each);
}

void MaintenanceSilences::Set(const Silence& silence) {
  const bool is_new = !parts_.ledger->registry().RemoveSilence(silence.id);
  if (!parts_.ledger->AddSilence(silence, {})) return;
  if (is_new) parts_.log->Write(LogLevel::kInfo, silence.run + " is silenced: " + silence.note);
}

}  // namespace stepwatch::operations
