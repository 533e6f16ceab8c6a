#include "operations/delivery/escape.h"

#include <algorithm>

#include "operations/delivery/sign.h"
#include "src/base/text.h"

namespace stepwatch::operations::delivery {
namespace {

template <class Replacement>
std::string Replaced(std::string_view text, Replacement replacement) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    const std::string_view other = replacement(c);
    if (other.empty())
      result += c;
    else
      result += other;
  }
  return result;
}

bool IsLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

std::string Plain(std::string_view untrusted, size_t bytes_max) {
  return base::ValidUtf8(base::Printable(untrusted, bytes_max));
}

std::string SlackText(std::string_view text) {
  return Replaced(text, [](char c) -> std::string_view {
    switch (c) {
      case '&': return "&amp;";
      case '<': return "&lt;";
      case '>': return "&gt;";
      default: return {};
    }
  });
}

std::string FeishuText(std::string_view text) {
  return Replaced(text, [](char c) -> std::string_view {
    switch (c) {
      case '&': return "&amp;";
      case '<': return "&lt;";
      case '>': return "&gt;";
      case '*': return "&#42;";
      case '~': return "&#126;";
      case '[': return "&#91;";
      case ']': return "&#93;";
      case '(': return "&#40;";
      case ')': return "&#41;";
      case '!': return "&#33;";
      case '`': return "&#96;";
      case '_': return "&#95;";
      case '\\': return "&#92;";
      default: return {};
    }
  });
}

std::string FullWidthText(std::string_view text) {
  return Replaced(text, [](char c) -> std::string_view {
    switch (c) {
      case '<': return "＜";
      case '>': return "＞";
      case '[': return "［";
      case ']': return "］";
      case '*': return "＊";
      case '`': return "｀";
      case '@':  // a mention
        return "＠";
      default: return {};
    }
  });
}

std::string PercentEncoded(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    if (IsLetterOrDigit(c) || c == '-' || c == '.' || c == '_' || c == '~') {
      result += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    result += '%';
    result += kDigits[byte >> 4];
    result += kDigits[byte & 15];
  }
  return result;
}

std::string HeaderText(std::string_view text) {
  const std::string plain = Plain(text, 1000);
  const bool is_ascii = std::all_of(plain.begin(), plain.end(), [](char c) { return c >= ' ' && c <= '~'; });
  // "=?" would read as an encoded word.
  if (is_ascii && plain.size() <= 60 && plain.find("=?") == std::string::npos) return plain;
  constexpr size_t kWordBytesMax = 39;  // 52 characters of base64; a word has 75 at most
  std::string header;
  for (size_t begin = 0; begin < plain.size();) {
    size_t end = std::min(begin + kWordBytesMax, plain.size());
    while (end < plain.size() && end > begin + 1 && (static_cast<unsigned char>(plain[end]) & 0xc0) == 0x80) --end;
    header += (begin == 0 ? "=?UTF-8?B?" : "\r\n =?UTF-8?B?") + Base64(plain.substr(begin, end - begin)) + "?=";
    begin = end;
  }
  return header;
}

bool IsWebAddress(std::string_view url) {
  const size_t host = url.starts_with("http://") ? 7 : url.starts_with("https://") ? 8 : 0;
  if (host == 0 || url.size() <= host || url.size() > 2000) return false;
  const std::string_view authority = url.substr(host, url.find_first_of("/?#", host) - host);
  if (authority.empty() || authority.find('@') != std::string_view::npos || authority.front() == ':') return false;
  return std::all_of(url.begin(), url.end(), [](char c) {
    return c > ' ' && c < 0x7f && std::string_view("\"'<>()`|\\^*").find(c) == std::string_view::npos;
  });
}

bool IsMailAddress(std::string_view address) {
  const size_t at = address.find('@');
  if (at == 0 || at == std::string_view::npos || at + 1 == address.size() || address.size() > 254) return false;
  if (address.find('@', at + 1) != std::string_view::npos || address.front() == '-') return false;
  return std::all_of(address.begin(), address.end(), [](char c) {
    return c > ' ' && c < 0x7f && std::string_view("\"<>()[],;:\\").find(c) == std::string_view::npos;
  });
}

}  // namespace stepwatch::operations::delivery
