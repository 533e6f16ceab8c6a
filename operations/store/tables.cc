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

std::string Pragma(const char* name, int64_t value) {
  return std::string("PRAGMA ") + name + " = " + std::to_string(value) + ";";
}

Status MakeTables(database::Database* database) {
  // What has been deleted is given back a few pages at a time. Must be set before there is a table.
  Status status = database->Execute("PRAGMA auto_vacuum = INCREMENTAL");
  if (!status.ok()) return status;
  return database->Execute("BEGIN IMMEDIATE;" + Pragma("application_id", kApplicationId) +
                           Pragma("user_version", kStoreVersion) + kTables + kTablesSince2 + "COMMIT;");
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
    return Status(StatusCode::kUnsupported, "the file is a database of another program; name another state directory");
  if (version.value() > kStoreVersion)
    return Status(StatusCode::kUnsupported, "the store is of version " + std::to_string(version.value()) +
                                                ", written by a later stepwatchd, and this one knows versions up to " +
                                                std::to_string(kStoreVersion) +
                                                "; run the later one, or name another state directory");
  if (version.value() == kStoreVersion) return Status();
  return database->Execute("BEGIN IMMEDIATE;" + Pragma("user_version", kStoreVersion) + kTablesSince2 + "COMMIT;");
}

}  // namespace stepwatch::operations
