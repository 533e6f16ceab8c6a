#include <stepwatch/monitor.h>

#include <cstdio>

int main() {
  const stepwatch::Status good = stepwatch::CheckConfigText(R"({"dynamic_on": false})");
  const stepwatch::Status bad = stepwatch::CheckConfigText(R"({"dynamic_on": 7})");
  stepwatch::Options options;
  options.config_path = "/there/is/no/config.json";
  options.dynamic = false;
  const auto monitor = stepwatch::Monitor::Create(options);
  std::printf("%s\n%s\n", bad.ToString().c_str(), monitor.status().ToString().c_str());
  return good.ok() && !bad.ok() && !monitor.ok() ? 0 : 1;
}
