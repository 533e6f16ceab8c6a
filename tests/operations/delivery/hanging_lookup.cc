// Preloaded into stepwatchd: the look-up of the name that HANGING_HOST contains never ends, as with a name server that
// does not answer.
#include <dlfcn.h>
#include <netdb.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** found) {
  const char* const hanging = std::getenv("HANGING_HOST");
  if (hanging != nullptr && node != nullptr && std::strcmp(node, hanging) == 0)
    for (;;) (void)pause();
  static const auto kReal =
      reinterpret_cast<int (*)(const char*, const char*, const addrinfo*, addrinfo**)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return kReal(node, service, hints, found);
}
