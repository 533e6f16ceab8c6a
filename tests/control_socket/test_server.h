// A control socket of a job that does not exist, in a directory of its own.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "controller/control_socket/event_ring.h"
#include "controller/control_socket/server.h"
#include "src/base/file.h"
#include "src/http/client.h"
#include "src/json/json.h"
#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/has.h"
#include "tests/sockets/raw_client.h"
#include "tests/temporary_directory.h"

namespace stepwatch::control_socket {

using namespace std::chrono_literals;

using sockets::RawClient;
using testing::Eventually;

class FakeJob final : public Job {
 public:
  status::JobStatus GetStatus() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return status_;
  }
  EventPage EventsAfter(uint64_t id, size_t count) override { return events.After(id, count); }
  void Tick() override { ++ticks; }
  BeatPage BeatsAfter(uint64_t number, size_t count) override { return beats ? beats(number, count) : BeatPage(); }
  PulseGrant Pulse() override { return pulse ? pulse() : PulseGrant(); }
  std::vector<LatestValue> Latest(SiteKind kind, std::chrono::milliseconds) override {
    ++latest_asked;
    while (holds_latest) std::this_thread::sleep_for(1ms);
    return kind == SiteKind::kGradReduced ? gradients : std::vector<LatestValue>();
  }
  size_t metrics_sites_max() const override { return sites_max; }
  DoctorReport Examine() override {
    DoctorReport report;
    report.cpu.in_use = "scalar";
    report.cpu.available = {"scalar"};
    report.cuda.reason = "not asked for";
    return report;
  }
  Result<PlanPreview> Preview(const std::string& text) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!preview_) return Status(StatusCode::kUnavailable, "no model is attached");
    preview_->sha256 = text;
    return *preview_;
  }

  // Answers with `change_report`, at once or, while `holds_changes`, when Release is called.
  void ChangeConfig(status::ConfigChange change, std::function<void(const status::ChangeReport&)> then) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    changes_.push_back(std::move(change));
    if (holds_changes)
      held_.push_back(std::move(then));
    else
      then(change_report);
  }
  void ReadHistory(std::function<void(const HistoryReport&)> then) override { then(history); }
  void ReadConfig(const std::string& sha256, std::function<void(const Result<std::string>&)> then) override {
    then(sha256 == kept_sha256 ? Result<std::string>(kept_text)
                               : Result<std::string>(Status(StatusCode::kNotFound, "no such config is kept")));
  }
  std::vector<status::ConfigChange> Changes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return changes_;
  }
  void Release() {
    std::vector<std::function<void(const status::ChangeReport&)>> held;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      held.swap(held_);
    }
    for (const auto& then : held) then(change_report);
  }
  // The monitor ends before it has an answer.
  void Lose() {
    const std::lock_guard<std::mutex> lock(mutex_);
    held_.clear();
  }

  status::PauseResult Pause(bool pause, std::chrono::milliseconds) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    status::PauseResult result = pause_result;
    result.paused = pause;
    return result;
  }
  status::RotateResult Rotate(std::chrono::milliseconds) override { return rotate_result; }
  bool Leads() const override { return leads; }
  void AskRanks(const std::string& question, std::chrono::milliseconds,
                std::function<void(Result<RankWords>)> then) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    questions_.push_back(question);
    if (!holds_ranks) then(words_);
  }
  void Forward(const std::string& request, std::chrono::milliseconds, bool,
               std::function<void(Result<std::string>)> then) override {
    if (forward) forward(request, then);
  }

  void SetStatus(const status::JobStatus& status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    status_ = status;
  }
  void SetPreview(const PlanPreview& preview) {
    const std::lock_guard<std::mutex> lock(mutex_);
    preview_ = preview;
  }

  void SetWords(const Result<RankWords>& words) {
    const std::lock_guard<std::mutex> lock(mutex_);
    words_ = words;
  }
  std::vector<std::string> Questions() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return questions_;
  }

  EventRing events;
  // Set before the first request.
  std::function<BeatPage(uint64_t number, size_t count)> beats;
  std::function<PulseGrant()> pulse;
  std::atomic<bool> leads{true};
  std::atomic<bool> holds_ranks{false};
  // Set before the control socket opens.
  std::function<void(const std::string& request, std::function<void(Result<std::string>)> then)> forward;
  std::vector<LatestValue> gradients;  // set before the first request
  std::atomic<size_t> sites_max{0};
  std::atomic<int> ticks{0};
  std::atomic<int> latest_asked{0};
  std::atomic<bool> holds_latest{false};
  // Set before the first request.
  status::ChangeReport change_report;
  std::atomic<bool> holds_changes{false};
  HistoryReport history;
  std::string kept_sha256, kept_text;
  // Set before the first request.
  status::PauseResult pause_result;
  status::RotateResult rotate_result;

 private:
  std::mutex mutex_;
  status::JobStatus status_;
  std::vector<status::ConfigChange> changes_;
  std::vector<std::function<void(const status::ChangeReport&)>> held_;
  std::optional<PlanPreview> preview_;
  Result<RankWords> words_ = RankWords{};
  std::vector<std::string> questions_;
};

// A server in a directory of its own.
struct TestServer {
  explicit TestServer(const std::function<void(ServerOptions*)>& change = {}) : job(std::make_shared<FakeJob>()) {
    ServerOptions options;
    options.directories = {runtime};
    options.on_trouble = [this](const std::string& why) {
      const std::lock_guard<std::mutex> lock(mutex);
      troubles.push_back(why);
    };
    options.on_note = [this](const std::string& note) {
      const std::lock_guard<std::mutex> lock(mutex);
      notes.push_back(note);
    };
    options.limits.tick = 5ms;
    if (change) change(&options);
    server = std::make_unique<Server>(std::move(options), job);
    server->Start();
  }
  ~TestServer() { job->holds_latest = false; }

  std::string Path() const {
    REQUIRE(Eventually([&] { return !server->path().empty(); }));
    return server->path();
  }
  http::Client client() const { return http::Client(Path()); }
  Json GetJson(const std::string& target) const {
    const Result<http::Reply> reply = client().Get(target);
    REQUIRE(reply.status().ToString() == "ok");
    const Result<Json> json = json::Parse(reply.value().body);
    REQUIRE(json.ok());
    return json.value();
  }
  // The control socket can bind its socket again in the midst of it, and then it is done once more.
  bool RemoveRuntime() const {
    return Eventually([&] {
      std::error_code error;
      std::filesystem::remove_all(runtime, error);
      return !error;
    });
  }
  std::vector<std::string> Troubles() {
    const std::lock_guard<std::mutex> lock(mutex);
    return troubles;
  }

  std::vector<std::string> Notes() {
    const std::lock_guard<std::mutex> lock(mutex);
    return notes;
  }

  testing::TemporaryDirectory directory;
  const std::string runtime = directory / "run";
  std::mutex mutex;
  std::vector<std::string> troubles, notes;
  std::shared_ptr<FakeJob> job;
  std::unique_ptr<Server> server;
};

using testing::Has;

}  // namespace stepwatch::control_socket
