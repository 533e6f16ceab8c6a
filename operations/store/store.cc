#include "operations/store/store.h"

#include <string>
#include <utility>

#include "operations/store/row_text.h"
#include "operations/store/series_table.h"

namespace stepwatch::operations {
namespace {

using database::Database;
using database::Statement;

// Another program that reads the database may lock it for a moment.
constexpr const char* kSetUp =
    "PRAGMA busy_timeout = 2000; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 16777216;"
    "PRAGMA temp_store = MEMORY;";
constexpr const char* kJournal = "PRAGMA journal_mode = WAL";

// The lines of one run in one batch.
struct Chunk {
  double t_last = 0;
  std::string text;
};

void AddLine(const StoredLine& line, Chunk* chunk) {
  chunk->t_last = line.t;
  chunk->text.append(std::to_string(line.number)).append("\t").append(line.json).append("\n");
}

constexpr int64_t kStoreVersion = 2;

// A table of the store, and an order in which its rows are found one by one.
struct StoreTable {
  const char* name;
  const char* order;
};
constexpr StoreTable kStoreTables[] = {
    {"incidents", "id"},   {"changes", "number"}, {"acknowledgements", "rowid"},
    {"silences", "id"},    {"runs", "id"},        {"processes", "key"},
    {"begins", "run"},     {"lines", "id"},       {"series", "run, name, step_first"},
    {"deliveries", "key"},
};

constexpr int64_t kApplicationId = 0x53575354;  // "SWST"

// A row of `lines` holds the lines of one run in one batch: "number<TAB>json" for each.
constexpr const char* kTables = R"(
CREATE TABLE lines (id INTEGER PRIMARY KEY, run TEXT NOT NULL, t_last REAL NOT NULL, bytes INTEGER NOT NULL,
                    text TEXT NOT NULL);
CREATE INDEX lines_of_run ON lines (run, id);
CREATE TABLE runs (id TEXT PRIMARY KEY, ended INTEGER NOT NULL, heard_t REAL NOT NULL, summary TEXT NOT NULL)
  WITHOUT ROWID;
CREATE TABLE begins (run TEXT PRIMARY KEY, number INTEGER NOT NULL, t REAL NOT NULL, json TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE incidents (id TEXT PRIMARY KEY, run TEXT NOT NULL, open INTEGER NOT NULL, number INTEGER NOT NULL,
                        opened_t REAL NOT NULL, json TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX incidents_by_number ON incidents (number);
CREATE TABLE changes (number INTEGER PRIMARY KEY, incident TEXT NOT NULL, what TEXT NOT NULL, json TEXT NOT NULL);
CREATE INDEX changes_of_incident ON changes (incident, number);
CREATE TABLE acknowledgements (incident TEXT NOT NULL, t REAL NOT NULL, by TEXT NOT NULL, note TEXT NOT NULL);
CREATE INDEX acknowledgements_of_incident ON acknowledgements (incident);
CREATE TABLE silences (id TEXT PRIMARY KEY, run TEXT NOT NULL, kind TEXT NOT NULL, by TEXT NOT NULL,
                       note TEXT NOT NULL, created_t REAL NOT NULL, until_t REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE series (run TEXT NOT NULL, name TEXT NOT NULL, step_first INTEGER NOT NULL, step_last INTEGER NOT NULL,
                     t REAL, min REAL, max REAL, mean REAL, last REAL, count INTEGER NOT NULL,
                     nonfinite INTEGER NOT NULL, PRIMARY KEY (run, name, step_first)) WITHOUT ROWID;
)";
constexpr const char* kTablesSince2 = R"(
CREATE TABLE processes (key TEXT PRIMARY KEY, seen_t REAL NOT NULL, json TEXT NOT NULL) WITHOUT ROWID;
)";
// Earlier programs of this version ignore these tables. In `proofs` a number is written to test writing.
constexpr const char* kTablesWithin2 = R"(
CREATE TABLE IF NOT EXISTS proofs (id INTEGER PRIMARY KEY, number INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS deliveries (key TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
)";

std::string Pragma(const char* name, int64_t value) {
  return std::string("PRAGMA ") + name + " = " + std::to_string(value) + ";";
}

Status MakeTables(Database* database) {
  // Deleted pages are returned to the file system a few at a time. Must be set before there is a table.
  Status status = database->Execute("PRAGMA auto_vacuum = INCREMENTAL");
  if (!status.ok()) return status;
  return database->Execute("BEGIN IMMEDIATE;" + Pragma("application_id", kApplicationId) +
                           Pragma("user_version", kStoreVersion) + kTables + kTablesSince2 + kTablesWithin2 +
                           "COMMIT;");
}

// Makes the tables in an empty database, and those that an earlier version lacks. kUnsupported: a later version of
// Stepwatch or another program wrote it; it is then unchanged.
Status PrepareTables(Database* database) {
  const Result<int64_t> application = database->Ask("PRAGMA application_id");
  if (!application.ok()) return application.status();
  const Result<int64_t> version = database->Ask("PRAGMA user_version");
  if (!version.ok()) return version.status();
  const Result<int64_t> tables = database->Ask("SELECT count(*) FROM sqlite_master");
  if (!tables.ok()) return tables.status();
  if (application.value() == 0 && version.value() == 0 && tables.value() == 0) return MakeTables(database);
  if (application.value() != kApplicationId)
    return Status(StatusCode::kUnsupported, "the file is a database of another program");
  if (version.value() > kStoreVersion)
    return Status(StatusCode::kUnsupported, "the store has version " + std::to_string(version.value()) +
                                                ", written by a later stepwatchd; this one reads versions up to " +
                                                std::to_string(kStoreVersion));
  if (version.value() == kStoreVersion) return database->Execute(kTablesWithin2);
  return database->Execute("BEGIN IMMEDIATE;" + Pragma("user_version", kStoreVersion) + kTablesSince2 + kTablesWithin2 +
                           "COMMIT;");
}

// kInvalid: a table is missing, or its columns differ from this version's.
Status CheckTables(Database* database) {
  for (const char* sql :
       {"SELECT id, run, t_last, bytes, text FROM lines LIMIT 1",
        "SELECT id, ended, heard_t, summary FROM runs LIMIT 1", "SELECT run, number, t, json FROM begins LIMIT 1",
        "SELECT id, run, open, number, opened_t, json FROM incidents LIMIT 1",
        "SELECT number, incident, what, json FROM changes LIMIT 1",
        "SELECT incident, t, by, note FROM acknowledgements LIMIT 1",
        "SELECT id, run, kind, by, note, created_t, until_t FROM silences LIMIT 1",
        "SELECT run, name, step_first, step_last, t, min, max, mean, last, count, nonfinite FROM series LIMIT 1",
        "SELECT key, seen_t, json FROM processes LIMIT 1", "SELECT id, number FROM proofs LIMIT 1",
        "SELECT key, text FROM deliveries LIMIT 1"})
    if (const Result<int64_t> row = database->Ask(sql); !row.ok()) return row.status();
  return Status();
}

Status WriteLines(Database* database, const std::deque<StoredLine>& lines) {
  if (lines.empty()) return Status();
  std::map<std::string, Chunk> chunks;
  std::map<std::string, const StoredLine*> begins;
  for (const StoredLine& line : lines) {
    if (line.begins) {
      begins[line.run] = &line;
      chunks.erase(line.run);
    }
    if (!line.begins) AddLine(line, &chunks[line.run]);
  }
  Result<Statement> forget = database->Prepare("DELETE FROM lines WHERE run = ?");
  Result<Statement> begin = database->Prepare("INSERT OR REPLACE INTO begins VALUES (?, ?, ?, ?)");
  Result<Statement> insert = database->Prepare("INSERT INTO lines (run, t_last, bytes, text) VALUES (?, ?, ?, ?)");
  for (const auto* prepared : {&forget, &begin, &insert})
    if (!prepared->ok()) return prepared->status();
  for (const auto& [run, line] : begins) {
    forget.value().Bind(1, run);
    begin.value().Bind(1, run);
    begin.value().Bind(2, line->number);
    begin.value().Bind(3, line->t);
    begin.value().Bind(4, line->json);
    if (Status status = forget.value().Run(); !status.ok()) return status;
    if (Status status = begin.value().Run(); !status.ok()) return status;
  }
  for (const auto& [run, chunk] : chunks) {
    insert.value().Bind(1, run);
    insert.value().Bind(2, chunk.t_last);
    insert.value().Bind(3, static_cast<int64_t>(chunk.text.size()));
    insert.value().Bind(4, chunk.text);
    if (Status status = insert.value().Run(); !status.ok()) return status;
  }
  return Status();
}

Status WriteRuns(Database* database, const Batch& batch) {
  if (batch.runs.empty()) return Status();
  Result<Statement> write = database->Prepare("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?)");
  if (!write.ok()) return write.status();
  for (const auto& [id, run] : batch.runs) {
    write.value().Bind(1, id);
    write.value().Bind(2, int64_t{run.ended});
    write.value().Bind(3, run.heard_t);
    write.value().Bind(4, run.summary);
    if (Status status = write.value().Run(); !status.ok()) return status;
  }
  return Status();
}

Status WriteChange(Database* database, const StoredChange& change) {
  Result<Statement> log = database->Prepare("INSERT OR REPLACE INTO changes VALUES (?, ?, ?, ?)");
  Result<Statement> write = database->Prepare("INSERT OR REPLACE INTO incidents VALUES (?, ?, ?, ?, ?, ?)");
  for (const auto* prepared : {&log, &write})
    if (!prepared->ok()) return prepared->status();
  const Incident& incident = change.incident;
  const std::string text = ChangeText(change);
  log.value().Bind(1, change.number);
  log.value().Bind(2, incident.id);
  log.value().Bind(3, change.what);
  log.value().Bind(4, text);
  write.value().Bind(1, incident.id);
  write.value().Bind(2, incident.run);
  write.value().Bind(3, int64_t{incident.state != IncidentState::kResolved});
  write.value().Bind(4, change.number);
  write.value().Bind(5, incident.opened_t);
  write.value().Bind(6, text);
  if (Status status = log.value().Run(); !status.ok()) return status;
  if (Status status = write.value().Run(); !status.ok()) return status;
  if (change.what != "acknowledged" || !change.acknowledgement) return Status();
  Result<Statement> insert = database->Prepare("INSERT INTO acknowledgements VALUES (?, ?, ?, ?)");
  if (!insert.ok()) return insert.status();
  insert.value().Bind(1, incident.id);
  insert.value().Bind(2, change.acknowledgement->t);
  insert.value().Bind(3, change.acknowledgement->by);
  insert.value().Bind(4, change.acknowledgement->note);
  return insert.value().Run();
}

Status WriteSilences(Database* database, const Batch& batch) {
  if (batch.silences.empty() && batch.silences_removed.empty()) return Status();
  Result<Statement> write = database->Prepare("INSERT OR REPLACE INTO silences VALUES (?, ?, ?, ?, ?, ?, ?)");
  Result<Statement> remove = database->Prepare("DELETE FROM silences WHERE id = ?");
  for (const auto* prepared : {&write, &remove})
    if (!prepared->ok()) return prepared->status();
  for (const Silence& silence : batch.silences) {
    write.value().Bind(1, silence.id);
    write.value().Bind(2, silence.run);
    write.value().Bind(3, silence.kind);
    write.value().Bind(4, silence.by);
    write.value().Bind(5, silence.note);
    write.value().Bind(6, silence.created_t);
    write.value().Bind(7, silence.until_t);
    if (Status status = write.value().Run(); !status.ok()) return status;
  }
  for (const std::string& id : batch.silences_removed) {
    remove.value().Bind(1, id);
    if (Status status = remove.value().Run(); !status.ok()) return status;
  }
  return Status();
}

Status WriteProcesses(Database* database, const Batch& batch) {
  if (batch.processes.empty()) return Status();
  Result<Statement> write = database->Prepare("INSERT OR REPLACE INTO processes VALUES (?, ?, ?)");
  Result<Statement> remove = database->Prepare("DELETE FROM processes WHERE key = ?");
  for (const auto* prepared : {&write, &remove})
    if (!prepared->ok()) return prepared->status();
  for (const auto& [key, process] : batch.processes) {
    Statement& statement = process ? write.value() : remove.value();
    statement.Bind(1, key);
    if (process) statement.Bind(2, process->seen_t);
    if (process) statement.Bind(3, ProcessText(*process));
    if (Status status = statement.Run(); !status.ok()) return status;
  }
  return Status();
}

Status WriteDeliveries(Database* database, const Batch& batch) {
  if (batch.starts_deliveries_over)
    if (Status status = database->Execute("DELETE FROM deliveries"); !status.ok()) return status;
  if (batch.deliveries.empty()) return Status();
  Result<Statement> write = database->Prepare("INSERT OR REPLACE INTO deliveries VALUES (?, ?)");
  Result<Statement> remove = database->Prepare("DELETE FROM deliveries WHERE key = ?");
  for (const auto* prepared : {&write, &remove})
    if (!prepared->ok()) return prepared->status();
  for (const auto& [key, text] : batch.deliveries) {
    Statement& statement = text ? write.value() : remove.value();
    statement.Bind(1, key);
    if (text) statement.Bind(2, *text);
    if (Status status = statement.Run(); !status.ok()) return status;
  }
  return Status();
}

Status WriteSeries(Database* database, const std::vector<StoredSeries>& all) {
  if (all.empty()) return Status();
  Result<SeriesWriter> writer = SeriesWriter::Open(database);
  if (!writer.ok()) return writer.status();
  for (const StoredSeries& series : all)
    if (Status status = writer.value().Replace(series); !status.ok()) return status;
  return Status();
}

Status WriteAll(Database* database, const Batch& batch) {
  if (Status status = WriteLines(database, batch.lines); !status.ok()) return status;
  if (Status status = WriteRuns(database, batch); !status.ok()) return status;
  for (const StoredChange& change : batch.changes)
    if (Status status = WriteChange(database, change); !status.ok()) return status;
  if (Status status = WriteSilences(database, batch); !status.ok()) return status;
  if (Status status = WriteProcesses(database, batch); !status.ok()) return status;
  if (Status status = WriteDeliveries(database, batch); !status.ok()) return status;
  return WriteSeries(database, batch.series);
}

}  // namespace

Result<std::unique_ptr<Store>> Store::Open(const StoreOptions& options) {
  Result<Database> opened = Database::Open(options.path, options.vfs);
  if (!opened.ok()) return opened.status();
  std::unique_ptr<Store> store(new Store(options, std::move(opened).value()));
  Status status = store->database_.Execute(kSetUp);
  if (status.ok()) status = PrepareTables(&store->database_);
  if (status.ok()) status = CheckTables(&store->database_);
  if (status.ok()) status = store->database_.Execute(kJournal);
  if (!status.ok()) return Status(status.code(), options.path + ": " + status.message());
  return store;
}

Status Store::Write(const Batch& batch) {
  if (batch.empty()) return Status();
  return database_.Transact([&] { return WriteAll(&database_, batch); });
}

Status Store::Check() {
  // A connection that is already open has cached data that the files no longer hold.
  Result<Database> fresh = Database::Open(options_.path, options_.vfs);
  if (!fresh.ok()) return fresh.status();
  if (Status status = fresh.value().Execute(kSetUp); !status.ok()) return status;
  Result<Statement> check = fresh.value().Prepare("PRAGMA quick_check(1)");
  if (!check.ok()) return check.status();
  const Result<bool> row = check.value().Next();
  if (!row.ok()) return row.status();
  const std::string found = row.value() ? check.value().Text(0) : "quick_check returned no row";
  return found == "ok" ? Status() : Status(StatusCode::kInvalid, "the database is damaged: " + found);
}

Status Store::Prove() {
  ++proof_;
  Status status = database_.Execute("INSERT OR REPLACE INTO proofs VALUES (1, " + std::to_string(proof_) + ")");
  if (!status.ok()) return status;
  Result<Database> fresh = Database::Open(options_.path, options_.vfs);
  if (!fresh.ok()) return fresh.status();
  if (status = fresh.value().Execute(kSetUp); !status.ok()) return status;
  const Result<int64_t> read = fresh.value().Ask("SELECT number FROM proofs WHERE id = 1");
  if (!read.ok()) return read.status();
  if (read.value() == proof_) return Status();
  return Status(StatusCode::kInvalid, "written data cannot be read back from " + options_.path);
}

Status Store::TakeOver(Database* other) {
  return database_.Transact([&] {
    for (const StoreTable& table : kStoreTables)
      if (Status status = other->CopyRows(table.name, table.order, &database_); !status.ok()) return status;
    return Status();
  });
}

Status Store::Delete(const std::vector<std::string>& unreadable) {
  for (const std::string& sql : unreadable)
    if (Status status = database_.Execute(sql); !status.ok()) return status;
  return Status();
}

Result<std::vector<std::string>> Store::SeriesNames(const std::string& run) {
  Result<Statement> select = database_.Prepare("SELECT DISTINCT name FROM series WHERE run = ?");
  if (!select.ok()) return select.status();
  select.value().Bind(1, run);
  std::vector<std::string> names;
  for (;;) {
    const Result<bool> row = select.value().Next();
    if (!row.ok()) return row.status();
    if (!row.value()) return names;
    names.push_back(select.value().Text(0));
  }
}

Result<int64_t> Store::LastChange() {
  return database_.Ask("SELECT max(number) FROM changes");
}

Result<int64_t> Store::Bytes() {
  const Result<int64_t> pages = database_.Ask("PRAGMA page_count");
  if (!pages.ok()) return pages;
  const Result<int64_t> page = database_.Ask("PRAGMA page_size");
  if (!page.ok()) return page;
  return pages.value() * page.value();
}

}  // namespace stepwatch::operations
