// SQLite with a Status for each failure.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "stepwatch/status.h"

namespace stepwatch::database {

class Database;

// A prepared statement: bind from 1 on, run, run again. Not thread-safe, like its database.
class Statement {
 public:
  void Bind(int place, int64_t value) { sqlite3_bind_int64(statement_.get(), place, value); }
  // NaN becomes NULL.
  void Bind(int place, double value) { sqlite3_bind_double(statement_.get(), place, value); }
  void Bind(int place, std::string_view text) {
    sqlite3_bind_text64(statement_.get(), place, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  }
  // For statements without rows. The values stay bound.
  Status Run();

  // For statements with rows: true with the next one, false after the last; then the statement restarts.
  Result<bool> Next();
  // Values of the current row, columns from 0 on. NULL is 0, NaN, or an empty text.
  int64_t Integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  double Number(int column) const {
    if (sqlite3_column_type(statement_.get(), column) == SQLITE_NULL) return std::numeric_limits<double>::quiet_NaN();
    return sqlite3_column_double(statement_.get(), column);
  }
  std::string Text(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  Database* database_ = nullptr;
};

class Database {
 public:
  // Creates the file; it must not exist.
  static Result<Database> Create(const std::string& path);
  // Creates the file unless it exists. `vfs`: name of a file system registered with SQLite; empty: the default. A file
  // that is not a database, or damaged, is kInvalid at the first read.
  static Result<Database> Open(const std::string& path, const std::string& vfs = "");

  Status Execute(const std::string& sql);
  // The database must not be moved while the statement lives.
  Result<Statement> Prepare(const std::string& sql);
  // Runs a query for one number: the only column of the only row.
  Result<int64_t> Ask(const std::string& sql);
  // One transaction around `work`, which returns a Status: rolled back completely if any of it fails.
  template <class Work>
  Status Transact(const Work& work) {
    Status status = Execute("BEGIN IMMEDIATE");
    if (!status.ok()) return status;
    status = work();
    if (status.ok()) status = Execute("COMMIT");
    // Some errors have ended the transaction already.
    if (!status.ok() && !is_autocommit()) (void)Execute("ROLLBACK");
    return status;
  }
  int64_t last_row_id() const { return sqlite3_last_insert_rowid(handle_.get()); }
  // Rows changed by the last statement.
  int changes() const { return sqlite3_changes(handle_.get()); }
  // False while a transaction is open, also after some errors.
  bool is_autocommit() const { return sqlite3_get_autocommit(handle_.get()) != 0; }
  // Copies the rows of a table into the same table of `to`, as many as a damaged file allows: from its first row on,
  // and then from its last row back, which is `order` backwards. Rows that `to` already has, or rejects, are skipped.
  // Fails only if `to` cannot be written to.
  Status CopyRows(const std::string& table, const std::string& order, Database* to);
  // Prevents further writes when it closes: its files may be gone, or belong to another database by now.
  void AbandonFiles();
  // All statements must be destroyed.
  Status Close();
  Status Error(int code) const;

 private:
  struct CloseHandle {
    void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  };
  explicit Database(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::unique_ptr<sqlite3, CloseHandle> handle_;
};

}  // namespace stepwatch::database
