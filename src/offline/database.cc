#include "src/offline/database.h"

namespace stepwatch::offline {

Result<Database> Database::Create(const std::string& path) {
  Database database(path);
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  database.handle_.reset(handle);  // there is one even after most errors
  if (code != SQLITE_OK) return database.Error(code);
  return database;
}

Status Database::Error(int code) const {
  const bool full = code == SQLITE_FULL || code == SQLITE_NOMEM || code == SQLITE_TOOBIG;
  const char* text = handle_ ? sqlite3_errmsg(handle_.get()) : sqlite3_errstr(code);
  return Status(full ? StatusCode::kExhausted : StatusCode::kUnavailable,
                "cannot write the database " + path_ + ": " + text);
}

Status Database::Execute(const std::string& sql) {
  const int code = sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? Status() : Error(code);
}

Result<Statement> Database::Prepare(const std::string& sql) {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v2(handle_.get(), sql.c_str(), static_cast<int>(sql.size()), &raw, nullptr);
  if (code != SQLITE_OK) return Error(code);
  Statement statement;
  statement.statement_.reset(raw);
  statement.database_ = this;
  return statement;
}

Status Database::Close() {
  const int code = sqlite3_close(handle_.get());
  if (code != SQLITE_OK) return Error(code);
  (void)handle_.release();
  return Status();
}

Status Statement::Run() {
  const int code = sqlite3_step(statement_.get());
  Status status = code == SQLITE_DONE || code == SQLITE_ROW ? Status() : database_->Error(code);
  sqlite3_reset(statement_.get());
  return status;
}

}  // namespace stepwatch::offline
