// A verb that changes a config, asked for at the control socket of the job that watches it.
#pragma once

#include <optional>
#include <string>

#include "controller/cli/edit_result.h"
#include "controller/control_socket/find_jobs.h"

namespace stepwatch::cli {

struct RemoteEdit {
  std::string target;  // "/v1/apply"
  std::string body;
  std::string if_match;
  std::string name;  // of the body, for messages
  std::string done;  // what is to be said of the config once it is changed: "holds new.json now"
};

// Asks until there is an answer, for a minute; whatever is asked is done once. Nothing: the job takes no changes
// through its control socket, because it is gone or of an older release, and nothing was changed.
std::optional<EditResult> EditRunningJob(const control_socket::FoundJob& job, const RemoteEdit& edit);

// Whether the job would take this text.
std::optional<EditResult> ValidateInJob(const control_socket::FoundJob& job, const std::string& name,
                                        const std::string& text);

struct WaitArguments {
  std::string goal;      // "applied", "stopped", "drained"; empty: nothing is waited for
  double timeout = 0;    // seconds; 0: none
  bool tells = true;     // prints the result first, and on a terminal a line for each stage
  bool is_stop = false;  // of the verb that ends a collection
};

// Follows what has become of a change until it has come as far as wanted, and adds that to `result`.
void AwaitEdit(const control_socket::FoundJob& job, const WaitArguments& arguments, EditResult* result);

}  // namespace stepwatch::cli
