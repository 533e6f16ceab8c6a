// The tables of the store, and the number of their version.
#pragma once

#include "src/database/database.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

inline constexpr int64_t kStoreVersion = 2;

// Makes the tables in an empty database, and those that an earlier version has not. kUnsupported: a later version of
// Stepwatch has written it, or another program; nothing is changed then.
Status PrepareTables(database::Database* database);

}  // namespace stepwatch::operations
