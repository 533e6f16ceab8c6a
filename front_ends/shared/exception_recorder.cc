#include "front_ends/shared/exception_recorder.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <typeinfo>
#include <vector>

#include "front_ends/shared/registered_monitors.h"
#include "stepwatch/monitor.h"

namespace stepwatch::front_end {
namespace {

constexpr int kFramesMax = 64;

constinit RegisteredMonitors exception_monitors;
std::terminate_handler handler_before = nullptr;  // written before our handler is set
std::atomic<bool> is_reporting{false};

std::string Demangled(const char* name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  const std::string found = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return found;
}

// Returns the functions of the thread's stack, innermost first. A function without a name is shown as its library and
// offset, which are equal on every rank.
std::vector<std::string> Frames() {
  std::array<void*, kFramesMax> addresses{};
  const int count = ::backtrace(addresses.data(), kFramesMax);
  std::vector<std::string> frames;
  for (int i = 0; i < count; ++i) {
    Dl_info about{};
    if (::dladdr(addresses[static_cast<size_t>(i)], &about) == 0) continue;
    std::string library = about.dli_fname != nullptr ? about.dli_fname : "?";
    library.erase(0, library.rfind('/') + 1);
    const char* const address = static_cast<const char*>(addresses[static_cast<size_t>(i)]);
    std::array<char, 24> place{};
    (void)std::snprintf(place.data(), place.size(), "+0x%zx",
                        static_cast<size_t>(address - static_cast<const char*>(about.dli_fbase)));
    frames.push_back(about.dli_sname != nullptr ? Demangled(about.dli_sname) + " in " + library
                                                : library + place.data());
  }
  return frames;
}

// Removes the frames of the language runtime and of Stepwatch, if the stack is still that of the throw.
void DropHandlers(std::vector<std::string>* frames) {
  const auto thrown = std::find_if(frames->rbegin(), frames->rend(), [](const std::string& frame) {
    return frame.rfind("__cxa_throw", 0) == 0 || frame.rfind("__cxa_rethrow", 0) == 0;
  });
  frames->erase(frames->begin(), thrown.base());
}

ExceptionReport ReportNow() {
  ExceptionReport report;
  report.ends_run = true;
  const std::type_info* const type = abi::__cxa_current_exception_type();
  report.type = type == nullptr ? "std::terminate" : Demangled(type->name());
  try {
    if (const std::exception_ptr current = std::current_exception()) std::rethrow_exception(current);
    report.message = "std::terminate was called without an exception";
  } catch (const std::exception& error) {
    report.message = error.what();
  } catch (...) {
    report.message = "(the exception has no text)";
  }
  std::vector<std::string> frames = Frames();
  DropHandlers(&frames);
  std::string key = report.type;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    report.stack += *frame + '\n';
    key += '\n' + *frame;
  }
  std::array<char, 17> fingerprint{};
  (void)std::snprintf(fingerprint.data(), fingerprint.size(), "%016zx", std::hash<std::string>()(key));
  report.fingerprint = fingerprint.data();
  return report;
}

// Reports once, even if several threads terminate at the same time. A failure here must not change how the process
// ends.
void ReportOnce() noexcept try {
  if (is_reporting.exchange(true)) return;
  const ExceptionReport report = ReportNow();
  const RegisteredMonitors::Visit visit(&exception_monitors);
  visit.ForEach([&](Monitor* monitor) {
    monitor->ReportException(report);
    monitor->ReportEnd(RunEnd::kError);
  });
} catch (...) {  // no memory for the report
}

void OnTerminate() {
  ReportOnce();
  if (handler_before != nullptr) handler_before();
  std::abort();
}

}  // namespace

void RecordExceptions(Monitor* monitor) noexcept {
  exception_monitors.Add(monitor);
  static std::once_flag once;
  std::call_once(once, [] {
    handler_before = std::get_terminate();
    std::set_terminate(&OnTerminate);
  });
}

void ForgetExceptions(Monitor* monitor) noexcept {
  exception_monitors.Remove(monitor);
}

}  // namespace stepwatch::front_end
