#include "controller/cli/text_verbs.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "controller/cli/app_words.h"
#include "controller/cli/completion.h"
#include "controller/cli/exit_code.h"
#include "controller/cli/find_job.h"
#include "controller/cli/manual.h"
#include "src/base/file.h"
#include "src/base/print.h"
#include "stepwatch/version.h"

namespace stepwatch::cli {
namespace {

constexpr const char* kProgram = "stepwatch";

std::string CompletionFor(const CLI::App& app, const std::string& shell) {
  const AppWords words = WordsOf(app, kProgram);
  return shell == "bash" ? BashCompletion(words) : shell == "zsh" ? ZshCompletion(words) : FishCompletion(words);
}

int FailWriting(const Status& status) {
  base::Print(stderr, "stepwatch: %s\n", status.message().c_str());
  return kExitDegraded;
}

// stepwatch.1, stepwatch-top.1, ...
int WriteManuals(const AppWords& words, const std::string& directory) {
  Status status = base::MakeDirectories(directory);
  const auto write = [&](const std::string& name, const std::string& text) {
    if (status.ok()) status = base::ReplaceFile(base::JoinPath(directory, name + ".1"), text);
  };
  write(words.name, ManualOfApp(words, kVersion));
  for (const VerbWords& verb : words.verbs) write(words.name + "-" + verb.name, ManualOfVerb(words, verb, kVersion));
  return status.ok() ? kExitDone : FailWriting(status);
}

int PrintManual(const AppWords& words, const std::string& name) {
  if (name.empty()) {
    base::Print(stdout, "%s", ManualOfApp(words, kVersion).c_str());
    return kExitDone;
  }
  for (const VerbWords& verb : words.verbs) {
    if (verb.name != name) continue;
    base::Print(stdout, "%s", ManualOfVerb(words, verb, kVersion).c_str());
    return kExitDone;
  }
  base::Print(stderr, "stepwatch: unknown verb \"%s\"; stepwatch --help lists all verbs\n", name.c_str());
  return kExitInvalid;
}

}  // namespace

void AddTextVerbs(CLI::App* app, int* exit_code) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* completion = app->add_subcommand("completion", "Print the completion script of a shell");
  completion->add_option("SHELL", *shell, "name of the shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->footer(
      "Examples:\n"
      "  source <(stepwatch completion bash)\n"
      "  stepwatch completion zsh > ~/.zfunc/_stepwatch\n"
      "  stepwatch completion fish > ~/.config/fish/completions/stepwatch.fish");
  completion->callback([=] {
    base::Print(stdout, "%s", CompletionFor(*app, *shell).c_str());
    *exit_code = kExitDone;
  });

  const auto verb = std::make_shared<std::string>();
  const auto directory = std::make_shared<std::string>();
  CLI::App* manual = app->add_subcommand("manual", "Print a manual page, or write all of them");
  manual->add_option("VERB", *verb, "verb of the page (default: the page of stepwatch)");
  manual->add_option("--to", *directory, "write the pages of all verbs into this directory instead");
  manual->footer(
      "Examples:\n"
      "  stepwatch manual top | man -l -\n"
      "  stepwatch manual --to ~/.local/share/man/man1");
  manual->callback([=] {
    const AppWords words = WordsOf(*app, kProgram);
    *exit_code = directory->empty() ? PrintManual(words, *verb) : WriteManuals(words, *directory);
  });

  CLI::App* names = app->add_subcommand(kJobNamesVerb, "Print the names of the running jobs, for completion");
  names->group("");
  names->callback([=] {
    for (const control_socket::FoundJob& job : AllJobs()) base::Print(stdout, "%s\n", job.name.c_str());
    *exit_code = kExitDone;
  });
}

}  // namespace stepwatch::cli
