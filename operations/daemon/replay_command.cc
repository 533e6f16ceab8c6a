#include "operations/daemon/replay_command.h"

#include <cinttypes>
#include <cstdio>

#include "operations/daemon/line_source.h"
#include "operations/incidents/observer.h"
#include "operations/trace/parse_line.h"
#include "operations/trace/write_line.h"
#include "src/base/print.h"

namespace stepwatch::operations {
namespace {

// More bad lines than this are counted, not named.
constexpr int64_t kNamedLinesMax = 100;

void Print(const std::vector<Incident>& changes, bool json) {
  for (const Incident& change : changes)
    base::Print(stdout, "%s\n", (json ? IncidentJson(change) : IncidentSentence(change)).c_str());
  if (!changes.empty()) std::fflush(stdout);
}

bool IsBlank(const std::string& text) {
  return text.find_first_not_of(" \t\r") == std::string::npos;
}

}  // namespace

int RunReplay(const ReplayArguments& arguments) {
  Result<LineSource> source = LineSource::Open(arguments.file, kLineBytesMax);
  if (!source.ok()) {
    base::Print(stderr, "stepwatchd: %s\n", source.status().message().c_str());
    return 2;
  }
  Observer observer;
  std::string text;
  int64_t number = 0;
  int64_t bad = 0;
  while (source.value().Next(&text)) {
    ++number;
    if (IsBlank(text)) continue;
    const Result<Line> line = ParseLine(text);
    if (line.ok())
      Print(observer.Observe(line.value()), arguments.json);
    else if (++bad <= kNamedLinesMax)
      base::Print(stderr, "stepwatchd: line %" PRId64 ": %s; skipped\n", number, line.status().message().c_str());
  }
  if (!source.value().status().ok()) {
    base::Print(stderr, "stepwatchd: %s %s\n", arguments.file.c_str(), source.value().status().message().c_str());
    return 2;
  }
  Print(observer.AdvanceBy(arguments.tail_seconds), arguments.json);
  if (bad > 0) base::Print(stderr, "stepwatchd: %" PRId64 " of %" PRId64 " lines were invalid\n", bad, number);
  return 0;
}

}  // namespace stepwatch::operations
