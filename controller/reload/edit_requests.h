// Requests about the config from the control socket and from other ranks: to change the file, to run bytes that it does
// not hold, to try bytes. Loop thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "controller/journal/edit_history.h"
#include "controller/reload/agreed_edits.h"
#include "controller/reload/config_file.h"
#include "controller/reload/edit_pipeline.h"
#include "controller/reload/ordered_edit.h"
#include "controller/reload/plan_controller.h"
#include "controller/reload/resampler.h"
#include "controller/reload/restart_guard.h"
#include "controller/status/requests.h"
#include "src/base/file_system.h"
#include "stepwatch/options.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::reload {

class EditRequests {
 public:
  using OnOrdered = std::function<void(const status::ChangeReport&)>;

  // All of them must outlive the requests.
  struct Dependencies {
    boost::asio::io_context* loop = nullptr;
    base::FileSystem* files = nullptr;
    PlanController* controller = nullptr;
    EditPipeline* pipeline = nullptr;
    AgreedEdits* edits = nullptr;
    ConfigFile* file = nullptr;
    RestartGuard* restart = nullptr;
    Resampler* resampler = nullptr;
    journal::EditHistory* history = nullptr;
  };

  EditRequests(const Options& options, const Dependencies& dependencies)
      : options_(options), parts_(dependencies), state_(dependencies.controller->state()) {}

  // Changes the config file as ordered, looks at it at once, and calls `then` with the result and the verdict of this
  // process, as far as it is known within a second. In dynamic mode. StopWatching discards `then`. Throws, without
  // effect, as FileQueue::Do does.
  void Order(const std::shared_ptr<const EditOrder>& order, OnOrdered then);
  // Applies the text of an override instead of the file's content until the file changes, or, if it returns, until its
  // window is complete. The file is not changed, also not at the window's end. `on_accepted` receives the hash of
  // usable bytes before any event reports them. kOverridden: they are applied like an edit of the file. kUnchanged:
  // they already run, or wait for their step.
  status::ChangeReport Override(const status::ConfigChange& change,
                                const std::function<void(const std::string& sha256)>& on_accepted = {});
  // Builds the plan of these bytes as if the file held them, and discards it.
  status::EditTrial Try(const std::string& text);
  // A verdict that is not known yet stays unknown.
  void Stop() { is_stopped_ = true; }

 private:
  void OrderOverride(const EditOrder& order, const OnOrdered& then);
  void TryOrder(const std::shared_ptr<const EditOrder>& order, OnOrdered then, int number);
  void OnOrderWritten(const EditOrder& order, const std::shared_ptr<status::ChangeReport>& report,
                      const OnOrdered& then);
  void AwaitVerdict(const std::shared_ptr<status::ChangeReport>& report, const OnOrdered& then,
                    const std::string& seen_before, std::chrono::steady_clock::time_point deadline);
  // The verdict on these bytes, which were put into the file when others had been seen last.
  status::Verdict VerdictOn(const std::string& sha256, const std::string& seen_before) const;

  const Options& options_;
  const Dependencies parts_;
  const MachineState& state_;
  bool is_stopped_ = false;
};

}  // namespace stepwatch::reload
