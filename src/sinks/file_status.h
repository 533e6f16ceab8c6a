// What a failed call on a file of rows comes to.
#pragma once

#include <cerrno>
#include <string>
#include <string_view>

#include "src/base/file.h"
#include "stepwatch/status.h"

namespace stepwatch::sinks {

// A file that may not grow any more is kExhausted, like a full disk.
inline Status FileStatus(std::string_view what, const std::string& path, int error_number,
                         std::string_view consequence = "") {
  const Status status = base::ErrnoStatus(what, path, error_number);
  const StatusCode code = error_number == EFBIG ? StatusCode::kExhausted : status.code();
  return Status(code, status.message() + std::string(consequence));
}

}  // namespace stepwatch::sinks
