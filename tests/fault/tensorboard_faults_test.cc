// Each system call of the TensorBoard sink fails once, with each errno: after one retry the file holds the scalars of a
// run without faults, each once.
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "src/base/file.h"
#include "src/sinks/sink_makers.h"
#include "tests/catch.h"
#include "tests/fault/faulty_files.h"
#include "tests/sinks/event_reader.h"

namespace stepwatch::sinks {
namespace {

using namespace test;

struct EventOutcome {
  std::string points;
  Journal journal;
  std::string trouble;
};

EventOutcome RunEventScenario(const Fault& fault) {
  TemporaryDirectory base;
  EventOutcome outcome;
  RecordLayout layout = Layout({Site(SiteKind::kParamOrigin, "w", 0), Site(SiteKind::kParamUpdated, "w", 0)});
  {
    FaultyFiles faulty(fault, &outcome.journal);
    const auto sink = MakeTensorBoardSink({base / "run", 0, [] { return 1.0; }, faulty});
    for (int64_t step = 0; step < 4; ++step) {
      const Frame frame(step, {NormRecord(0, 1), NormRecord(1, 0.25)});
      WriteResult result = sink->Write(layout, frame.view);
      if (!result.status.ok()) {
        if (result.status.message().empty() || result.written != 0) outcome.trouble += "a bad answer; ";
        result = sink->Write(layout, frame.view);
      }
      if (result.written != 2) outcome.trouble += result.status.message() + "; ";
    }
    sink->EndPlan(layout);
  }
  for (const std::string& file : EventFiles(base / "run")) outcome.points += PointsText(ReadPoints(file));
  return outcome;
}

void CheckEveryEventCall(Fault fault, const std::string& concerns) {
  const EventOutcome clean = RunEventScenario(Fault());
  REQUIRE(clean.trouble.empty());
  REQUIRE(clean.journal.calls.size() > 8);
  for (size_t at = 0; at < clean.journal.calls.size(); ++at) {
    if (!concerns.empty() && clean.journal.calls[at] != concerns) continue;
    fault.at = static_cast<int>(at) + (fault.half_written ? 1 : 0);
    const EventOutcome outcome = RunEventScenario(fault);
    INFO("call " << at << " (" << clean.journal.calls[at] << "), errno " << fault.error_number);
    CHECK(outcome.trouble == "");
    CHECK(outcome.points == clean.points);
  }
}

TEST_CASE("after one failed call and one retry every scalar is in the event file once") {
  for (int error_number : {EIO, ENOSPC, EDQUOT, EFBIG, EINTR, EAGAIN, EACCES, EPERM, ENOENT, EEXIST, EMFILE, EROFS}) {
    Fault fault;
    fault.error_number = error_number;
    CheckEveryEventCall(fault, "");
  }
}

TEST_CASE("half a write of events and then a full disk leave no trace after the retry") {
  for (int failures : {1, 2}) {  // two: the call that cuts the file back fails as well
    Fault fault;
    fault.error_number = ENOSPC;
    fault.half_written = true;
    fault.failures = failures;
    CheckEveryEventCall(fault, "write");
  }
}

}  // namespace
}  // namespace stepwatch::sinks
