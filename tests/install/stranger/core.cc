#include <stepwatch/graph_recorder.h>
#include <stepwatch/hook_table.h>
#include <stepwatch/monitor.h>
#include <stepwatch/recorder.h>

#include <cstdio>

// The work of a hook with its tensor.
void Hook(stepwatch::Recorder& recorder, const stepwatch::TensorView& seen) {
  if (recorder.collecting()) recorder.Observe({0}, seen);
}

int main() {
  const stepwatch::Status good = stepwatch::CheckConfigText(R"({"dynamic_on": false})");
  const stepwatch::Status bad = stepwatch::CheckConfigText(R"({"dynamic_on": 7})");
  stepwatch::Options options;
  options.config_path = "/there/is/no/config.json";
  options.dynamic = false;
  const auto monitor = stepwatch::Monitor::Create(options);
  if (monitor.ok()) Hook(monitor.value()->recorder(), {});
  std::printf("%s\n%s\n", bad.ToString().c_str(), monitor.status().ToString().c_str());
  return good.ok() && !bad.ok() && !monitor.ok() ? 0 : 1;
}
