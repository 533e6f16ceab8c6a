#include "controller/cli/top_command.h"

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "controller/cli/exit_code.h"
#include "controller/cli/find_job.h"
#include "controller/cli/read_json.h"
#include "controller/cli/terminal.h"
#include "controller/cli/top_keys.h"
#include "controller/cli/top_source.h"
#include "src/base/print.h"
#include "src/http/answers.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {
using std::chrono::steady_clock;

constexpr int kExitInterrupted = 130;
// A job keeps its latest values from the first question on, so the first answer of one that collects has none.
constexpr std::chrono::seconds kFirstValues{2};
constexpr std::chrono::milliseconds kAskAgain{50};

int HasEnded(const std::string& job, bool as_json) {
  return NoJob(Status(StatusCode::kUnavailable, "job " + job + " has ended, or does not answer any more"), as_json);
}

Json SnapshotJson(const TopAnswers& answers) {
  return {{"version", http::kAnswerVersion}, {"job", answers.job},   {"status", answers.status},
          {"ranks", answers.ranks},          {"kind", answers.kind}, {"values", List(answers.latest, "values")}};
}

int PrintOnce(const TopArguments& arguments, const control_socket::FoundJob& job) {
  const auto end = steady_clock::now() + kFirstValues;
  std::optional<TopAnswers> answers = AskForTop(job, {arguments.kind, 0});
  while (answers && List(answers->latest, "values").empty() && Whole(answers->status, "plan_id") > 0 &&
         steady_clock::now() < end) {
    std::this_thread::sleep_for(kAskAgain);
    answers = AskForTop(job, {arguments.kind, 0});
  }
  if (!answers) return HasEnded(job.name, arguments.json);
  if (!answers->trouble.empty()) return NoJob(Status(StatusCode::kUnavailable, answers->trouble), arguments.json);
  if (arguments.json) {
    base::Print(stdout, "%s\n", json::Dump(SnapshotJson(*answers)).c_str());
  } else {
    for (const std::string& line : TopLinesOfAll(*answers, arguments.choice)) base::Print(stdout, "%s\n", line.c_str());
  }
  return kExitDone;
}

int RunLive(const TopArguments& arguments, const control_socket::FoundJob& job) {
  Terminal terminal;
  const auto interval = std::chrono::duration<double>(arguments.interval_seconds);
  TopSource source(job, arguments.kind, std::chrono::ceil<std::chrono::milliseconds>(interval));
  TopChoice choice = arguments.choice;
  for (;;) {
    const std::optional<TopAnswers> answers = source.Answers();
    if (!answers) break;
    const TopSize size = terminal.Size();
    terminal.Show(TopLines(*answers, choice, size));
    const Terminal::Input input = terminal.Wait(source.wake_up());
    if (input.ends) return kExitInterrupted;
    const TopTable table = TableOf(answers->latest);
    for (const TopPress& press : PressesIn(input.bytes)) {
      switch (Press(press, table, TopPage(*answers, size), &choice)) {
        case TopWish::kQuit: return kExitDone;
        case TopWish::kNextKind: source.Move(1); break;
        case TopWish::kPreviousKind: source.Move(-1); break;
        case TopWish::kNone: break;
      }
    }
  }
  return kExitUnreachable;
}

}  // namespace

int RunTop(const TopArguments& arguments) {
  const Result<control_socket::FoundJob> job = FindJob(arguments.job);
  if (!job.ok()) return NoJob(job.status(), arguments.json);
  if (arguments.once || arguments.json || !CanTakeTerminal()) return PrintOnce(arguments, job.value());
  const int exit_code = RunLive(arguments, job.value());
  // On the screen that was there before.
  return exit_code == kExitUnreachable ? HasEnded(job.value().name, arguments.json) : exit_code;
}

}  // namespace stepwatch::cli
