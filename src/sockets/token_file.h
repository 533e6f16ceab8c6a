// The token that requests over TCP must present, in a file owned by the user. Socket thread only.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <string>
#include <string_view>

#include "src/base/file_system.h"
#include "stepwatch/status.h"

namespace stepwatch::sockets {

class TokenFile {
 public:
  static constexpr size_t kTokenBytesMin = 16;
  static constexpr size_t kTokenBytesMax = 1024;

  // `files` must outlive it.
  TokenFile(std::string path, uid_t owner, base::FileSystem& files)
      : path_(std::move(path)), owner_(owner), files_(files) {}

  // Reads the file if it changed since the last call, so that a token can be replaced while the job runs. Any error
  // leaves the object without a token.
  Status Look();
  // Compares in time that does not depend on where the two differ.
  bool IsToken(std::string_view shown_untrusted) const;
  // Identifies the token without exposing it; empty: no token.
  const std::string& sha256() const { return sha256_; }

 private:
  bool IsLink() const;
  Status Check(const struct stat& about) const;
  Status Read(int fd);
  Status Refusal(const std::string& why) const;

  const std::string path_;
  const uid_t owner_;
  base::FileSystem& files_;
  std::string sha256_;
  struct stat seen_ {};  // attributes at the last read
};

}  // namespace stepwatch::sockets
