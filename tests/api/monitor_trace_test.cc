// The traces on the real loop, with real files.
#include "tests/api/job.h"

namespace stepwatch::testing {
namespace {

void Play(const Trace& trace, Job* job) {
  job->options.dynamic = trace.dynamic;
  job->options.start_iteration = trace.first_step;
  job->Start();
  for (int64_t step = trace.first_step; step < trace.first_step + trace.steps; ++step) {
    REQUIRE(job->monitor->step() == step);
    for (const testing::Edit& edit : trace.edits) {
      if (edit.during_step != step) continue;
      job->Settle();
      job->Edit(ConfigText(edit.wanted));
    }
    job->TrainStep();
  }
  job->Close();
}

std::string LastSaved(const Trace& trace) {
  return ConfigText(trace.edits.empty() ? trace.initial : trace.edits.back().wanted);
}

std::string WithFalse(std::string text) {
  const std::string token = ":\ttrue";
  return text.replace(text.find(token), token.size(), ":\tfalse");
}

TEST_CASE("the monitor plays every trace: the steps in the files, and the file that steers") {
  for (const Trace& trace : Traces()) {
    INFO(trace.name);
    Job job(ConfigText(trace.initial));
    Play(trace, &job);
    Steps gradients, weights;
    for (const Collected& each : trace.collected) (each.gradients ? gradients : weights).push_back(each.step);
    CHECK(job.Steps("grad_reduced") == gradients);
    CHECK(job.Steps("grad_unreduced") == gradients);
    CHECK(job.Steps("param_origin") == weights);
    CHECK(job.Steps("param_updated") == weights);
    CHECK(job.Rows() == trace.collected.size() * 2 * 2);  // two kinds of two layers
    CHECK(Contents(job.config_path) == (trace.written_back ? WithFalse(LastSaved(trace)) : LastSaved(trace)));
    if (job.Count(EventKind::kArmed) == 0) CHECK_FALSE(std::filesystem::exists(job.options.output_dir));
  }
}

}  // namespace
}  // namespace stepwatch::testing
