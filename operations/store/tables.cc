#include "operations/store/tables.h"

#include <string>

namespace stepwatch::operations {
namespace {

constexpr int64_t kApplicationId = 0x53575354;  // "SWST"

// A row of `lines` holds what one run has said in one batch: "number<TAB>json" for each line.
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
// A number is written here to see whether it can be. Earlier programs of this version pass it over.
constexpr const char* kProofs = "CREATE TABLE IF NOT EXISTS proofs (id INTEGER PRIMARY KEY, number INTEGER NOT NULL);";

std::string Pragma(const char* name, int64_t value) {
  return std::string("PRAGMA ") + name + " = " + std::to_string(value) + ";";
}

Status MakeTables(database::Database* database) {
  // What has been deleted is given back a few pages at a time. Must be set before there is a table.
  Status status = database->Execute("PRAGMA auto_vacuum = INCREMENTAL");
  if (!status.ok()) return status;
  return database->Execute("BEGIN IMMEDIATE;" + Pragma("application_id", kApplicationId) +
                           Pragma("user_version", kStoreVersion) + kTables + kTablesSince2 + kProofs + "COMMIT;");
}

}  // namespace

Status PrepareTables(database::Database* database) {
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
  if (version.value() == kStoreVersion) return database->Execute(kProofs);
  return database->Execute("BEGIN IMMEDIATE;" + Pragma("user_version", kStoreVersion) + kTablesSince2 + kProofs +
                           "COMMIT;");
}

Status CheckTables(database::Database* database) {
  for (const char* sql :
       {"SELECT id, run, t_last, bytes, text FROM lines LIMIT 1",
        "SELECT id, ended, heard_t, summary FROM runs LIMIT 1", "SELECT run, number, t, json FROM begins LIMIT 1",
        "SELECT id, run, open, number, opened_t, json FROM incidents LIMIT 1",
        "SELECT number, incident, what, json FROM changes LIMIT 1",
        "SELECT incident, t, by, note FROM acknowledgements LIMIT 1",
        "SELECT id, run, kind, by, note, created_t, until_t FROM silences LIMIT 1",
        "SELECT run, name, step_first, step_last, t, min, max, mean, last, count, nonfinite FROM series LIMIT 1",
        "SELECT key, seen_t, json FROM processes LIMIT 1", "SELECT id, number FROM proofs LIMIT 1"})
    if (const Result<int64_t> row = database->Ask(sql); !row.ok()) return row.status();
  return Status();
}

}  // namespace stepwatch::operations
