// The token that requests over TCP must show, in a file of the user's own. Socket thread only.
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

  // `files` outlives it.
  TokenFile(std::string path, uid_t owner, base::FileSystem& files)
      : path_(std::move(path)), owner_(owner), files_(files) {}

  // Reads the file if it is another one than at the last look, so that a token can be replaced while the job runs.
  // Anything but Ok: there is no token.
  Status Look();
  // True for the token. The time that it takes does not depend on where the two differ.
  bool IsToken(std::string_view shown_untrusted) const;
  // Stands for the token where it must not be shown; empty: there is none.
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
  struct stat seen_ {};  // when it was read
};

}  // namespace stepwatch::sockets
