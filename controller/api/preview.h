// Compiles a config for the model of a running job and compares it with what runs. Pure: nothing is armed.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "controller/control_socket/plan_preview.h"
#include "controller/reload/plan_limits.h"
#include "controller/reload/reload_view.h"

namespace stepwatch::api {

// State of a running monitor at one moment. The shared parts are immutable.
struct PreviewInputs {
  int rank = 0;
  bool dynamic = false;
  const reload::PlanLimits* limits = nullptr;  // not null
  int micro_batches = 1;
  std::string file_sha256;                        // of the file at the last read; empty: not read yet
  std::shared_ptr<const SiteIndex> sites;         // not null
  std::shared_ptr<const config::Config> in_file;  // null: the content of the file is invalid, or not read yet
  std::optional<reload::PlanView> running;        // armed or in force
  std::optional<control_socket::MeasuredPlan> measured;
};

control_socket::PlanPreview MakePreview(const PreviewInputs& inputs, const std::string& text_untrusted);

}  // namespace stepwatch::api
