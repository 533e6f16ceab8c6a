// What the store forgets.
#include <cmath>

#include "operations/store/series_table.h"
#include "operations/store/store.h"

namespace stepwatch::operations {
namespace {

using database::Statement;

// What comes after the end of a run still belongs to it.
constexpr double kAfterEndSeconds = 600;
// At one time, so that a prune is short.
constexpr int kRunsAtOnce = 100;
constexpr const char* kFreePages = "PRAGMA incremental_vacuum(2000)";

}  // namespace

Status Store::Prune(const StoreLimits& limits, double t) {
  Status status = Transact([&] {
    if (Status lines = PruneLines(limits, t); !lines.ok()) return lines;
    if (Status series = ThinSeries(&database_, limits.points_of_series); !series.ok()) return series;
    return PruneEnded(limits, t);
  });
  if (!status.ok()) return status;
  return database_.Execute(kFreePages);
}

Status Store::PruneLines(const StoreLimits& limits, double t) {
  Result<Statement> old = database_.Prepare(
      "DELETE FROM lines WHERE t_last < ?1 OR run IN (SELECT id FROM runs WHERE ended AND heard_t < ?2)");
  if (!old.ok()) return old.status();
  old.value().Bind(1, t - limits.line_seconds);
  old.value().Bind(2, t - kAfterEndSeconds);
  if (Status status = old.value().Run(); !status.ok()) return status;
  // The newest that fit are kept.
  Result<Statement> over = database_.Prepare(
      "DELETE FROM lines WHERE id <= (SELECT max(id) FROM "
      "(SELECT id, sum(bytes) OVER (ORDER BY id DESC) AS newer FROM lines) WHERE newer > ?1)");
  if (!over.ok()) return over.status();
  over.value().Bind(1, limits.line_bytes);
  if (Status status = over.value().Run(); !status.ok()) return status;
  return database_.Execute(
      "DELETE FROM begins WHERE run IN (SELECT id FROM runs WHERE ended) AND run NOT IN (SELECT run FROM lines)");
}

Status Store::ForgetRun(const std::string& run) {
  for (const char* sql : {"DELETE FROM series WHERE run = ?", "DELETE FROM lines WHERE run = ?",
                          "DELETE FROM begins WHERE run = ?", "DELETE FROM runs WHERE id = ?"}) {
    Result<Statement> statement = database_.Prepare(sql);
    if (!statement.ok()) return statement.status();
    statement.value().Bind(1, run);
    if (Status status = statement.value().Run(); !status.ok()) return status;
  }
  return Status();
}

Status Store::PruneEnded(const StoreLimits& limits, double t) {
  Result<Statement> oldest = database_.Prepare("SELECT id, heard_t FROM runs WHERE ended ORDER BY heard_t LIMIT " +
                                               std::to_string(kRunsAtOnce));
  if (!oldest.ok()) return oldest.status();
  std::vector<std::pair<std::string, double>> runs;
  for (;;) {
    const Result<bool> row = oldest.value().Next();
    if (!row.ok()) return row.status();
    if (!row.value()) break;
    runs.emplace_back(oldest.value().Text(0), oldest.value().Number(1));
  }
  const Result<int64_t> page = database_.Ask("PRAGMA page_size");
  if (!page.ok()) return page.status();
  for (const auto& [run, heard_t] : runs) {
    const Result<int64_t> pages = database_.Ask("PRAGMA page_count");
    const Result<int64_t> free = database_.Ask("PRAGMA freelist_count");
    if (!pages.ok() || !free.ok()) return pages.ok() ? free.status() : pages.status();
    const bool is_old = heard_t < t - limits.ended_seconds;
    if (!is_old && (pages.value() - free.value()) * page.value() <= limits.bytes) break;
    if (Status status = ForgetRun(run); !status.ok()) return status;
  }
  // Incidents outlive the runs that were forgotten for want of room.
  for (const char* sql :
       {"DELETE FROM changes WHERE incident IN (SELECT id FROM incidents WHERE NOT open AND opened_t < ?)",
        "DELETE FROM acknowledgements WHERE incident IN (SELECT id FROM incidents WHERE NOT open AND "
        "opened_t < ?)",
        "DELETE FROM incidents WHERE NOT open AND opened_t < ?",
        // Of runs of which nobody has heard an end.
        "DELETE FROM begins WHERE t < ?", "DELETE FROM runs WHERE heard_t < ?",
        "DELETE FROM processes WHERE seen_t < ?"}) {
    Result<Statement> statement = database_.Prepare(sql);
    if (!statement.ok()) return statement.status();
    statement.value().Bind(1, t - limits.ended_seconds);
    if (Status status = statement.value().Run(); !status.ok()) return status;
  }
  Result<Statement> silences = database_.Prepare("DELETE FROM silences WHERE until_t < ?");
  if (!silences.ok()) return silences.status();
  silences.value().Bind(1, t);
  return silences.value().Run();
}

}  // namespace stepwatch::operations
