#include "operations/vocabulary/line.h"

namespace stepwatch::operations {
namespace {

// In the order of the variant's alternatives.
constexpr std::array<std::string_view, std::variant_size_v<Event>> kEventKinds = {
    "start", "restart", "end",  "exception",  "signal",        "checkpoint",      "process_gone", "gpu",
    "pause", "resume",  "host", "clock_step", "process_state", "collective_wait", "stacks"};

}  // namespace

std::optional<double>* NumberNamed(std::string_view key, Beat* beat) {
  if (key == "loss") return &beat->loss;
  if (key == "grad_norm") return &beat->grad_norm;
  if (key == "lr") return &beat->lr;
  if (key == "tokens") return &beat->tokens;
  if (key == "samples") return &beat->samples;
  if (key == "step_seconds") return &beat->step_seconds;
  if (key == "loss_scale") return &beat->loss_scale;
  return nullptr;
}

std::string_view KindOf(const Line& line) {
  const auto* event = std::get_if<Event>(&line.what);
  return event == nullptr ? "beat" : kEventKinds[event->index()];
}

}  // namespace stepwatch::operations
