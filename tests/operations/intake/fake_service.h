// A service that takes what comes, and knows nothing but its incidents.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operations/intake/service.h"

namespace stepwatch::operations {

class FakeService final : public Service {
 public:
  void Later(std::function<void()> work) override {
    ++laters;
    work();
  }
  double t() const override { return now; }
  void Take(std::vector<Line> lines, std::function<void()> then) override {
    taken += static_cast<int64_t>(lines.size());
    then();
  }
  bool IsBehind() const override { return is_behind; }
  void CountRefused(int64_t lines) override { refused += lines; }
  std::vector<RunSnapshot> Runs() const override { return {}; }
  std::optional<RunSnapshot> Run(std::string_view) const override { return run; }
  std::vector<std::string> RunsOfStore() const override { return {}; }
  std::optional<std::string> RunOfStore(std::string_view) const override { return std::nullopt; }
  void SeriesNames(const std::string&, std::function<void(std::vector<std::string>)> then) override { then({}); }
  void SeriesOf(const std::string&, const std::string&, std::function<void(std::vector<SeriesPoint>)> then) override {
    then({});
  }
  IncidentRegistry& incidents() override { return incidents_; }
  void ChangesOf(const std::string&, std::function<void(std::vector<StoredChange>)> then) override { then({}); }
  bool Acknowledge(const std::string& id, const Acknowledgement& acknowledgement, std::function<void()> then) override {
    if (!incidents_.Acknowledge(id, acknowledgement)) return false;
    then();
    return true;
  }
  bool AddSilence(const Silence& silence, std::function<void()> then) override {
    const bool is_added = incidents_.Add(silence);
    if (is_added) then();
    return is_added;
  }
  bool RemoveSilence(const std::string& id, std::function<void()> then) override {
    const bool is_removed = incidents_.RemoveSilence(id);
    if (is_removed) then();
    return is_removed;
  }
  void Targets(bool with_own, bool with_jobs, std::function<void(std::string json)> then) override {
    then(std::string(with_own ? "own" : "") + (with_jobs ? "jobs" : ""));
  }
  void Metrics(http::MetricsFormat format, std::function<void(std::string page)> then) override {
    http::MetricsPage page(format);
    http::AddFamilies(DaemonFamilies({}), &page);
    then(std::move(page).Finish());
  }
  Status Ready() const override { return ready; }
  Deliveries* deliveries() override { return messages; }
  const LogEvents* log_events() const override { return &events; }
  std::vector<LogFile> LogFilesOf(const std::string& of) const override {
    return of == "logged" ? log_files : std::vector<LogFile>();
  }

  std::optional<RunSnapshot> run;
  double now = 1000;
  Status ready;
  Deliveries* messages = nullptr;
  LogEvents events;
  std::vector<LogFile> log_files;  // of the run "logged"
  bool is_behind = false;
  int64_t taken = 0;
  int64_t refused = 0;
  int64_t laters = 0;  // pieces of long work

 private:
  IncidentRegistry incidents_;
};

}  // namespace stepwatch::operations
