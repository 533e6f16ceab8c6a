#include "controller/cli/print_answer.h"

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "src/base/print.h"
#include "src/base/text.h"
#include "src/http/answers.h"
#include "src/json/json.h"

namespace stepwatch::cli {

bool PrintAtOnce(const std::string& text) {
  return base::PrintText(stdout, text) && std::fflush(stdout) == 0;
}

bool OutputIsClosed() {
  pollfd output{STDOUT_FILENO, 0, 0};
  return ::poll(&output, 1, 0) > 0 && (output.revents & (POLLERR | POLLNVAL)) != 0;
}

bool PrintScreen(const std::string& text) {
  if (!base::UnderstandsEscapes(stdout)) return PrintAtOnce(text + "\n");
  constexpr std::string_view kClearScreen = "\x1b[H\x1b[2J";
  return std::fwrite(kClearScreen.data(), 1, kClearScreen.size(), stdout) == kClearScreen.size() && PrintAtOnce(text);
}

void PrintBytes(const std::string& bytes) {
  if (::isatty(STDOUT_FILENO) != 0)
    (void)base::PrintText(stdout, bytes);
  else
    (void)std::fwrite(bytes.data(), 1, bytes.size(), stdout);
}

void PrintObject(const Json& object) {
  base::Print(stdout, "%s\n", json::Dump(object).c_str());
}

ExitCode FailInvalid(const Status& status, bool as_json) {
  if (as_json)
    PrintObject({{"version", 1}, {"error", {{"code", "invalid"}, {"message", status.message()}}}});
  else
    base::Print(stderr, "stepwatch: error: %s\n", base::Printable(status.message(), 1000).c_str());
  return kExitInvalid;
}

}  // namespace stepwatch::cli
