#include "operations/store/series_table.h"

#include <utility>

namespace stepwatch::operations {
namespace {

using database::Database;
using database::Statement;

Status InsertPoints(Database* database, const StoredSeries& series) {
  Result<Statement> insert =
      database->Prepare("INSERT OR REPLACE INTO series VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  if (!insert.ok()) return insert.status();
  Statement& row = insert.value();
  for (const SeriesPoint& point : series.points) {
    row.Bind(1, series.run);
    row.Bind(2, series.name);
    row.Bind(3, point.step_first);
    row.Bind(4, point.step_last);
    row.Bind(5, point.t);
    row.Bind(6, point.min);
    row.Bind(7, point.max);
    row.Bind(8, point.mean);
    row.Bind(9, point.last);
    row.Bind(10, point.count);
    row.Bind(11, point.nonfinite);
    if (Status status = row.Run(); !status.ok()) return status;
  }
  return Status();
}

Status DeletePoints(Database* database, const std::string& run, const std::string& name, int64_t from_step) {
  Result<Statement> remove = database->Prepare("DELETE FROM series WHERE run = ? AND name = ? AND step_first >= ?");
  if (!remove.ok()) return remove.status();
  remove.value().Bind(1, run);
  remove.value().Bind(2, name);
  remove.value().Bind(3, from_step);
  return remove.value().Run();
}

std::vector<SeriesPoint> Halved(const std::vector<SeriesPoint>& points) {
  std::vector<SeriesPoint> half;
  for (size_t i = 0; i < points.size(); i += 2) {
    half.push_back(points[i]);
    if (i + 1 < points.size()) Join(&half.back(), points[i + 1]);
  }
  return half;
}

Status ThinOne(Database* database, const std::string& run, const std::string& name, int64_t points_max) {
  Result<std::vector<SeriesPoint>> read = ReadSeries(database, run, name);
  if (!read.ok()) return read.status();
  std::vector<SeriesPoint> points = std::move(read).value();
  while (static_cast<int64_t>(points.size()) > points_max / 2 && points.size() > 1) points = Halved(points);
  if (Status status = DeletePoints(database, run, name, INT64_MIN); !status.ok()) return status;
  return InsertPoints(database, {run, name, 0, std::move(points)});
}

}  // namespace

Status WriteSeries(Database* database, const StoredSeries& series) {
  if (Status status = DeletePoints(database, series.run, series.name, series.from_step); !status.ok()) return status;
  return InsertPoints(database, series);
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

Status ThinSeries(Database* database, int64_t points_max) {
  std::vector<std::pair<std::string, std::string>> names;
  {
    Result<Statement> select = database->Prepare("SELECT run, name FROM series GROUP BY run, name HAVING count(*) > ?");
    if (!select.ok()) return select.status();
    select.value().Bind(1, points_max);
    for (;;) {
      const Result<bool> next = select.value().Next();
      if (!next.ok()) return next.status();
      if (!next.value()) break;
      names.emplace_back(select.value().Text(0), select.value().Text(1));
    }
  }
  for (const auto& [run, name] : names)
    if (Status status = ThinOne(database, run, name, points_max); !status.ok()) return status;
  return Status();
}

}  // namespace stepwatch::operations
