// A change of an incident as the text that the store keeps.
#pragma once

#include <string>
#include <string_view>

#include "operations/store/batch.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

std::string ChangeText(const StoredChange& change);
// `number` and `what` stand in columns of their own.
Result<StoredChange> ParseChange(int64_t number, const std::string& what, std::string_view text);

}  // namespace stepwatch::operations
