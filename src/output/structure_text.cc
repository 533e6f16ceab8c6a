#include "src/output/structure_text.h"

#include "src/output/json_text.h"

namespace stepwatch::output {
namespace {

void WritePort(std::string_view key, const PortStructure& port, JsonText* json) {
  json->Key(key);
  json->Object([&] {
    if (port.config.empty()) return;
    json->Member("config", port.config);
    if (port.config == "tensor")
      return json->Member("tensor", port.elements.empty() ? kNoTensor : port.elements[0].c_str());
    for (size_t i = 0; i < port.elements.size(); ++i) json->Member(std::to_string(i), port.elements[i]);
  });
}

}  // namespace

std::string StructureText(const std::vector<ModuleStructure>& modules) {
  JsonText json(2);
  json.Object([&] {
    for (const ModuleStructure& module : modules) {
      json.Key(module.key);
      json.Object([&] {
        WritePort("input", module.input, &json);
        WritePort("output", module.output, &json);
        WritePort("input_grad", module.input_grad, &json);
        WritePort("output_grad", module.output_grad, &json);
      });
    }
  });
  return json.Take();
}

}  // namespace stepwatch::output
