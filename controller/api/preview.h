// Compiles a config for the model of a running job and compares it with what runs. Pure: nothing is armed.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "controller/control_socket/plan_preview.h"
#include "controller/reload/plan_limits.h"
#include "controller/reload/reload_view.h"

namespace stepwatch::api {

// Of a running monitor, at one moment. The parts that are shared never change.
struct PreviewInputs {
  int rank = 0;
  bool dynamic = false;
  const reload::PlanLimits* limits = nullptr;  // not null
  int micro_batches = 1;
  std::string file_sha256;                        // what the file held at the last look; empty: not read yet
  std::shared_ptr<const SiteIndex> sites;         // not null
  std::shared_ptr<const config::Config> in_file;  // null: what the file holds is not usable, or not read yet
  std::optional<reload::PlanView> running;        // armed or in force
  std::optional<control_socket::MeasuredPlan> measured;
};

control_socket::PlanPreview MakePreview(const PreviewInputs& inputs, const std::string& text_untrusted);

}  // namespace stepwatch::api
