#include "controller/cli/top/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string_view>
#include <system_error>

#include "src/base/print.h"

namespace stepwatch::cli {
namespace {

// Switches to the alternate screen, and hides the cursor.
constexpr std::string_view kTake = "\x1b[?1049h\x1b[?25l\x1b[2J";
constexpr std::string_view kGiveBack = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view kHome = "\x1b[H";
constexpr std::string_view kEraseLine = "\x1b[K";
constexpr std::string_view kEraseBelow = "\x1b[J";

sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH}) sigaddset(&signals, signal);
  return signals;
}

// Failures are ignored: a closed terminal shows nothing.
void Write(std::string_view text) noexcept {
  (void)std::fwrite(text.data(), 1, text.size(), stdout);
  (void)std::fflush(stdout);
}

}  // namespace

bool CanTakeTerminal() {
  return ::isatty(STDIN_FILENO) != 0 && base::UnderstandsEscapes(stdout);
}

Terminal::Terminal() {
  const sigset_t signals = Signals();
  signals_ = base::UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid()) throw std::system_error(errno, std::generic_category(), "no descriptor for signals");
  ::pthread_sigmask(SIG_BLOCK, &signals, &signals_before_);
  (void)::tcgetattr(STDIN_FILENO, &before_);
  Take();
}

Terminal::~Terminal() {
  GiveBack();
  ::pthread_sigmask(SIG_SETMASK, &signals_before_, nullptr);
}

void Terminal::Take() {
  termios mode = before_;
  mode.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  mode.c_cc[VMIN] = 0;
  mode.c_cc[VTIME] = 0;
  (void)::tcsetattr(STDIN_FILENO, TCSAFLUSH, &mode);
  Write(kTake);
}

void Terminal::GiveBack() noexcept {
  Write(kGiveBack);
  (void)::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
}

// As for any program: the shell takes over until it continues this one.
void Terminal::Suspend() {
  GiveBack();
  (void)::raise(SIGSTOP);
  Take();
}

Terminal::Input Terminal::Wait(int wake_up) {
  Input input;
  pollfd waiting[] = {{STDIN_FILENO, POLLIN, 0}, {signals_.get(), POLLIN, 0}, {wake_up, POLLIN, 0}};
  if (::poll(waiting, 3, -1) < 0) return input;
  char bytes[256];
  if (waiting[0].revents != 0) {
    const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes);
    input.ends = got <= 0;  // the other end is closed
    if (got > 0) input.bytes.assign(bytes, static_cast<size_t>(got));
  }
  signalfd_siginfo signal{};
  while (::read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
    switch (signal.ssi_signo) {
      case SIGWINCH:
      case SIGCONT: input.is_resized = true; break;
      case SIGTSTP:
        Suspend();
        input.is_resized = true;
        break;
      default: input.ends = true;
    }
  }
  if (waiting[2].revents != 0) input.is_woken = ::read(wake_up, bytes, sizeof bytes) > 0;
  return input;
}

TopSize Terminal::Size() const {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

void Terminal::Show(const std::vector<std::string>& lines) {
  std::string text(kHome);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) text += "\r\n";
    (text += base::SafeText(stdout, lines[i])) += kEraseLine;
  }
  Write(text += kEraseBelow);
}

}  // namespace stepwatch::cli
