#include "controller/cli/edit_result.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "controller/cli/config_file.h"
#include "src/base/print.h"
#include "src/http/answers.h"
#include "src/json/json.h"

namespace stepwatch::cli {

EditResult Failure(ExitCode exit_code, const char* via, const char* code, const std::string& message) {
  EditResult result{exit_code, http::ErrorJson(code, message), "stepwatch: error: " + message};
  result.json["via"] = via;
  return result;
}

EditResult Unusable(const char* via, const std::string& path, const Status& refusal) {
  EditResult result{kExitInvalid, http::ErrorJson("invalid", refusal.message(), refusal.place()), ""};
  result.json["via"] = via;
  result.line = PlacedLine(path, "error", refusal.place(), refusal.message()) + "; the config is unchanged";
  return result;
}

int Print(const EditResult& result, bool as_json) {
  const bool is_done = result.exit_code == kExitDone || result.exit_code == kExitNoChange;
  std::FILE* out = as_json || is_done ? stdout : stderr;
  base::Print(out, "%s\n", as_json ? json::Dump(result.json).c_str() : result.line.c_str());
  std::fflush(out);
  return result.exit_code;
}

}  // namespace stepwatch::cli
