#include "src/database/database.h"

namespace stepwatch::database {

Result<Database> Database::Create(const std::string& path) {
  return Open(path);
}

Result<Database> Database::Open(const std::string& path, const std::string& vfs) {
  Database database(path);
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                                   vfs.empty() ? nullptr : vfs.c_str());
  database.handle_.reset(handle);  // set even after most errors
  if (code != SQLITE_OK) return database.Error(code);
  return database;
}

Status Database::Error(int code) const {
  const int extended = handle_ ? sqlite3_extended_errcode(handle_.get()) : code;
  const bool full = code == SQLITE_FULL || code == SQLITE_NOMEM || code == SQLITE_TOOBIG;
  // SQLITE_ERROR: a table or a column is missing, because every statement here is a tested one.
  const bool damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_ERROR ||
                       code == SQLITE_SCHEMA || code == SQLITE_CONSTRAINT || extended == SQLITE_IOERR_READ ||
                       extended == SQLITE_IOERR_SHORT_READ || extended == SQLITE_IOERR_CORRUPTFS;
  const char* text = handle_ ? sqlite3_errmsg(handle_.get()) : sqlite3_errstr(code);
  return Status(full      ? StatusCode::kExhausted
                : damaged ? StatusCode::kInvalid
                          : StatusCode::kUnavailable,
                "cannot " + std::string(damaged ? "use" : "write") + " the database " + path_ + ": " + text);
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

Result<int64_t> Database::Ask(const std::string& sql) {
  Result<Statement> statement = Prepare(sql);
  if (!statement.ok()) return statement.status();
  const Result<bool> row = statement.value().Next();
  if (!row.ok()) return row.status();
  return row.value() ? statement.value().Integer(0) : int64_t{0};
}

Status Database::CopyRows(const std::string& table, const std::string& order, Database* to) {
  Result<Statement> shape = to->Prepare("SELECT * FROM " + table);
  if (!shape.ok()) return shape.status();
  const int columns = sqlite3_column_count(shape.value().statement_.get());
  std::string places = "?";
  for (int i = 1; i < columns; ++i) places += ", ?";
  Result<Statement> insert = to->Prepare("INSERT OR IGNORE INTO " + table + " VALUES (" + places + ")");
  if (!insert.ok()) return insert.status();
  for (const char* direction : {" ASC", " DESC"}) {
    Result<Statement> select = Prepare("SELECT * FROM " + table + " ORDER BY " + order + direction);
    if (!select.ok() || sqlite3_column_count(select.value().statement_.get()) != columns) return Status();
    for (;;) {
      const Result<bool> row = select.value().Next();
      if (!row.ok()) break;
      if (!row.value()) return Status();
      for (int i = 0; i < columns; ++i)
        sqlite3_bind_value(insert.value().statement_.get(), i + 1,
                           sqlite3_column_value(select.value().statement_.get(), i));
      if (Status status = insert.value().Run(); !status.ok()) return status;
    }
  }
  return Status();
}

void Database::AbandonFiles() {
  sqlite3_db_config(handle_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
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

Result<bool> Statement::Next() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  Status status = code == SQLITE_DONE ? Status() : database_->Error(code);
  sqlite3_reset(statement_.get());
  if (!status.ok()) return status;
  return false;
}

std::string Statement::Text(int column) const {
  const void* text = sqlite3_column_text(statement_.get(), column);
  if (text == nullptr) return "";
  return std::string(static_cast<const char*>(text),
                     static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column)));
}

}  // namespace stepwatch::database
