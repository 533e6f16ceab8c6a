// Converts a failed call on a file of rows to a Status.
#pragma once

#include <cerrno>
#include <string>
#include <string_view>

#include "src/base/file.h"
#include "stepwatch/status.h"

namespace stepwatch::sinks {

// A file at its size limit is kExhausted, like a full disk.
inline Status FileStatus(std::string_view what, const std::string& path, int error_number,
                         std::string_view consequence = "") {
  const Status status = base::ErrnoStatus(what, path, error_number);
  const StatusCode code = error_number == EFBIG ? StatusCode::kExhausted : status.code();
  return Status(code, status.message() + std::string(consequence));
}

}  // namespace stepwatch::sinks
