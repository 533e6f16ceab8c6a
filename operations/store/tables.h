// The tables of the store, and the number of their version.
#pragma once

#include "src/database/database.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

inline constexpr int64_t kStoreVersion = 2;

// A table of the store, and an order in which its rows are found one by one.
struct StoreTable {
  const char* name;
  const char* order;
};
inline constexpr StoreTable kStoreTables[] = {
    {"incidents", "id"}, {"changes", "number"}, {"acknowledgements", "rowid"},
    {"silences", "id"},  {"runs", "id"},        {"processes", "key"},
    {"begins", "run"},   {"lines", "id"},       {"series", "run, name, step_first"},
};

// Makes the tables in an empty database, and those that an earlier version has not. kUnsupported: a later version of
// Stepwatch has written it, or another program; nothing is changed then.
Status PrepareTables(database::Database* database);
// kInvalid: a table is not there, or has other columns than this version's.
Status CheckTables(database::Database* database);

}  // namespace stepwatch::operations
