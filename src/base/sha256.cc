// The calls that OpenSSL 3 deprecates are pure functions of their context. Their replacements (EVP, and the one-call
// SHA256) look algorithms up in tables that OpenSSL frees when the process exits. A thread that hangs in a dead mount
// at exit and later returns to compute a hash would use them after that.
#define OPENSSL_API_COMPAT 10101  // NOLINT(cppcoreguidelines-macro-usage): OpenSSL's own switch

#include "src/base/sha256.h"

#include <openssl/sha.h>

namespace stepwatch::base {

std::string Sha256Hex(std::string_view bytes) {
  SHA256_CTX context;
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256_Init(&context);
  SHA256_Update(&context, bytes.data(), bytes.size());
  SHA256_Final(digest, &context);
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (unsigned char byte : digest) {
    text += kHex[byte >> 4];
    text += kHex[byte & 15];
  }
  return text;
}

}  // namespace stepwatch::base
