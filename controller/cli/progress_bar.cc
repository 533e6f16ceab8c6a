#include "controller/cli/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "src/base/print.h"
#include "src/base/text.h"

namespace stepwatch::cli {
namespace {

std::string BytesText(uint64_t bytes) {
  const double number = static_cast<double>(bytes);
  if (bytes >= 1000000000) return fmt::format("{:.1f} GB", number / 1e9);
  if (bytes >= 1000000) return fmt::format("{:.1f} MB", number / 1e6);
  return fmt::format("{:.0f} kB", number / 1e3);
}

int WidthOfStandardError() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col - 1;  // a full line would wrap
}

}  // namespace

std::string ProgressLine(const offline::Progress& progress, int width) {
  const double part =
      progress.total == 0 ? 1 : static_cast<double>(progress.done) / static_cast<double>(progress.total);
  const std::string end = fmt::format(" {:3.0f} % of {}", 100 * part, BytesText(progress.total));
  const int room = width - static_cast<int>(progress.stage.size() + end.size()) - 3;
  const int bar = std::clamp(room, 0, 40);
  const int filled = static_cast<int>(part * bar);
  const std::string line = fmt::format("{} [{}{}]{}", progress.stage, std::string(static_cast<size_t>(filled), '#'),
                                       std::string(static_cast<size_t>(bar - filled), '.'), end);
  return line.substr(0, static_cast<size_t>(std::max(width, 0)));
}

ProgressBar::ProgressBar() : on_terminal_(base::UnderstandsEscapes(stderr)) {}

ProgressBar::~ProgressBar() {
  if (!shown_.empty()) std::fprintf(stderr, "\r\033[K");
}

void ProgressBar::Show(const offline::Progress& progress) {
  if (!on_terminal_) return;
  const std::string line = ProgressLine(progress, WidthOfStandardError());
  if (line == shown_) return;
  shown_ = line;
  std::fprintf(stderr, "\r%s\033[K", base::Printable(line, line.size()).c_str());
  std::fflush(stderr);
}

}  // namespace stepwatch::cli
