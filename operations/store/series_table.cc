#include "operations/store/series_table.h"

#include <utility>

namespace stepwatch::operations {
namespace {

using database::Database;
using database::Statement;

std::vector<SeriesPoint> Halved(const std::vector<SeriesPoint>& points) {
  std::vector<SeriesPoint> half;
  for (size_t i = 0; i < points.size(); i += 2) {
    half.push_back(points[i]);
    if (i + 1 < points.size()) Join(&half.back(), points[i + 1]);
  }
  return half;
}

Result<Statement> Ask(Database* database, const char* sql, const SeriesKey& series) {
  Result<Statement> statement = database->Prepare(sql);
  if (!statement.ok()) return statement;
  statement.value().Bind(1, series.run);
  statement.value().Bind(2, series.name);
  return statement;
}

}  // namespace

Result<SeriesWriter> SeriesWriter::Open(Database* database) {
  Result<Statement> remove = database->Prepare("DELETE FROM series WHERE run = ? AND name = ? AND step_first >= ?");
  if (!remove.ok()) return remove.status();
  Result<Statement> insert =
      database->Prepare("INSERT OR REPLACE INTO series VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  if (!insert.ok()) return insert.status();
  return SeriesWriter(std::move(remove).value(), std::move(insert).value());
}

Status SeriesWriter::Replace(const StoredSeries& series) {
  remove_.Bind(1, series.run);
  remove_.Bind(2, series.name);
  remove_.Bind(3, series.from_step);
  if (Status status = remove_.Run(); !status.ok()) return status;
  insert_.Bind(1, series.run);
  insert_.Bind(2, series.name);
  for (const SeriesPoint& point : series.points) {
    insert_.Bind(3, point.step_first);
    insert_.Bind(4, point.step_last);
    insert_.Bind(5, point.t);
    insert_.Bind(6, point.min);
    insert_.Bind(7, point.max);
    insert_.Bind(8, point.mean);
    insert_.Bind(9, point.last);
    insert_.Bind(10, point.count);
    insert_.Bind(11, point.nonfinite);
    if (Status status = insert_.Run(); !status.ok()) return status;
  }
  return Status();
}

Result<std::vector<SeriesPoint>> ReadSeries(Database* database, const std::string& run, const std::string& name) {
  Result<Statement> select = database->Prepare(
      "SELECT step_first, step_last, t, min, max, mean, last, count, nonfinite FROM series WHERE run = ? AND name = ? "
      "ORDER BY step_first");
  if (!select.ok()) return select.status();
  Statement& row = select.value();
  row.Bind(1, run);
  row.Bind(2, name);
  std::vector<SeriesPoint> points;
  for (;;) {
    const Result<bool> next = row.Next();
    if (!next.ok()) return next.status();
    if (!next.value()) return points;
    points.push_back({row.Integer(0), row.Integer(1), row.Number(2), row.Number(3), row.Number(4), row.Number(5),
                      row.Number(6), row.Integer(7), row.Integer(8)});
  }
}

Result<std::optional<SeriesKey>> SeriesAfter(Database* database, const SeriesKey& series) {
  Result<Statement> select =
      Ask(database, "SELECT run, name FROM series WHERE (run, name) > (?, ?) ORDER BY run, name LIMIT 1", series);
  if (!select.ok()) return select.status();
  const Result<bool> row = select.value().Next();
  if (!row.ok()) return row.status();
  if (!row.value()) return std::optional<SeriesKey>();
  return std::optional<SeriesKey>({select.value().Text(0), select.value().Text(1)});
}

Result<int64_t> PointsOf(Database* database, const SeriesKey& series) {
  Result<Statement> select = Ask(database, "SELECT count(*) FROM series WHERE run = ? AND name = ?", series);
  if (!select.ok()) return select.status();
  const Result<bool> row = select.value().Next();
  if (!row.ok()) return row.status();
  return select.value().Integer(0);
}

Status ThinSeries(Database* database, const SeriesKey& series, int64_t points_max) {
  Result<std::vector<SeriesPoint>> read = ReadSeries(database, series.run, series.name);
  if (!read.ok()) return read.status();
  std::vector<SeriesPoint> points = std::move(read).value();
  while (static_cast<int64_t>(points.size()) > points_max / 2 && points.size() > 1) points = Halved(points);
  Result<SeriesWriter> writer = SeriesWriter::Open(database);
  if (!writer.ok()) return writer.status();
  return writer.value().Replace({series.run, series.name, INT64_MIN, std::move(points)});
}

Status DeleteSeries(Database* database, const SeriesKey& series) {
  Result<Statement> remove = Ask(database, "DELETE FROM series WHERE run = ? AND name = ?", series);
  return remove.ok() ? remove.value().Run() : remove.status();
}

}  // namespace stepwatch::operations
