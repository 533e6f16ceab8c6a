#include "operations/discovery/job_reporter.h"

#include "operations/trace/write_line.h"
#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

using Lines = JobReporter::Lines;

Line StartLine(double t, int64_t world = 1) {
  return {t, "r1", 0, Event(StartEvent{world, "h1"})};
}
Line BeatLine(double t, int64_t step) {
  Beat beat;
  beat.step = step;
  beat.phase = RunPhase::kTrain;
  return {t, "r1", 0, beat};
}
BeatAnswer Page(std::vector<Line> lines, uint64_t next, const std::string& run = "r1") {
  BeatAnswer answer;
  answer.run = run;
  for (Line& line : lines) line.run = run;
  answer.lines = std::move(lines);
  answer.next = answer.newest = next;
  return answer;
}
PulseLook Look(std::optional<int64_t> step, const std::string& run = "r1") {
  PulseLook look;
  look.run = run;
  look.step = step;
  look.phase = step ? RunPhase::kTrain : RunPhase::kInit;
  return look;
}
std::vector<std::string> Kinds(const Lines& lines) {
  std::vector<std::string> kinds;
  for (const Line& line : lines) {
    const auto* beat = std::get_if<Beat>(&line.what);
    kinds.push_back(beat != nullptr ? "beat " + (beat->step ? std::to_string(*beat->step) : "none")
                                    : std::string(KindOf(line)));
  }
  return kinds;
}
using Texts = std::vector<std::string>;

struct Asked {
  JobReporter reporter{"h1", 100};
  Lines lines;

  void Answer(const BeatAnswer& answer, double now) {
    reporter.OnAsked(now);
    reporter.OnBeats(answer, now, &lines);
  }
  Texts Take() {
    const Texts kinds = Kinds(lines);
    lines.clear();
    return kinds;
  }
};

TEST_CASE("beats are reported as the control socket serves them, and the next request goes on from there") {
  Asked job;
  job.Answer(Page({StartLine(99), BeatLine(100, 1)}, 2), 101);
  CHECK(job.Take() == Texts{"start", "beat 1"});
  CHECK(job.reporter.since() == 2);
  job.Answer(Page({BeatLine(101, 2)}, 3), 102);
  CHECK(job.Take() == Texts{"beat 2"});
  CHECK(job.reporter.since() == 3);
}

TEST_CASE("a beat from the future is one of now") {
  Asked job;
  job.Answer(Page({StartLine(99), BeatLine(5000, 1)}, 2), 101);
  CHECK(job.lines[1].t == 101);
}

TEST_CASE("a run whose beginning is not kept any more begins all the same") {
  Asked job;
  BeatAnswer answer = Page({BeatLine(100, 700)}, 900);
  answer.lost = 899;
  job.Answer(answer, 101);
  CHECK(job.Take() == Texts{"start", "beat 700"});
  CHECK(job.reporter.lines_lost() == 899);
}

TEST_CASE("a pulse does not overtake the beats of a control socket that answers") {
  Asked job;
  job.Answer(Page({StartLine(99), BeatLine(100, 1)}, 2), 101);
  job.Take();
  job.reporter.OnPulse(Look(5), 101.25, &job.lines);
  job.reporter.OnPulse(Look(9), 101.5, &job.lines);
  CHECK(job.Take().empty());
  job.Answer(Page({BeatLine(101.1, 5), BeatLine(101.4, 9)}, 4), 102);
  CHECK(job.Take() == Texts{"beat 5", "beat 9"});
}

TEST_CASE("a pulse replaces a control socket that hangs, at once") {
  Asked job;
  job.Answer(Page({StartLine(99), BeatLine(100, 1)}, 2), 101);
  job.Take();
  job.reporter.OnAsked(102);
  job.reporter.OnNoBeats();
  job.reporter.OnPulse(Look(5), 102.25, &job.lines);
  job.reporter.OnPulse(Look(5), 102.5, &job.lines);
  job.reporter.OnPulse(Look(6), 102.75, &job.lines);
  CHECK(job.Take() == Texts{"beat 5", "beat 6"});
}

TEST_CASE("a pulse that is ahead of a control socket that answers with nothing is reported after some seconds") {
  Asked job;
  job.Answer(Page({StartLine(99), BeatLine(100, 1)}, 2), 101);
  job.Take();
  job.reporter.OnPulse(Look(2), 102, &job.lines);
  job.reporter.OnPulse(Look(2), 103, &job.lines);
  CHECK(job.Take().empty());
  job.reporter.OnPulse(Look(2), 105.5, &job.lines);
  CHECK(job.Take() == Texts{"beat 2"});
}

TEST_CASE("a process that stands still is reported every few seconds, with the module that it entered last") {
  Asked job;
  job.Answer(Page({StartLine(99), BeatLine(100, 1)}, 2), 101);
  job.Take();
  PulseLook look = Look(1);
  look.module = "0:layers.3";
  job.reporter.OnPulse(look, 101.5, &job.lines);
  CHECK(job.Take().empty());
  job.reporter.OnPulse(look, 102.1, &job.lines);
  REQUIRE(job.lines.size() == 1);
  CHECK(std::get<Beat>(job.lines[0].what).module == "0:layers.3");
  job.Take();
  job.reporter.OnPulse(look, 106, &job.lines);
  CHECK(job.Take().empty());
  job.reporter.OnPulse(look, 107.2, &job.lines);
  CHECK(job.Take() == Texts{"beat 1"});
}

TEST_CASE("a control socket is asked when something moved, and now and then if not") {
  JobReporter reporter("h1", 100);
  CHECK(reporter.WantsBeats(100));
  reporter.OnAsked(100);
  CHECK_FALSE(reporter.WantsBeats(100.5));
  CHECK(reporter.WantsBeats(101));  // without a pulse any step may be new
  Lines lines;
  reporter.OnPulse(Look(1), 101, &lines);
  reporter.OnAsked(101);
  reporter.OnPulse(Look(1), 102.5, &lines);
  CHECK_FALSE(reporter.WantsBeats(102.5));
  CHECK(reporter.WantsBeats(106));
  reporter.OnPulse(Look(2), 102.5, &lines);
  CHECK(reporter.WantsBeats(102.5));
  CHECK(reporter.WantsBeats(50));  // the clock was set back
}

TEST_CASE("a control socket that has more lines than one answer holds is asked again at once") {
  Asked job;
  BeatAnswer answer = Page({StartLine(99), BeatLine(100, 1)}, 2);
  answer.newest = 3;
  job.Answer(answer, 101);
  CHECK(job.reporter.WantsBeats(101));
  job.Answer(Page({BeatLine(100, 2)}, 3), 101);
  CHECK_FALSE(job.reporter.WantsBeats(101));
  answer.next = 3;  // it announces more, and returns none
  answer.newest = 9;
  answer.lines.clear();
  job.Answer(answer, 103);
  CHECK_FALSE(job.reporter.WantsBeats(103));
}

TEST_CASE("a process that is gone without an end has no end, only its last step") {
  Asked job;
  job.Answer(Page({StartLine(99), BeatLine(100, 1)}, 2), 101);
  job.reporter.OnPulse(Look(3), 101.2, &job.lines);
  job.Take();
  job.reporter.OnGone({}, 101.3, &job.lines);
  CHECK(job.Take() == Texts{"beat 3", "process_gone"});
}

TEST_CASE("what a process has left behind comes before its being gone, once") {
  Asked job;
  job.Answer(Page({StartLine(99), BeatLine(100, 1)}, 2), 101);
  PulseLook look = Look(1);
  look.end = EndReason::kError;
  job.reporter.OnPulse(look, 101.1, &job.lines);
  job.Take();
  const std::string start = LineJson(StartLine(99));
  const std::string exception = R"({"t":101,"run":"r1","rank":0,"event":{"kind":"exception","type":"ValueError"}})";
  const std::string end = R"({"t":101,"run":"r1","rank":0,"event":{"kind":"end","reason":"error"}})";
  job.reporter.OnGone({{1, start}, {3, exception}, {4, end}, {5, "garbage"}}, 101.3, &job.lines);
  CHECK(job.Take() == Texts{"exception", "end", "process_gone"});
}

TEST_CASE("an end that is only in the pulse is reported, and so is the signal that caused it") {
  Asked job;
  job.Answer(Page({StartLine(99), BeatLine(100, 1)}, 2), 101);
  PulseLook look = Look(1);
  look.signal = 15;
  look.signals = 1;
  look.end = EndReason::kSignal;
  job.reporter.OnPulse(look, 101.1, &job.lines);
  job.Take();
  job.reporter.OnGone({}, 101.3, &job.lines);
  CHECK(job.Take() == Texts{"signal", "end", "process_gone"});
}

TEST_CASE("a run that is over in a process that lives on is reported as ended, with its last step and words, once") {
  Asked job;
  job.Answer(Page({StartLine(99), BeatLine(100, 1)}, 2), 101);
  job.Take();
  PulseLook look = Look(4);
  look.end = EndReason::kError;
  job.reporter.OnPulse(look, 101.1, &job.lines);
  CHECK_FALSE(job.reporter.HasLeft());  // the control socket may still report more
  job.reporter.OnNoBeats();
  REQUIRE(job.reporter.HasLeft());
  const std::vector<LastWordLine> words = {
      {6, R"({"t":101,"run":"r1","rank":0,"event":{"kind":"exception","type":"ValueError"}})"},
      {7, R"({"t":101,"run":"r1","rank":0,"event":{"kind":"end","reason":"error"}})"}};
  job.reporter.OnLeft(words, 101.2, &job.lines);
  CHECK(job.Take() == Texts{"beat 4", "exception", "end"});
  CHECK_FALSE(job.reporter.HasLeft());
  job.reporter.OnPulse(look, 120, &job.lines);
  job.reporter.OnGone(words, 121, &job.lines);
  CHECK(job.Take() == Texts{"process_gone"});
}

TEST_CASE("ranks that agree on another run id are reported under that one, from the beginning") {
  Asked job;
  job.Answer(Page({StartLine(99), BeatLine(100, 1)}, 2, "own"), 101);
  CHECK(job.Take() == Texts{"start", "beat 1"});
  job.Answer(Page({BeatLine(101, 2)}, 3, "agreed"), 102);
  REQUIRE(job.lines.size() == 1);
  CHECK(job.lines[0].run == "own");
  CHECK(job.Take() == Texts{"end"});
  CHECK(job.reporter.since() == 0);
  job.Answer(Page({StartLine(99), BeatLine(100, 1), BeatLine(101, 2)}, 3, "agreed"), 103);
  CHECK(job.lines[0].run == "agreed");
  CHECK(job.Take() == Texts{"start", "beat 1", "beat 2"});
}

TEST_CASE("a rank of several is not reported under its first id before it had time to agree") {
  Asked job;
  job.Answer(Page({StartLine(99, 2)}, 1, "own"), 101);
  CHECK(job.Take().empty());
  CHECK(job.reporter.since() == 0);
  job.Answer(Page({StartLine(99, 2)}, 1, "agreed"), 104);
  CHECK(job.Take() == Texts{"start"});
}

TEST_CASE("lines that an earlier stepwatchd has reported are not reported again") {
  Asked job;
  job.reporter.SetKnownUntil(100);
  job.Answer(Page({StartLine(99), BeatLine(100, 1), BeatLine(100.5, 2)}, 3), 101);
  CHECK(job.Take() == Texts{"beat 2"});
}

TEST_CASE("only a state in which it stands still is reported, and its end") {
  Asked job;
  job.Answer(Page({StartLine(99), BeatLine(100, 1)}, 2), 101);
  job.Take();
  for (const char state : {'S', 'R', 'T', 'T', 'S', 'R', 'D', 'D'}) job.reporter.OnState(state, 102, &job.lines);
  REQUIRE(job.lines.size() == 2);
  CHECK(std::get<ProcessStateEvent>(std::get<Event>(job.lines[0].what)).state == 'T');
  CHECK(std::get<ProcessStateEvent>(std::get<Event>(job.lines[1].what)).state == 'R');
  job.lines.clear();
  job.reporter.OnState('D', 105, &job.lines);
  CHECK(job.Take() == Texts{"process_state"});
}

TEST_CASE("the wait of a rank for its peers is reported, and its end") {
  Asked job;
  job.Answer(Page({StartLine(99), BeatLine(100, 1)}, 2), 101);
  job.Take();
  job.reporter.OnCollective(std::nullopt, 102, &job.lines);
  CHECK(job.Take().empty());
  job.reporter.OnCollective("all_reduce", 103, &job.lines);
  job.reporter.OnCollective(std::nullopt, 104, &job.lines);
  REQUIRE(job.lines.size() == 2);
  CHECK(std::get<CollectiveWaitEvent>(std::get<Event>(job.lines[0].what)).operation == "all_reduce");
  CHECK_FALSE(std::get<CollectiveWaitEvent>(std::get<Event>(job.lines[1].what)).waits);
}

TEST_CASE("a process without a run is not reported") {
  JobReporter reporter("h1", 100);
  Lines lines;
  reporter.OnState('T', 101, &lines);
  reporter.OnGone({}, 102, &lines);
  CHECK(lines.empty());
}

}  // namespace
}  // namespace stepwatch::operations
