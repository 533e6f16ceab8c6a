#include "front_ends/shared/signal_recorder.h"

#include <signal.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <mutex>

#include "front_ends/shared/registered_monitors.h"
#include "stepwatch/monitor.h"

namespace stepwatch::front_end {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT,  SIGHUP,  SIGUSR1, SIGUSR2, SIGQUIT,
                            SIGXCPU, SIGABRT, SIGSEGV, SIGBUS,  SIGFPE,  SIGILL};
constexpr int kSignalsMax = 65;

constinit RegisteredMonitors signal_monitors;
// Previous action of each signal. Written once, before our handler is set.
std::array<struct sigaction, kSignalsMax> actions_before{};

bool IsFault(int number) noexcept {
  return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL;
}

void NoteSignal(int number) noexcept {
  const RegisteredMonitors::Visit visit(&signal_monitors);
  visit.ForEach([number](Monitor* monitor) { monitor->ReportSignal(number); });
}

// A faulting instruction faults again when the handler returns, so the process ends where it would have.
void ActByDefault(int number, const siginfo_t* about, const struct sigaction& before) noexcept {
  ::sigaction(number, &before, nullptr);
  NoteSignal(number);
  if (!IsFault(number) || about == nullptr || about->si_code <= 0) (void)::raise(number);
}

void OnSignal(int number, siginfo_t* about, void* context) {
  const int error = errno;
  const struct sigaction& before = actions_before[static_cast<size_t>(number)];
  const bool is_plain = (before.sa_flags & SA_SIGINFO) == 0;
  const bool is_default = is_plain && before.sa_handler == SIG_DFL;
  if (is_default) ActByDefault(number, about, before);
  if (!is_default) NoteSignal(number);
  errno = error;
  if (is_default) return;
  if (!is_plain) return before.sa_sigaction(number, about, context);
  if (before.sa_handler != SIG_IGN) before.sa_handler(number);
}

void Install(int number) noexcept {
  struct sigaction& before = actions_before[static_cast<size_t>(number)];
  if (::sigaction(number, nullptr, &before) != 0) return;
  const bool is_plain = (before.sa_flags & SA_SIGINFO) == 0;
  if (is_plain && before.sa_handler == SIG_IGN) return;
  // Keeps the flags of the previous action, such as SA_RESETHAND and SA_NODEFER.
  struct sigaction ours = before;
  ours.sa_flags |= SA_SIGINFO;
  ours.sa_sigaction = &OnSignal;
  if (is_plain && before.sa_handler == SIG_DFL) ours.sa_flags |= SA_ONSTACK | SA_RESTART;
  (void)::sigaction(number, &ours, nullptr);
}

}  // namespace

void RecordSignals(Monitor* monitor) noexcept {
  signal_monitors.Add(monitor);
  static std::once_flag once;
  std::call_once(once, [] {
    for (const int number : kSignals) Install(number);
  });
}

void ForgetSignals(Monitor* monitor) noexcept {
  signal_monitors.Remove(monitor);
}

}  // namespace stepwatch::front_end
