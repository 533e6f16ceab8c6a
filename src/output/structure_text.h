// The text of module_struct.json, which print_struct asks for.
#pragma once

#include <string>
#include <vector>

#include "stepwatch/module_structure.h"

namespace stepwatch::output {

// A port that was not seen is an empty object. Indented by 2.
std::string StructureText(const std::vector<ModuleStructure>& modules);

}  // namespace stepwatch::output
