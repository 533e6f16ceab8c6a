#include "operations/delivery/secrets.h"

#include <algorithm>

#include "src/base/found_file.h"
#include "src/base/text.h"

namespace stepwatch::operations::delivery {
namespace {

Status ReadSecret(const std::string& path, base::FileSystem& files, std::string* secret) {
  if (path.empty()) return Status();
  const Result<std::string> text = base::ReadFound(path, kSecretBytesMax, std::nullopt, files);
  if (!text.ok()) return text.status();
  constexpr const char* kSpace = " \t\r\n";
  const size_t begin = text.value().find_first_not_of(kSpace);
  if (begin == std::string::npos)
    return Status(StatusCode::kInvalid, base::Printable(path, 300) + " is empty; one line with the secret is expected");
  *secret = text.value().substr(begin, text.value().find_last_not_of(kSpace) + 1 - begin);
  const bool is_line = std::none_of(secret->begin(), secret->end(),
                                    [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; });
  if (is_line) return Status();
  secret->clear();
  return Status(StatusCode::kInvalid, base::Printable(path, 300) +
                                          " has several lines or control characters; one line with the secret is "
                                          "expected");
}

}  // namespace

Result<Secrets> ReadSecrets(const ReceiverSettings& settings, base::FileSystem& files) {
  Secrets secrets;
  if (Status read = ReadSecret(settings.url_file, files, &secrets.url); !read.ok()) return read;
  if (Status read = ReadSecret(settings.secret_file, files, &secrets.secret); !read.ok()) return read;
  if (Status read = ReadSecret(settings.token_file, files, &secrets.token); !read.ok()) return read;
  if (Status read = ReadSecret(settings.password_file, files, &secrets.password); !read.ok()) return read;
  return secrets;
}

}  // namespace stepwatch::operations::delivery
