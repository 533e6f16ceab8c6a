#include "operations/daemon/provision_command.h"

#include <cstdio>

#include "operations/provision/files.h"
#include "operations/provision/write_files.h"
#include "src/base/print.h"
#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

constexpr int kCannotWrite = 1, kInvalid = 2, kSomeKept = 3;

const char* Sentence(WriteOutcome outcome) {
  switch (outcome) {
    case WriteOutcome::kWritten: return "written";
    case WriteOutcome::kUnchanged: return "unchanged";
    case WriteOutcome::kKept: return "kept: it was edited; --force replaces it";
    case WriteOutcome::kReplaced: return "replaced: its edits are gone";
  }
  return "";
}

int Failed(const Status& status, int exit_code) {
  base::Print(stderr, "stepwatchd: %s\n", base::Printable(status.message(), 1000).c_str());
  return exit_code;
}

}  // namespace

int RunProvision(const ProvisionArguments& arguments) {
  if (const Status status = CheckProvisionOptions(arguments.options); !status.ok()) return Failed(status, kInvalid);
  const Result<std::vector<ProvisionedFile>> files = MakeFiles(arguments.options);
  if (!files.ok()) return Failed(files.status(), kInvalid);
  const Result<std::vector<WrittenFile>> written = WriteFiles(arguments.directory, files.value(), arguments.is_forced);
  if (!written.ok()) return Failed(written.status(), kCannotWrite);
  bool has_kept = false;
  for (const WrittenFile& file : written.value()) {
    base::Print(stdout, "%s: %s\n", file.path.c_str(), Sentence(file.outcome));
    has_kept = has_kept || file.outcome == WriteOutcome::kKept;
  }
  return has_kept ? kSomeKept : 0;
}

}  // namespace stepwatch::operations
