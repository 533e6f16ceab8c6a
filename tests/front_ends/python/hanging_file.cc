// Preloaded into a Python process: opening the file that HANGING_FILE names hangs, as on a mount whose server is gone,
// for as long as "<file>.hang" exists. Only a file of HANGING_BYTES bytes hangs, and only from its second opening on:
// by then a reader knows that it has changed. "<file>.hung" appears as soon as somebody hangs.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

std::atomic<int> openings{0};

bool IsToHang(const char* path, const std::string& hang) {
  const char* const bytes = std::getenv("HANGING_BYTES");
  struct stat found = {};
  if (bytes == nullptr || access(hang.c_str(), F_OK) != 0 || stat(path, &found) != 0) return false;
  return found.st_size == std::atol(bytes) && openings.fetch_add(1) > 0;
}

void HangIfNamed(const char* path) {
  const char* const named = std::getenv("HANGING_FILE");
  if (named == nullptr || path == nullptr || std::strcmp(path, named) != 0) return;
  const std::string hang = std::string(named) + ".hang";
  if (!IsToHang(path, hang)) return;
  const int hung = creat((std::string(named) + ".hung").c_str(), 0600);
  if (hung >= 0) (void)close(hung);
  while (access(hang.c_str(), F_OK) == 0) (void)usleep(1000);
}

mode_t ModeOf(int flags, va_list rest) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
}

template <class F>
F Real(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = ModeOf(flags, rest);
  va_end(rest);
  HangIfNamed(path);
  static const auto kReal = Real<int (*)(const char*, int, ...)>("open");
  return kReal(path, flags, mode);
}

extern "C" int openat(int directory, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = ModeOf(flags, rest);
  va_end(rest);
  HangIfNamed(path);
  static const auto kReal = Real<int (*)(int, const char*, int, ...)>("openat");
  return kReal(directory, path, flags, mode);
}
