// Changes of incidents and known processes as the texts of their rows in the store.
#pragma once

#include <string>
#include <string_view>

#include "operations/store/batch.h"
#include "operations/vocabulary/known_process.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

std::string ChangeText(const StoredChange& change);
// `number` and `what` have columns of their own.
Result<StoredChange> ParseChange(int64_t number, const std::string& what, std::string_view text);

std::string ProcessText(const KnownProcess& process);
Result<KnownProcess> ParseProcess(std::string_view text);

}  // namespace stepwatch::operations
