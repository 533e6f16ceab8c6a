#include "controller/cli/print_answer.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "src/base/text.h"

namespace stepwatch::cli {

using Json = nlohmann::ordered_json;

bool PrintAtOnce(const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

void PrintObject(const Json& json) {
  std::printf("%s\n", json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

ExitCode FailInvalid(const Status& status, bool as_json) {
  if (as_json)
    PrintObject({{"version", 1}, {"error", {{"code", "invalid"}, {"message", status.message()}}}});
  else
    std::fprintf(stderr, "stepwatch: error: %s\n", base::Printable(status.message(), 1000).c_str());
  return kExitInvalid;
}

}  // namespace stepwatch::cli
