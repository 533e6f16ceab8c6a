// A door of a job that is not there, in a directory of its own, and people who stand before it.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
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

#include "controller/door/client.h"
#include "controller/door/event_ring.h"
#include "controller/door/json_values.h"
#include "controller/door/server.h"
#include "controller/door/unix_address.h"
#include "src/base/file.h"
#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/temporary_directory.h"

namespace stepwatch::door {

using namespace std::chrono_literals;

using testing::Eventually;

class FakeJob final : public Job {
 public:
  JobStatus GetStatus() override {
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
    report.cpu_target = "scalar";
    report.cpu_available = {"scalar"};
    report.cuda_reason = "not asked for";
    return report;
  }
  Result<PlanPreview> Preview(const std::string& text) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!preview_) return Status(StatusCode::kUnavailable, "no model is attached");
    preview_->sha256 = text;
    return *preview_;
  }

  // Answers with `change_report`, at once or, while `holds_changes`, when Release is called.
  void ChangeConfig(ConfigChange change, std::function<void(const ChangeReport&)> then) override {
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
  std::vector<ConfigChange> Changes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return changes_;
  }
  void Release() {
    std::vector<std::function<void(const ChangeReport&)>> held;
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

  PauseResult Pause(bool pause, std::chrono::milliseconds) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    PauseResult result = pause_result;
    result.paused = pause;
    return result;
  }
  RotateResult Rotate(std::chrono::milliseconds) override { return rotate_result; }
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

  void SetStatus(const JobStatus& status) {
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
  // Set before anybody asks.
  std::function<BeatPage(uint64_t number, size_t count)> beats;
  std::function<PulseGrant()> pulse;
  std::atomic<bool> leads{true};
  std::atomic<bool> holds_ranks{false};
  // Set before the door opens.
  std::function<void(const std::string& request, std::function<void(Result<std::string>)> then)> forward;
  std::vector<LatestValue> gradients;  // before anybody asks
  std::atomic<size_t> sites_max{0};
  std::atomic<int> ticks{0};
  std::atomic<int> latest_asked{0};
  std::atomic<bool> holds_latest{false};
  // Set before anybody asks.
  ChangeReport change_report;
  std::atomic<bool> holds_changes{false};
  HistoryReport history;
  std::string kept_sha256, kept_text;
  // Set before anybody asks.
  PauseResult pause_result;
  RotateResult rotate_result;

 private:
  std::mutex mutex_;
  JobStatus status_;
  std::vector<ConfigChange> changes_;
  std::vector<std::function<void(const ChangeReport&)>> held_;
  std::optional<PlanPreview> preview_;
  Result<RankWords> words_ = RankWords{};
  std::vector<std::string> questions_;
};

// A server in a directory of its own.
struct OpenDoor {
  explicit OpenDoor(const std::function<void(ServerOptions*)>& change = {}) : job(std::make_shared<FakeJob>()) {
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
  ~OpenDoor() { job->holds_latest = false; }

  std::string Path() const {
    REQUIRE(Eventually([&] { return !server->path().empty(); }));
    return server->path();
  }
  Client client() const { return Client(Path()); }
  Json GetJson(const std::string& target) const {
    const Result<Reply> reply = client().Get(target);
    REQUIRE(reply.status().ToString() == "ok");
    const Result<Json> json = ParseJson(reply.value().body);
    REQUIRE(json.ok());
    return json.value();
  }
  // The door can bind its socket again in the midst of it, and then it is done once more.
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

// Somebody who says what he likes.
class Visitor {
 public:
  explicit Visitor(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto address = UnixAddress(path);
    REQUIRE(address);
    REQUIRE(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0);
  }
  // Over TCP, at "127.0.0.1:4711".
  struct Tcp {
    std::string address;
  };
  explicit Visitor(const Tcp& tcp) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(std::stoi(tcp.address.substr(tcp.address.rfind(':') + 1))));
    REQUIRE(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  // False: the other end has closed.
  bool Say(const std::string& text) {
    size_t said = 0;
    while (said < text.size()) {
      const ssize_t put = ::send(fd_.get(), text.data() + said, text.size() - said, MSG_NOSIGNAL);
      if (put < 0) return false;
      said += static_cast<size_t>(put);
    }
    return true;
  }
  int fd() const { return fd_.get(); }
  // Up to the end of what is said; whatever came if that takes too long.
  std::string HearAll() {
    std::string heard;
    char bytes[4096];
    for (;;) {
      pollfd waiting{fd_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 20000) <= 0) return heard + "(and then nothing for 20 s)";
      const ssize_t got = ::recv(fd_.get(), bytes, sizeof bytes, 0);
      if (got <= 0) return heard;
      heard.append(bytes, static_cast<size_t>(got));
    }
  }
  // Up to and with this text.
  std::string HearUntil(const std::string& end) {
    std::string heard;
    char byte = 0;
    while (heard.find(end) == std::string::npos) {
      pollfd waiting{fd_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 20000) <= 0) return heard + "(and then nothing for 20 s)";
      if (::recv(fd_.get(), &byte, 1, 0) != 1) return heard + "(and then the end)";
      heard += byte;
    }
    return heard;
  }

 private:
  base::UniqueFd fd_;
};

inline bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace stepwatch::door
