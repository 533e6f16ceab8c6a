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
                   "as `stepwatch ps` names it, a pid, a socket, a config file or the beginning of a run id "
                   "(default: the only job)");
  verb->add_flag("--json", arguments->json, "the answer of the job, one JSON object");
  verb->footer(more + "\nExamples: stepwatch " + name + "; stepwatch " + name +
               " config.json --json\n"
               "Exit codes: 0 done, 2 several jobs could be meant, 5 not possible here, or not done within a second,\n"
               "6 no such job, 7 no change.");
  verb->callback([=] { *exit_code = run(*arguments); });
}

}  // namespace

void AddMotionVerbs(CLI::App* app, int* exit_code) {
  AddVerb(
      app, "pause", "Let a running job collect nothing for a while",
      "From the next step on; the plan keeps its window and its count. The config file stays as it is, and the next\n"
      "edit, or a stop, ends the pause. Ranks that share a store pause together, from the step that they agree on.",
      RunPause, exit_code);
  AddVerb(app, "resume", "Let a paused job collect again",
          "From the next step on, until the plan has the steps that it was to collect.", RunResume, exit_code);
  AddVerb(
      app, "rotate", "Close the files with what a running job has recorded so far",
      "From the next step on rows go to new files, which end with _s2, _s3 and so on; the closed ones do not change\n"
      "any more.",
      RunRotate, exit_code);
}

}  // namespace stepwatch::cli
