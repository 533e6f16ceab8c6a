#include "tests/failing_memory.h"

#include <cstdlib>
#include <new>

namespace stepwatch::testing {

thread_local MemoryFailure memory_failure;

namespace {

bool Fails() {
  MemoryFailure& failure = memory_failure;
  if (failure.kind == Failure::kNone || --failure.allocation > 0) return false;
  failure.has_failed = true;
  if (failure.kind == Failure::kOnce) failure.kind = Failure::kNone;
  return true;
}

void* AllocateOrNull(std::size_t bytes) {
  return Fails() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}

void* Allocate(std::size_t bytes) {
  void* memory = AllocateOrNull(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace
}  // namespace stepwatch::testing

void* operator new(std::size_t bytes) {
  return stepwatch::testing::Allocate(bytes);
}
void* operator new[](std::size_t bytes) {
  return stepwatch::testing::Allocate(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return stepwatch::testing::AllocateOrNull(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return stepwatch::testing::AllocateOrNull(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
