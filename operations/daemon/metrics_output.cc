#include "operations/daemon/metrics_output.h"

#include <iterator>
#include <utility>

#include "operations/daemon/local_jobs.h"
#include "operations/daemon/log.h"
#include "operations/daemon/machine_watch.h"
#include "operations/intake/incident_registry.h"
#include "operations/metrics/merge_expositions.h"
#include "operations/metrics/otlp_metrics.h"
#include "operations/metrics/run_families.h"
#include "src/base/process_identity.h"
#include "src/http/metrics_page.h"

namespace stepwatch::operations {

MetricsOutput::MetricsOutput(boost::asio::io_context& loop, std::function<ClockLook()> look_at_clocks,
                             std::function<std::string()> tcp_address, Parts parts)
    : loop_(loop),
      look_at_clocks_(std::move(look_at_clocks)),
      tcp_address_(std::move(tcp_address)),
      parts_(parts),
      started_(look_at_clocks_().running) {}

void MetricsOutput::Apply(const MetricsSettings& metrics, const OtlpSettings& otlp, const ListenSettings& listen) {
  listens_as_ = listen.name;
  if (!(metrics == metrics_settings_)) {
    metrics_settings_ = metrics;
    ApplyMetrics();
  }
  if (otlp == otlp_settings_) return;
  otlp_settings_ = otlp;
  ApplyOtlp();
}

void MetricsOutput::ApplyMetrics() {
  drop_.reset();
  targets_file_.reset();
  DropLimits limits;
  limits.seconds_max = static_cast<double>(metrics_settings_.file_seconds);
  if (!metrics_settings_.directory.empty()) drop_.emplace(loop_, metrics_settings_.directory, limits);
  if (!metrics_settings_.targets_file.empty())
    targets_file_.emplace(loop_, metrics_settings_.targets_file, [this](const Status& status) {
      parts_.log->Write(LogLevel::kWarning,
                        "the file of targets is not up to date: " + status.message() + "; it is retried");
    });
}

void MetricsOutput::ApplyOtlp() {
  otlp_.reset();
  if (otlp_settings_.url.empty()) return;
  const Result<UpstreamAddress> address = ParseUpstream(otlp_settings_.url);
  if (!address.ok())
    return parts_.log->Write(LogLevel::kError, "otlp.url must be http://HOST:PORT; no metrics are sent");
  OtlpOptions options;
  options.address = address.value();
  options.headers_file = otlp_settings_.headers_file;
  options.seconds = static_cast<double>(otlp_settings_.seconds);
  options.on_trouble = [this](const std::string& why) {
    parts_.log->Write(LogLevel::kWarning, "cannot send metrics by OTLP: " + why + "; later ones are sent again");
  };
  otlp_.emplace(loop_, std::move(options));
}

void MetricsOutput::Tick(int64_t tick) {
  constexpr int64_t kTicksOfFiles = 5, kTicksOfTargets = 15;
  const ClockLook look = look_at_clocks_();
  if (drop_ && tick % kTicksOfFiles == 0) drop_->Look(look.wall);
  if (otlp_)
    otlp_->Tick(look.running, [&] { return OtlpBody(Families(), look.wall - (look.running - started_), look.wall); });
  if (!targets_file_ || tick % kTicksOfTargets != 0) return;
  Targets(/*with_own=*/true, /*with_jobs=*/true, [this](std::string json) {
    if (targets_file_) targets_file_->Write(std::move(json));
  });
}

std::vector<http::MetricFamily> MetricsOutput::Families() const {
  std::vector<http::MetricFamily> families = DaemonFamilies(parts_.counts());
  const auto add = [&](std::vector<http::MetricFamily> others) {
    families.insert(families.end(), std::make_move_iterator(others.begin()), std::make_move_iterator(others.end()));
  };
  RunPage page{parts_.observer->RunsOfLate(kEndedSecondsOnPage, kSilentSecondsOnPage), parts_.observer->t(), {}};
  add(parts_.machine->Families(page.runs));
  for (const StoredIncident& each : parts_.incidents->Open())
    page.incidents.push_back({each.incident.run, each.incident.kind, each.incident.severity});
  add(RunFamilies(std::move(page)));
  if (otlp_) {
    families.push_back({"stepwatchd_otlp_sent", "counter", "Requests that the collector accepted.", {}});
    families.back().Add(static_cast<double>(otlp_->sent()));
    families.push_back({"stepwatchd_otlp_failed", "counter", "Requests that the collector did not accept.", {}});
    families.back().Add(static_cast<double>(otlp_->failed()));
  }
  add(parts_.log_outputs());
  if (drop_) add(drop_->Families(look_at_clocks_().wall));
  return families;
}

void MetricsOutput::Page(http::MetricsFormat format, std::function<void(std::string page)> then) const {
  http::MetricsPage own(format);
  http::AddFamilies(Families(), &own);
  std::vector<ExpositionPage> files;
  if (drop_) drop_->AddPages(look_at_clocks_().wall, &files);
  parts_.jobs->FetchMetrics(
      [format, own = std::move(own).Begin(), files = std::move(files), then = std::move(then)](const JobPages& jobs) {
        std::vector<ExpositionPage> pages = jobs.pages;
        pages.insert(pages.end(), files.begin(), files.end());
        then(own + MergeExpositions(pages, jobs.missing, format) + std::string(http::MetricsPage::EndOf(format)));
      });
}

void MetricsOutput::Targets(bool with_own, bool with_jobs, std::function<void(std::string json)> then) const {
  const MachineNames names{base::ThisProcess().host, listens_as_};
  std::vector<ScrapeTarget> own;
  if (with_own) own = OwnTargets(tcp_address_(), names);
  const auto finish = [names, own = std::move(own), then = std::move(then)](const JobPages& status) {
    std::vector<ScrapeTarget> targets = own;
    for (ScrapeTarget& target : JobTargets(status, names)) targets.push_back(std::move(target));
    then(TargetsJson(targets));
  };
  if (with_jobs) return parts_.jobs->FetchStatus(finish);
  finish({});
}

}  // namespace stepwatch::operations
