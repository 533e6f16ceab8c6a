#include "controller/control_socket/beat_log.h"

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/json/json.h"
#include "tests/catch.h"

namespace stepwatch::control_socket {
namespace {

using step::PulseWriter;
using vocabulary::PulsePage;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Reports {
  Reports() {
    PulseWriter::Setup setup;
    setup.run_id = "run-1";
    REQUIRE(writer.Open(setup).ok());
  }
  void EndStep(int64_t step, double seconds = 0) {
    now += std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
    writer.EndStep(step, now);
  }
  void Enter(StepPart part, double seconds) {
    now += std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
    (void)writer.EnterPart(part, now);
  }
  void Report(const char* name, double value, int64_t step = kStepInProgress) {
    const ReportedNumber number{name, value};
    writer.Report(&number, 1, step);
  }
  std::vector<Json> All(uint64_t since = 0) {
    std::vector<Json> lines;
    page = log.After(since, 100000);
    for (const std::string& line : page.lines) lines.push_back(json::Parse(line).value());
    return lines;
  }
  // Beats, or events, alone.
  std::vector<Json> Only(const char* member) {
    std::vector<Json> found;
    for (const Json& line : All())
      if (line.contains(member)) found.push_back(line[member]);
    return found;
  }

  PulseWriter writer{0};
  BeatLog log{{"run-1", "host-1", 3, 8}, &writer};
  PulseWriter::Clock::time_point now = PulseWriter::Clock::now();
  BeatPage page;
};

TEST_CASE("the beats of a process begin with the event that it has started") {
  Reports reports;
  const std::vector<Json> lines = reports.All();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0]["run"] == "run-1");
  CHECK(lines[0]["rank"] == 3);
  CHECK(lines[0]["t"].get<double>() > 1.6e9);
  CHECK(lines[0]["event"] == Json({{"kind", "start"}, {"world", 8}, {"host", "host-1"}}));
  CHECK(reports.page.next == 1);
  CHECK(reports.page.newest == 1);
}

TEST_CASE("a step whose data and update are known is divided into its parts") {
  Reports reports;
  reports.EndStep(0);
  reports.Enter(StepPart::kData, 0.25);
  reports.Enter(StepPart::kRest, 0.5);
  reports.Enter(StepPart::kOptimizer, 1);
  reports.Enter(StepPart::kRest, 0.125);
  reports.EndStep(1, 0.125);
  reports.Enter(StepPart::kOptimizer, 1);
  reports.Enter(StepPart::kRest, 0.5);
  reports.EndStep(2);
  const std::vector<Json> beats = reports.Only("beat");
  REQUIRE(beats.size() == 4);
  CHECK(beats[2]["step_seconds"] == 2.0);
  CHECK(beats[2]["data_seconds"] == 0.5);
  CHECK(beats[2]["optimizer_seconds"] == 0.125);
  CHECK(beats[2]["compute_seconds"] == 1.375);
  CHECK(beats[3]["optimizer_seconds"] == 0.5);
  CHECK_FALSE(beats[3].contains("data_seconds"));
  CHECK_FALSE(beats[3].contains("compute_seconds"));
}

TEST_CASE("forward, backward and communication are parts of the rest") {
  Reports reports;
  reports.EndStep(0);
  reports.Enter(StepPart::kForward, 0.5);
  reports.Enter(StepPart::kCommunication, 0.25);
  reports.Enter(StepPart::kBackward, 0.125);
  reports.Enter(StepPart::kRest, 1);
  reports.EndStep(1, 0.5);
  const Json beat = reports.Only("beat").back();
  CHECK(beat["step_seconds"] == 2.375);
  CHECK(beat["forward_seconds"] == 0.25);
  CHECK(beat["communication_seconds"] == 0.125);
  CHECK(beat["backward_seconds"] == 1.0);
}

TEST_CASE("a part that a device has measured comes after the end of its step, unless the program reports it") {
  Reports reports;
  const auto measured = [&](int64_t step) {
    const std::array<ReportedNumber, 2> numbers{{{"forward_seconds", 0.5}, {"backward_seconds", 0.75}}};
    reports.writer.ReportMeasured(numbers.data(), numbers.size(), step);
  };
  reports.EndStep(0);
  reports.EndStep(1, 1);
  measured(0);
  CHECK(reports.Only("beat").back() ==
        Json({{"step", 0}, {"phase", "train"}, {"forward_seconds", 0.5}, {"backward_seconds", 0.75}}));
  reports.Report("forward_seconds", 0.25);
  reports.EndStep(2, 1);
  measured(1);
  CHECK(reports.Only("beat").back() == Json({{"step", 1}, {"phase", "train"}, {"backward_seconds", 0.75}}));
}

TEST_CASE("the parts of a step whose duration is unknown are absent") {
  Reports reports;
  reports.Enter(StepPart::kOptimizer, 1);
  reports.Enter(StepPart::kRest, 1);
  reports.EndStep(0);
  reports.Enter(StepPart::kOptimizer, 1);
  reports.Enter(StepPart::kRest, 1);
  reports.EndStep(5);
  for (const Json& beat : reports.Only("beat")) CHECK_FALSE(beat.contains("optimizer_seconds"));
}

TEST_CASE("a part that the program reports itself holds, and the rest is unknown then") {
  Reports reports;
  reports.EndStep(0);
  reports.Enter(StepPart::kData, 0);
  reports.Enter(StepPart::kOptimizer, 1);
  reports.Enter(StepPart::kRest, 1);
  reports.Report("data_seconds", 0.75);
  reports.EndStep(1, 1);
  const Json beat = reports.Only("beat").back();
  CHECK(beat["data_seconds"] == 0.75);
  CHECK(beat["optimizer_seconds"] == 1.0);
  CHECK_FALSE(beat.contains("compute_seconds"));
}

TEST_CASE("the time of checkpoints is a part of its own, outside the time of the step") {
  Reports reports;
  reports.EndStep(0);
  (void)reports.writer.SetPhase({Phase::kCheckpoint, 0});
  (void)reports.writer.SetPhase({Phase::kTrain, 0});
  reports.EndStep(1, 1);
  reports.EndStep(2, 1);
  const std::vector<Json> beats = reports.Only("beat");
  const Json& saved = beats[beats.size() - 2];
  CHECK(saved["step"] == 1);
  CHECK(saved["checkpoint_seconds"].get<double>() >= 0);
  CHECK(saved["checkpoint_seconds"].get<double>() + saved["step_seconds"].get<double>() <= 1 + 1e-9);
  CHECK_FALSE(beats.back().contains("checkpoint_seconds"));
}

TEST_CASE("the end of a step is a beat with the numbers that were reported in it") {
  Reports reports;
  reports.EndStep(0);
  reports.Report("loss", 2.5);
  reports.Report("lr", 1e-4);
  reports.Report("loss", 2.25);
  reports.EndStep(1, 0.5);
  const std::vector<Json> beats = reports.Only("beat");
  REQUIRE(beats.size() == 3);
  CHECK(beats[0] == Json({{"step", 0}, {"phase", "train"}}));
  CHECK(beats[1] == Json({{"step", 0}, {"phase", "train"}}));
  CHECK(beats[2] == Json({{"step", 1}, {"phase", "train"}, {"step_seconds", 0.5}, {"loss", 2.25}, {"lr", 1e-4}}));
}

TEST_CASE("numbers that come after their step, or before it, belong to that step") {
  Reports reports;
  reports.EndStep(0);
  reports.EndStep(1, 1);
  const ReportedNumber late[] = {{"loss", 3}, {"grad_norm", 1}};
  reports.writer.Report(late, 2, 0);
  reports.Report("loss", 5, 3);
  reports.EndStep(2, 1);
  reports.EndStep(3, 1);
  const std::vector<Json> beats = reports.Only("beat");
  REQUIRE(beats.size() == 6);
  CHECK(beats[3] == Json({{"step", 0}, {"phase", "train"}, {"loss", 3.0}, {"grad_norm", 1.0}}));
  CHECK(beats[4]["step"] == 2);
  CHECK_FALSE(beats[4].contains("loss"));
  CHECK(beats[5]["step"] == 3);
  CHECK(beats[5]["loss"] == 5.0);
}

TEST_CASE("NaN and infinities are written as words") {
  Reports reports;
  reports.Report("loss", kNan);
  reports.Report("a", kInf);
  reports.Report("b", -kInf);
  reports.EndStep(0);
  const Json beat = reports.Only("beat").back();
  CHECK(beat["loss"] == "nan");
  CHECK(beat["a"] == "inf");
  CHECK(beat["b"] == "-inf");
}

TEST_CASE("a step's own time is without the phases in it, and a reported one holds") {
  Reports reports;
  reports.EndStep(0);
  reports.EndStep(1, 2);
  reports.Report("step_seconds", 0.25);
  reports.EndStep(2, 2);
  const std::vector<Json> beats = reports.Only("beat");
  CHECK(beats[2]["step_seconds"] == 2.0);
  CHECK(beats[3]["step_seconds"] == 0.25);
}

TEST_CASE("an evaluation in the middle of a step is none of the step's own time") {
  Reports reports;
  const auto first = PulseWriter::Clock::now();
  reports.writer.EndStep(0, first);
  (void)reports.writer.SetPhase({Phase::kEval, 0});
  const auto begun = PulseWriter::Clock::now();
  while (PulseWriter::Clock::now() < begun + std::chrono::milliseconds(20)) {
  }
  (void)reports.writer.SetPhase({Phase::kTrain, 0});
  const auto trains = PulseWriter::Clock::now();
  reports.writer.EndStep(1, trains + std::chrono::seconds(10));
  const double own = reports.Only("beat").back()["step_seconds"];
  CHECK(own >= 10);
  CHECK(own < 10 + std::chrono::duration<double>(trains - first).count() - 0.0199);
}

TEST_CASE("a pause is an event with its expiry, and so is its end") {
  Reports reports;
  reports.EndStep(0);
  const auto ms = [](auto time) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  };
  (void)reports.writer.SetPhase({Phase::kPaused, ms(PulseWriter::Clock::now()) + 60000});
  (void)reports.writer.SetPhase({Phase::kEval, 0});
  const std::vector<Json> events = reports.Only("event");
  REQUIRE(events.size() == 3);
  CHECK(events[1]["kind"] == "pause");
  CHECK(events[1]["expires_seconds"].get<double>() > 0);
  CHECK(events[1]["expires_seconds"].get<double>() <= 60);
  CHECK(events[2] == Json({{"kind", "resume"}}));
  CHECK(reports.Only("beat").back() == Json({{"step", 0}, {"phase", "eval"}}));
}

TEST_CASE("signals and checkpoints are events") {
  Reports reports;
  reports.writer.ReportSignal(15);
  reports.writer.ReportCheckpoint(40);
  const std::vector<Json> events = reports.Only("event");
  REQUIRE(events.size() == 3);
  CHECK(events[1] == Json({{"kind", "signal"}, {"number", 15}}));
  CHECK(events[2] == Json({{"kind", "checkpoint"}, {"step", 40}}));
}

TEST_CASE("an exception and the end are events, and lie in the pulse for when the process is gone") {
  Reports reports;
  reports.EndStep(0);
  reports.log.Note(ExceptionReport{"ValueError", "bad \"value\"", "File a\nFile b", "f00d", true});
  reports.log.NoteEnd(RunEnd::kError);
  reports.log.NoteEnd(RunEnd::kOk);  // too late
  const std::vector<Json> lines = reports.All();
  const std::vector<Json> events = reports.Only("event");
  REQUIRE(events.size() == 3);
  CHECK(events[1] == Json({{"kind", "exception"},
                           {"type", "ValueError"},
                           {"message", "bad \"value\""},
                           {"fingerprint", "f00d"},
                           {"step", 0},
                           {"stack", "File a\nFile b"}}));
  CHECK(events[2] == Json({{"kind", "end"}, {"reason", "error"}}));
  const auto mapped = base::MapSealed(reports.writer.page_fd(), sizeof(PulsePage), vocabulary::kPulseBytesMax);
  REQUIRE(mapped.ok());
  const auto words = vocabulary::ReadLastWords(*static_cast<const PulsePage*>(mapped.value().data()));
  REQUIRE(words.size() == 2);
  CHECK(json::Parse(words[0].line).value() == lines[lines.size() - 2]);
  CHECK(json::Parse(words[1].line).value() == lines.back());
  CHECK(words[1].number == reports.page.newest);
}

TEST_CASE("an exception of any size keeps the end of its stack, and leaves room for the word of the end") {
  Reports reports;
  const std::string stack = std::string(100000, '"') + "the innermost frame";
  for (int i = 0; i < 5; ++i) reports.log.Note({std::string(5000, 'T'), std::string(50000, '\xfe'), stack, "", false});
  reports.log.NoteEnd(RunEnd::kSignal);
  const std::vector<Json> events = reports.Only("event");
  REQUIRE(events.size() == 7);
  CHECK(events[1]["stack"].get<std::string>().ends_with("the innermost frame"));
  const auto mapped = base::MapSealed(reports.writer.page_fd(), sizeof(PulsePage), vocabulary::kPulseBytesMax);
  const auto words = vocabulary::ReadLastWords(*static_cast<const PulsePage*>(mapped.value().data()));
  REQUIRE(words.size() >= 2);
  CHECK(json::Parse(words.front().line).ok());
  CHECK(json::Parse(words.back().line).value()["event"]["reason"] == "signal");
}

TEST_CASE("a reader that comes again receives new lines, and the number of lost ones") {
  Reports reports;
  for (int64_t step = 0; step < 10; ++step) reports.EndStep(step, 0.1);
  const BeatPage first = reports.log.After(0, 4);
  CHECK(first.lines.size() == 4);
  CHECK(first.next == 4);
  CHECK(first.lost == 0);
  const BeatPage second = reports.log.After(first.next, 1000);
  CHECK(second.lines.size() == second.newest - 4);
  CHECK(reports.log.After(second.next, 1000).lines.empty());
  CHECK(reports.log.After(second.next, 1000).next == second.next);
  for (int round = 0; round < 20; ++round) {
    for (int64_t step = 0; step < 1000; ++step) reports.EndStep(10 + round * 1000 + step, 0.1);
    reports.log.Take();
  }
  const BeatPage late = reports.log.After(second.next, 100000);
  CHECK(late.lines.size() == BeatLog::kLinesMax);
  CHECK(late.lost == 20000 - BeatLog::kLinesMax);
  CHECK(late.dropped == 0);
  // The number of another process, which had this socket before.
  CHECK(reports.log.After(1000000, 5).lines.size() == 5);
}

TEST_CASE("the lines have the run id that is known when they are read") {
  Reports reports;
  reports.log.SetRunId("run-of-rank-0");
  CHECK(reports.All()[0]["run"] == "run-of-rank-0");
  CHECK(reports.page.run_id == "run-of-rank-0");
}

TEST_CASE("numbers of steps that never come, and too many of one step, are counted and not kept") {
  Reports reports;
  for (int i = 0; i < 300; ++i) reports.Report(("n" + std::to_string(i)).c_str(), i);
  for (int64_t step = 0; step < 400; ++step) reports.Report("x", 1, 1000 + step);
  reports.EndStep(0);
  (void)reports.All();
  CHECK(reports.page.dropped == 300 - 256 + 400 - 255);
  reports.EndStep(5000);
  (void)reports.All();
  CHECK(reports.page.dropped == 300 - 256 + 400);
}

}  // namespace
}  // namespace stepwatch::control_socket
