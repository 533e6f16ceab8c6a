// Inputs and outputs of a module, for print_struct.
#pragma once

#include <string>
#include <vector>

namespace stepwatch {

inline constexpr const char* kNoTensor = "<class 'NoneType'>";

// Structure seen at one port of a module: "tensor", "tuple[2]", "list[1]", and a description per element.
struct PortStructure {
  std::string config;                 // empty: not seen
  std::vector<std::string> elements;  // "size=(5, 4), dtype=torch.float32" or kNoTensor
};

struct ModuleStructure {
  std::string key;  // "0:fc", "0:" for the root; one entry per module
  PortStructure input;
  PortStructure output;
  PortStructure input_grad;
  PortStructure output_grad;
};

}  // namespace stepwatch
