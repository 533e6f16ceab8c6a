#include "src/sockets/token_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>

#include "src/base/file.h"
#include "src/base/sha256.h"
#include "src/base/text.h"

namespace stepwatch::sockets {
namespace {

constexpr mode_t kOthers = 0077;
constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=";  // characters of a bearer token, RFC 6750

bool IsSame(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size && a.st_mode == b.st_mode &&
         a.st_uid == b.st_uid && a.st_ctim.tv_sec == b.st_ctim.tv_sec && a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

}  // namespace

Status TokenFile::Refusal(const std::string& why) const {
  return Status(StatusCode::kUnavailable, "the token file " + base::Printable(path_, 300) + " " + why);
}

Status TokenFile::Look() {
  // Does not follow a link or block on a pipe.
  auto opened = base::Open(path_, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0, files_);
  struct stat about {};
  Status found;
  if (!opened.ok()) {
    found = IsLink() ? Refusal("is a symbolic link; it must be a regular file") : opened.status();
  } else if (base::RepeatInterrupted([&] { return files_.Fstat(opened.value().get(), &about); }) != 0) {
    found = base::ErrnoStatus("cannot look at", path_, errno);
  } else if (!sha256_.empty() && IsSame(about, seen_)) {
    return Status();
  } else {
    found = Check(about);
    if (found.ok()) found = Read(opened.value().get());
  }
  seen_ = about;
  if (!found.ok()) sha256_.clear();
  return found;
}

bool TokenFile::IsLink() const {
  struct stat about {};
  return files_.Lstat(path_.c_str(), &about) == 0 && S_ISLNK(about.st_mode);
}

Status TokenFile::Check(const struct stat& about) const {
  if (!S_ISREG(about.st_mode)) return Refusal("is not a regular file");
  if (about.st_uid != owner_)
    return Refusal(fmt::format("belongs to uid {}, and this process runs as uid {}", about.st_uid, owner_));
  if ((about.st_mode & kOthers) != 0)
    return Refusal(
        fmt::format("has mode {:04o}; it must be 0600, so that no other user can read it", about.st_mode & 0777));
  return Status();
}

Status TokenFile::Read(int fd) {
  const Result<std::string> text = base::ReadAll(fd, 2 * kTokenBytesMax, files_);
  if (!text.ok()) return Refusal("cannot be read: " + text.status().message());
  std::string_view token = text.value();
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.remove_suffix(1);
  if (token.size() < kTokenBytesMin || token.size() > kTokenBytesMax)
    return Refusal(fmt::format("holds {} characters; a token has {} to {} (create one with openssl rand -hex 32)",
                               token.size(), kTokenBytesMin, kTokenBytesMax));
  if (token.find_first_not_of(kLetters) != std::string_view::npos)
    return Refusal("does not hold exactly one token: letters, digits and -._~+/= on one line");
  sha256_ = base::Sha256Hex(token);
  return Status();
}

// Hashes have equal lengths, so the comparison does not depend on the length of the presented token.
bool TokenFile::IsToken(std::string_view shown_untrusted) const {
  if (sha256_.empty()) return false;
  const std::string shown = base::Sha256Hex(shown_untrusted);
  return CRYPTO_memcmp(shown.data(), sha256_.data(), sha256_.size()) == 0;
}

}  // namespace stepwatch::sockets
