// A monitor without its threads: the reloader runs on the thread of the test, on a loop that the test turns by hand.
#pragma once

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/reload/reloader.h"
#include "src/testing/synthetic_model.h"
#include "tests/api/job.h"

namespace stepwatch::reload {

// Touches files at once, on the thread of the test, or when the test lets go.
class HandIo final : public base::IoExecutor {
 public:
  bool Post(std::function<void()> work) override {
    if (is_held_)
      held_.push_back(std::move(work));
    else
      work();
    return true;
  }
  void Hold() { is_held_ = true; }
  size_t held() const { return held_.size(); }
  void LetGo() {
    is_held_ = false;
    for (const auto& work : std::exchange(held_, {})) work();
  }

 private:
  bool is_held_ = false;
  std::vector<std::function<void()>> held_;
};

// There is no drain thread, so an armed plan stays armed until the test ends a step.
class Process {
 public:
  // `change`: of the options. `holds_output`: from the beginning, as if LetGo had to be waited for.
  explicit Process(const std::string& config, const std::function<void(Options*)>& change = {},
                   bool holds_output = false)
      : options_(OptionsIn(directory_, change)) {
    testing::WriteByRename(options_.config_path, config);
    events_.reserve(1000);
    if (holds_output) output_io.Hold();
    REQUIRE(reloader.Attach(model_.Sites()).status.ok());
    loop.poll();
  }
  ~Process() {
    reloader.StopWatching();
    plane.plans.Close();
  }

  void Save(const std::string& config) { testing::WriteByRename(options_.config_path, config); }
  void Refresh() {
    reloader.Refresh();
    loop.poll();
  }
  // An entry of the drain.
  void Post(drain::BoardEntry entry) {
    board_.Post(std::move(entry));
    reloader.OnBoard();
  }
  void Remove() { std::filesystem::remove(options_.config_path); }
  std::string Config() const { return testing::Contents(options_.config_path); }
  std::string Manifest() { return testing::Contents(reloader.journal().directory() + "/manifest.json"); }
  int64_t Count(EventKind kind) const {
    return std::count_if(events_.begin(), events_.end(), [&](const Event& event) { return event.kind == kind; });
  }

 private:
  static Options OptionsIn(const testing::TemporaryDirectory& directory, const std::function<void(Options*)>& change) {
    Options options;
    options.config_path = directory / "config.json";
    options.output_dir = directory / "out";
    options.dynamic = true;
    options.run_id = "0123456789abcdef";
    options.use_inotify = false;
    options.look_interval = std::chrono::hours(1);
    if (change) change(&options);
    return options;
  }

  testing::TemporaryDirectory directory_{testing::PlaceInMemory()};
  const Options options_;
  testing::SyntheticModel model_{2, 8, 1};
  std::vector<Event> events_;
  step::WakeUp wake_up_;
  drain::StatusBoard board_{[] {}};
  stats::Engine engine_{stats::EngineOptions{}};
  const std::unique_ptr<output::RunStorage> storage_ =
      output::RunStorage::Open({}, options_.output_dir, base::FileSystem::Real()).value();

 public:
  boost::asio::io_context loop;
  step::DataPlane plane{0, &engine_, &wake_up_};
  HandIo config_io;
  HandIo output_io;

 private:
  drain::Drain drain_{&board_, &engine_, &wake_up_, &plane.plans.begun_plans(), size_t{64} << 20};

 public:
  Reloader reloader{
      options_, true, {&loop, &plane, &drain_, &board_, &config_io, &output_io, storage_.get()}, [this](Event event) {
        events_.push_back(std::move(event));
      }};
};

}  // namespace stepwatch::reload
