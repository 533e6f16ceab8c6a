// A check of a fuzz entry, beside that it does not crash.
#pragma once

#include <cstdio>
#include <cstdlib>

// Ends the program, so that a fuzzer keeps the input.
#define FUZZ_CHECK(condition)                                                        \
  do {                                                                               \
    if (!(condition)) {                                                              \
      std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                  \
    }                                                                                \
  } while (false)
