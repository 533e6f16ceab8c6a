#include "controller/cli/incidents_watch.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "controller/cli/incident_text.h"
#include "controller/cli/print_answer.h"
#include "controller/cli/read_json.h"
#include "controller/cli/stop_on_signals.h"
#include "src/base/print.h"
#include "src/http/answers.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

constexpr int kRetryMilliseconds = 250;

class IncidentsWatch {
 public:
  IncidentsWatch(const StepwatchdClient& client, std::string run, bool as_json)
      : client_(client), run_(std::move(run)), as_json_(as_json) {}

  int Run() {
    const StopOnSignals signals;
    if (const Status begun = Begin(); !begun.ok()) return FailOperations(begun, as_json_);
    while (Goes()) {
      const Status followed = client_.server().Follow(
          last_, [this](const std::string& name, const std::string& data) { return OnEvent(name, data); },
          [this] { return Goes(); });
      if (Goes()) AwaitAnswer(followed);
    }
    return kExitDone;
  }

 private:
  bool Goes() const { return interrupted == 0 && is_read_ && !OutputIsClosed(); }

  // What is open now, and the number of the change from which to follow.
  Status Begin() {
    const Result<Json> answer = client_.Get("/v1/incidents?limit=2000");
    if (!answer.ok()) return answer.status();
    last_ = Count(answer.value(), "number");
    const Json& list = List(answer.value(), "incidents");
    std::vector<Json> open(list.begin(), list.end());
    std::reverse(open.begin(), open.end());  // the one that changed last comes last
    for (const Json& incident : open) {
      Json told = {{"version", http::kAnswerVersion}};
      if (incident.is_object()) told.update(incident);
      told["change"] = "open";
      Tell("open", told);
    }
    return Status();
  }

  void Tell(const std::string& change, const Json& incident) {
    if (!run_.empty() && RawText(incident, "run") != run_) return;
    is_read_ = is_read_ && PrintAtOnce((as_json_ ? json::Dump(incident) : ChangeLine(change, incident)) + "\n");
  }

  void TellGap() {
    is_read_ =
        is_read_ && PrintAtOnce(as_json_ ? "{\"version\":1,\"change\":\"gap\"}\n"
                                         : "gap: stepwatchd no longer keeps some changes; `stepwatch incidents --all` "
                                           "shows the present state\n");
  }

  bool OnEvent(const std::string& name, const std::string& data) {
    const Result<Json> event = json::Parse(data);
    if (!event.ok() || !event.value().is_object()) return false;  // the stream begins anew after a pause
    if (name == "gap") {
      TellGap();
      return Goes();
    }
    last_ = std::max(last_, Count(event.value(), "number"));
    Tell(name, event.value());
    return Goes();
  }

  // Until it answers again, which may be another process with another store.
  void AwaitAnswer(const Status& why) {
    base::Print(stderr, "note: stepwatchd ended the stream%s%s; reconnecting\n", why.ok() ? "" : ": ",
                why.ok() ? "" : why.message().c_str());
    while (Goes()) {
      const Result<Json> answer = client_.Get("/v1/incidents?limit=1");
      if (!answer.ok()) {
        (void)::poll(nullptr, 0, kRetryMilliseconds);
        continue;
      }
      base::Print(stderr, "note: reconnected to stepwatchd\n");
      if (Count(answer.value(), "number") >= last_) return;
      TellGap();
      last_ = 0;
      return;
    }
  }

  const StepwatchdClient& client_;
  const std::string run_;
  const bool as_json_;
  uint64_t last_ = 0;
  bool is_read_ = true;
};

}  // namespace

int WatchIncidents(const StepwatchdClient& client, const std::string& run, bool as_json) {
  return IncidentsWatch(client, run, as_json).Run();
}

}  // namespace stepwatch::cli
