// Measures the time of the pulse at the end of an otherwise empty step, in nanoseconds and relative to the same end
// without it: the page alone, and the page with the queue of beats, which is emptied within the measured time. Then the
// time of the parts of a step, relative to the end with page and beats: data and optimizer of every step, and these
// with forward and backward of a collected step.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "bench/report.h"
#include "bench/rounds.h"
#include "src/step/data_plane.h"

namespace stepwatch::bench {
namespace {

// Ends of steps in one turn, equal to the capacity of the queue.
constexpr int kEnds = 4096;

// The step thread's part of a monitor without a plan.
struct Idle {
  Idle(bool has_page, bool has_queue) : plane(0, &engine, &wake_up) {
    if (!has_page) return;
    step::PulseWriter::Setup setup;
    setup.has_queue = has_queue;
    if (const Status opened = plane.pulse.Open(setup); !opened.ok()) throw std::runtime_error(opened.message());
  }
  void EndSteps(std::initializer_list<StepPart> parts = {}) {
    for (int i = 0; i < kEnds; ++i) {
      for (const StepPart part : parts) {
        const StepPart before = plane.pulse.EnterPart(part);
        (void)plane.pulse.EnterPart(before);
      }
      plane.plans.EndStep();
    }
    step::ReportEntry entry;
    while (plane.pulse.Pop(&entry)) Keep(entry);
  }

  stats::Engine engine{{}};
  step::WakeUp wake_up;
  step::DataPlane plane;
};

void Measure(int rounds, Report* report) {
  Idle bare(false, false), page(true, false), both(true, true), parts(true, true), inner(true, true);
  Rounds turns(Clock::kThreadCpu);
  const size_t none = turns.Add([&] { bare.EndSteps(); }), with_page = turns.Add([&] { page.EndSteps(); }),
               with_both = turns.Add([&] { both.EndSteps(); }), with_parts = turns.Add([&] {
                 parts.EndSteps({StepPart::kData, StepPart::kOptimizer});
               }),
               with_inner = turns.Add([&] {
                 inner.EndSteps({StepPart::kData, StepPart::kForward, StepPart::kBackward, StepPart::kOptimizer});
               });
  turns.Run(rounds);
  const auto ns = [&](size_t action) { return Scaled(turns.SecondsOf(action), 1e9 / kEnds); };
  report->Section("the end of a step with no plan in force; one thread");
  report->Figure("boundary_without_pulse_ns", ns(none), "ns", {}, "the clock is read in all three");
  report->Figure("boundary_with_page_ns", ns(with_page), "ns");
  report->Figure("boundary_with_page_and_beats_ns", ns(with_both), "ns", AtMost(50),
                 "all of the end, with the emptying of the queue");
  report->Ratio("page_over_none", turns.Ratio(with_page, none), Style::kTimes);
  report->Ratio("page_and_beats_over_none", turns.Ratio(with_both, none), Style::kTimes);
  report->Figure("boundary_and_parts_ns", ns(with_parts), "ns", {}, "with data and optimizer, as every step");
  report->Figure("boundary_and_inner_parts_ns", ns(with_inner), "ns", {}, "also with forward and backward");
  report->Ratio("parts_over_page_and_beats", turns.Ratio(with_parts, with_both), Style::kTimes);
  report->Ratio("inner_parts_over_parts", turns.Ratio(with_inner, with_parts), Style::kTimes);
}

}  // namespace
}  // namespace stepwatch::bench

int main(int argc, char** argv) try {
  int rounds = 101;
  std::string json;
  CLI::App app("What the pulse of a monitor takes of the end of a step.");
  app.add_option("--rounds", rounds, "how often each is timed")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--json", json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  stepwatch::bench::Report report;
  stepwatch::bench::Measure(rounds, &report);
  return json.empty() || report.WriteJson(json) ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "pulse_bench: %s\n", error.what());
  return 1;
}
