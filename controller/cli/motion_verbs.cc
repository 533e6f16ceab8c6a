#include "controller/cli/motion_verbs.h"

#include <CLI/App.hpp>
#include <memory>
#include <string>

#include "controller/cli/motion_commands.h"

namespace stepwatch::cli {
namespace {

void AddVerb(CLI::App* app, const std::string& name, const std::string& what, const std::string& more,
             int (*run)(const MotionArguments&), int* exit_code) {
  const auto arguments = std::make_shared<MotionArguments>();
  CLI::App* verb = app->add_subcommand(name, what);
  verb->add_option("JOB", arguments->job,
                   "a name from `stepwatch ps`, a pid, a socket, a config file or the prefix of a run id "
                   "(default: the only job)");
  verb->add_flag("--json", arguments->json, "print the response of the job, one JSON object");
  verb->footer(more + "\nExamples: stepwatch " + name + "; stepwatch " + name +
               " config.json --json\n"
               "Exit codes: 0 done, 2 ambiguous JOB, 5 not possible here, or not done within a second, 6 no such job,\n"
               "7 no change.");
  verb->callback([=] { *exit_code = run(*arguments); });
}

}  // namespace

void AddMotionVerbs(CLI::App* app, int* exit_code) {
  AddVerb(app, "pause", "Pause the collection of a running job",
          "The pause begins at the next step; the plan keeps its window and its count. The config file does not "
          "change. The\n"
          "next edit or a stop ends the pause. Ranks that share a store pause at the step on which they agree.",
          RunPause, exit_code);
  AddVerb(app, "resume", "Resume the collection of a paused job",
          "Collection continues at the next step, until the plan has collected all its steps.", RunResume, exit_code);
  AddVerb(
      app, "rotate", "Close the output files of a running job and start new ones",
      "From the next step on rows go to new files with the suffix _s2, _s3 and so on; closed files do not change any\n"
      "more.",
      RunRotate, exit_code);
}

}  // namespace stepwatch::cli
