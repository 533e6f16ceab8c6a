#include "operations/log_intake/sent_logs.h"

#include "src/base/file.h"
#include "src/base/process_identity.h"

namespace stepwatch::operations {

void SentLogs::StartReader() {
  ras_.reset();
  kernel_.reset();
  journal_.reset();
  syslog_.reset();
  http_.reset();
  if (reader_) reader_->Stop();
  SentLineReaderOptions options;
  options.recogniser = options_.recogniser;
  options.wall = options_.wall;
  options.paths = settings_->paths;
  options.take = options_.take;
  options.processes = options_.processes;
  options.reports_xids = options_.reports_xids;
  reader_ = std::make_unique<SentLineReader>(loop_, std::move(options));
  http_ = std::make_unique<HttpLogs>(reader_.get());
}

void SentLogs::Apply(const SentLogSettings& settings) {
  if (settings_ == settings) return;
  const bool is_new = !settings_ || settings_->paths != settings.paths;
  const SentLogSettings before = settings_.value_or(SentLogSettings());
  settings_ = settings;
  if (is_new) StartReader();
  if (is_new || settings.syslog != before.syslog) {
    syslog_.reset();
    if (!settings.syslog.empty())
      syslog_ = std::make_unique<SyslogServer>(
          loop_, SyslogServer::Options{.address = settings.syslog, .log = options_.log}, reader_.get());
  }
  if (is_new || settings.journal != before.journal || settings.journal_directory != before.journal_directory) {
    journal_.reset();
    if (!settings.journal.empty()) {
      JournalReader::Options journal;
      journal.journal.matches = settings.journal;
      journal.journal.directory = settings.journal_directory;
      journal.journal.host = base::ThisProcess().host;
      journal.cursor_file = base::JoinPath(options_.state_directory, "log_journal");
      journal.log = options_.log;
      journal_ = std::make_unique<JournalReader>(loop_, std::move(journal), reader_.get());
    }
  }
  if (is_new || settings.kmsg != before.kmsg) {
    kernel_.reset();
    if (settings.kmsg)
      kernel_ = std::make_unique<KernelLogReader>(
          loop_,
          KernelLogReader::Options{.position_file = base::JoinPath(options_.state_directory, "log_kernel"),
                                   .wall = options_.wall,
                                   .log = options_.log},
          reader_.get());
  }
  if (is_new || settings.nccl_ras != before.nccl_ras)
    ras_ = std::make_unique<NcclRas>(
        loop_, NcclRas::Options{.address = settings.nccl_ras, .report = options_.report_ras, .log = options_.log});
}

void SentLogs::Tick(double running) {
  if (!settings_) return;
  reader_->Tick();
  if (syslog_) syslog_->Tick(running);
  if (journal_) journal_->Tick();
  if (kernel_) kernel_->Tick();
}

void SentLogs::Stop() {
  settings_.reset();
  ras_.reset();
  kernel_.reset();
  journal_.reset();
  syslog_.reset();
  if (reader_) reader_->Stop();
}

bool SentLogs::Take(Post post, http::OnAnswer then) {
  return http_ && http_->Take(std::move(post), std::move(then));
}

void SentLogs::OnStuck(const std::string& run) {
  if (ras_) ras_->Ask(run);
}

std::vector<http::MetricFamily> SentLogs::Families() const {
  if (!reader_) return {};
  std::vector<http::MetricFamily> families;
  const auto add = [&families](const char* name, const char* type, const char* help, int64_t value) {
    http::MetricFamily family{name, type, help, {}};
    family.Add(static_cast<double>(value), {});
    families.push_back(std::move(family));
  };
  add("stepwatchd_logs_sent_lines", "counter", "Lines that agents, the journal and the kernel sent.", reader_->lines());
  add("stepwatchd_logs_repeated_lines", "counter", "Of these, lines that came before and were dropped.",
      reader_->repeated());
  add("stepwatchd_logs_refused_lines", "counter", "Lines of requests that are unusable.", http_->refused());
  if (syslog_) {
    const SyslogCounts counts = syslog_->counts();
    add("stepwatchd_logs_syslog_connections", "gauge", "Connections of senders of syslog.", counts.connections);
    add("stepwatchd_logs_syslog_refused", "counter", "Connections of senders of syslog beyond the limit.",
        counts.refused);
    add("stepwatchd_logs_syslog_broken", "counter", "Connections that sent no syslog, or stopped inside a message.",
        counts.broken);
    add("stepwatchd_logs_syslog_lost_lines", "counter", "Lines of syslog for which there was no room.",
        counts.lines_lost);
  }
  if (kernel_)
    add("stepwatchd_logs_kernel_overruns", "counter", "Times that the kernel overwrote records before they were read.",
        kernel_->overruns());
  return families;
}

}  // namespace stepwatch::operations
