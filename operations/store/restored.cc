#include "operations/store/restored.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>

#include "operations/store/row_text.h"

namespace stepwatch::operations {
namespace {

using database::Database;
using database::Statement;

bool IsNumber(int64_t number) {
  return number >= 0 && number <= kStoredNumberMax;
}

// Calls `take` for each row.
template <class Take>
Status ForEachRow(Result<Statement> statement, const Take& take) {
  if (!statement.ok()) return statement.status();
  for (;;) {
    const Result<bool> row = statement.value().Next();
    if (!row.ok()) return row.status();
    if (!row.value()) return Status();
    take(statement.value());
  }
}

// The lines of a chunk.
void SplitChunk(const std::string& run, std::string_view text, std::vector<StoredLine>* lines) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view each = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t tab = each.find('\t');
    if (tab == std::string_view::npos) continue;
    StoredLine line;
    (void)std::from_chars(each.data(), each.data() + tab, line.number);
    line.run = run;
    line.json = each.substr(tab + 1);
    if (IsNumber(line.number)) lines->push_back(std::move(line));
  }
}

Status ReadIncidents(Database* database, Restored* restored) {
  Status status = ForEachRow(
      database->Prepare("SELECT number, json, id FROM incidents WHERE open OR number IN "
                        "(SELECT number FROM incidents ORDER BY number DESC LIMIT " +
                        std::to_string(Restored::kIncidentsMax) + ") ORDER BY number"),
      [&](Statement& row) {
        Result<StoredChange> change = ParseChange(row.Integer(0), "", row.Text(1));
        if (!change.ok() || change.value().incident.id != row.Text(2) || !IsNumber(row.Integer(0))) {
          restored->unreadable.push_back("DELETE FROM incidents WHERE number = " + std::to_string(row.Integer(0)));
          return;
        }
        StoredChange& each = change.value();
        restored->incidents.push_back({each.number, std::move(each.incident), std::move(each.acknowledgement)});
      });
  if (!status.ok()) return status;
  status = ForEachRow(
      database->Prepare("SELECT number, what, json FROM changes ORDER BY number DESC LIMIT " +
                        std::to_string(Restored::kChangesMax)),
      [&](Statement& row) {
        Result<StoredChange> change = ParseChange(row.Integer(0), row.Text(1), row.Text(2));
        if (change.ok())
          restored->changes.push_back(std::move(change).value());
        else
          restored->unreadable.push_back("DELETE FROM changes WHERE number = " + std::to_string(row.Integer(0)));
      });
  std::reverse(restored->changes.begin(), restored->changes.end());
  // An incident that is damaged in one table may be whole in the other.
  std::map<std::string, const StoredChange*> last;
  for (const StoredChange& change : restored->changes) last[change.incident.id] = &change;
  for (const StoredIncident& each : restored->incidents) last.erase(each.incident.id);
  for (const auto& [id, change] : last)
    restored->incidents.push_back({change->number, change->incident, change->acknowledgement});
  if (!restored->changes.empty()) restored->number_last = restored->changes.back().number;
  return status;
}

Status ReadLines(Database* database, Restored* restored) {
  Status status = ForEachRow(database->Prepare("SELECT run, number, t, json FROM begins"), [&](Statement& row) {
    restored->lines.push_back({row.Integer(1), row.Text(0), row.Number(2), row.Text(3), true});
  });
  if (!status.ok()) return status;
  status = ForEachRow(database->Prepare("SELECT run, t_last, text FROM lines ORDER BY id"), [&](Statement& row) {
    SplitChunk(row.Text(0), row.Text(2), &restored->lines);
    restored->t_last = row.Number(1);
  });
  auto& lines = restored->lines;
  std::stable_sort(lines.begin(), lines.end(),
                   [](const StoredLine& a, const StoredLine& b) { return a.number < b.number; });
  if (!lines.empty()) restored->number_last = std::max(restored->number_last, lines.back().number);
  if (!lines.empty() && restored->t_last == 0) restored->t_last = lines.back().t;
  return status;
}

Status ReadRuns(Database* database, Restored* restored) {
  return ForEachRow(database->Prepare("SELECT id, heard_t, summary FROM runs WHERE ended ORDER BY heard_t DESC LIMIT " +
                                      std::to_string(Restored::kRunsMax)),
                    [&](Statement& row) {
                      restored->runs.push_back({row.Text(0), true, row.Number(1), row.Text(2)});
                    });
}

Status ReadProcesses(Database* database, Restored* restored) {
  return ForEachRow(database->Prepare("SELECT json FROM processes"), [&](Statement& row) {
    Result<KnownProcess> process = ParseProcess(row.Text(0));
    if (process.ok()) restored->processes.push_back(std::move(process).value());
  });
}

Status ReadDeliveries(Database* database, Restored* restored) {
  return ForEachRow(database->Prepare("SELECT key, text FROM deliveries ORDER BY key LIMIT " +
                                      std::to_string(Restored::kDeliveriesMax)),
                    [&](Statement& row) { restored->deliveries.insert_or_assign(row.Text(0), row.Text(1)); });
}

Status ReadSilences(Database* database, Restored* restored) {
  return ForEachRow(
      database->Prepare("SELECT id, run, kind, by, note, created_t, until_t FROM silences ORDER BY created_t"),
      [&](Statement& row) {
        restored->silences.push_back(
            {row.Text(0), row.Text(1), row.Text(2), row.Text(3), row.Text(4), row.Number(5), row.Number(6)});
      });
}

Status ReadCountedUntil(Database* database, Restored* restored) {
  Result<Statement> select =
      database->Prepare("SELECT max FROM series WHERE run = ? AND name = 'time.step' ORDER BY step_first DESC LIMIT 1");
  if (!select.ok()) return select.status();
  std::set<std::string> runs;
  for (const StoredLine& line : restored->lines) runs.insert(line.run);
  for (const std::string& run : runs) {
    select.value().Bind(1, run);
    const Result<bool> row = select.value().Next();
    if (!row.ok()) return row.status();
    if (!row.value()) continue;
    if (const double step = select.value().Number(0); step >= 0 && step < static_cast<double>(kStoredNumberMax))
      restored->counted_until[run] = static_cast<int64_t>(step);
    if (const Result<bool> end = select.value().Next(); !end.ok()) return end.status();
  }
  return Status();
}

}  // namespace

void Restored::Append(const Batch& later) {
  lines.insert(lines.end(), later.lines.begin(), later.lines.end());
  for (const StoredChange& change : later.changes) {
    std::erase_if(incidents, [&](const StoredIncident& each) { return each.incident.id == change.incident.id; });
    incidents.push_back({change.number, change.incident, change.acknowledgement});
    changes.push_back(change);
    number_last = std::max(number_last, change.number);
  }
  if (!lines.empty()) number_last = std::max(number_last, lines.back().number);
  if (later.starts_deliveries_over) deliveries.clear();
  for (const auto& [key, text] : later.deliveries)
    if (text)
      deliveries.insert_or_assign(key, *text);
    else
      deliveries.erase(key);
  silences.insert(silences.end(), later.silences.begin(), later.silences.end());
  std::erase_if(silences, [&](const Silence& each) {
    const auto& removed = later.silences_removed;
    return std::find(removed.begin(), removed.end(), each.id) != removed.end();
  });
}

Result<Restored> ReadRestored(Database* database) {
  Restored restored;
  for (const auto read :
       {ReadIncidents, ReadLines, ReadCountedUntil, ReadRuns, ReadProcesses, ReadSilences, ReadDeliveries})
    if (Status status = read(database, &restored); !status.ok()) return status;
  return restored;
}

Result<std::vector<StoredChange>> ReadChanges(Database* database, const std::string& incident) {
  Result<Statement> select =
      database->Prepare("SELECT number, what, json FROM changes WHERE incident = ? ORDER BY number");
  if (select.ok()) select.value().Bind(1, incident);
  std::vector<StoredChange> changes;
  Status status = ForEachRow(std::move(select), [&](Statement& row) {
    Result<StoredChange> change = ParseChange(row.Integer(0), row.Text(1), row.Text(2));
    if (change.ok()) changes.push_back(std::move(change).value());
  });
  if (!status.ok()) return status;
  return changes;
}

}  // namespace stepwatch::operations
