#include "operations/store/pruner.h"

#include <optional>

namespace stepwatch::operations {
namespace {

using database::Statement;

// Lines after the end of a run still belong to it.
constexpr double kAfterEndSeconds = 600;
constexpr const char* kFreePages = "PRAGMA incremental_vacuum(2000)";

}  // namespace

// Each transaction is short, because writes wait for the running one.
Result<bool> Pruner::Prune(const StoreLimits& limits, double t, std::chrono::milliseconds at_most) {
  const auto deadline = std::chrono::steady_clock::now() + at_most;
  const auto has_time = [deadline] { return std::chrono::steady_clock::now() < deadline; };
  Status status = database_.Transact([&] {
    if (Status lines = PruneLines(limits, t); !lines.ok()) return lines;
    return PruneOld(limits, t);
  });
  if (!status.ok()) return status;
  bool has_more = true, has_more_runs = true;
  for (bool is_first = true; has_more && (is_first || has_time()); is_first = false) {
    const Result<bool> thinned = ThinNext(limits.points_of_series);
    if (!thinned.ok()) return thinned.status();
    has_more = thinned.value();
  }
  for (bool is_first = true; has_more_runs && (is_first || has_time()); is_first = false) {
    const Result<bool> forgotten = ForgetSome(limits, t);
    if (!forgotten.ok()) return forgotten.status();
    has_more_runs = forgotten.value();
  }
  if (status = database_.Execute(kFreePages); !status.ok()) return status;
  return !has_more && !has_more_runs;
}

Status Pruner::PruneLines(const StoreLimits& limits, double t) {
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

// Incidents are kept longer than runs that are forgotten for lack of room.
Status Pruner::PruneOld(const StoreLimits& limits, double t) {
  for (const char* sql :
       {"DELETE FROM changes WHERE incident IN (SELECT id FROM incidents WHERE NOT open AND opened_t < ?)",
        "DELETE FROM acknowledgements WHERE incident IN (SELECT id FROM incidents WHERE NOT open AND "
        "opened_t < ?)",
        "DELETE FROM incidents WHERE NOT open AND opened_t < ?", "DELETE FROM begins WHERE t < ?",
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

// The next series in their order. False: there is no further one.
Result<bool> Pruner::ThinNext(int64_t points_max) {
  Result<std::optional<SeriesKey>> next = SeriesAfter(&database_, thinned_);
  if (!next.ok()) return next.status();
  thinned_ = next.value().value_or(SeriesKey());
  if (!next.value()) return false;
  const Result<int64_t> points = PointsOf(&database_, thinned_);
  if (!points.ok()) return points.status();
  if (points.value() <= points_max) return true;
  if (Status status = database_.Transact([&] { return ThinSeries(&database_, thinned_, points_max); }); !status.ok())
    return status;
  return true;
}

// Deletes a series of the run that ended first, or the rest of it; a run without an end counts once it has had no line
// for as long as runs are kept. False: the next run is kept.
Result<bool> Pruner::ForgetSome(const StoreLimits& limits, double t) {
  const double old_t = t - limits.ended_seconds;
  Result<Statement> oldest =
      database_.Prepare("SELECT id, heard_t FROM runs WHERE ended OR heard_t < ? ORDER BY heard_t LIMIT 1");
  if (!oldest.ok()) return oldest.status();
  oldest.value().Bind(1, old_t);
  const Result<bool> is_there = oldest.value().Next();
  if (!is_there.ok() || !is_there.value()) return is_there;
  const std::string run = oldest.value().Text(0);
  if (oldest.value().Number(1) >= old_t) {
    const Result<int64_t> page = database_.Ask("PRAGMA page_size");
    const Result<int64_t> pages = database_.Ask("PRAGMA page_count");
    const Result<int64_t> free = database_.Ask("PRAGMA freelist_count");
    for (const Result<int64_t>* each : {&page, &pages, &free})
      if (!each->ok()) return each->status();
    if ((pages.value() - free.value()) * page.value() <= limits.bytes) return false;
  }
  const Result<std::optional<SeriesKey>> series = SeriesAfter(&database_, {run, ""});
  if (!series.ok()) return series.status();
  const Status status = database_.Transact([&] {
    return series.value() && series.value()->run == run ? DeleteSeries(&database_, *series.value()) : ForgetRun(run);
  });
  if (!status.ok()) return status;
  return true;
}

Status Pruner::ForgetRun(const std::string& run) {
  for (const char* sql :
       {"DELETE FROM lines WHERE run = ?", "DELETE FROM begins WHERE run = ?", "DELETE FROM runs WHERE id = ?"}) {
    Result<Statement> statement = database_.Prepare(sql);
    if (!statement.ok()) return statement.status();
    statement.value().Bind(1, run);
    if (Status status = statement.value().Run(); !status.ok()) return status;
  }
  return Status();
}

}  // namespace stepwatch::operations
