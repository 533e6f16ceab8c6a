// config_texts ROOT: writes schemas/config.schema.json, and the tables of docs/config.md, as the table of config keys
// has them.
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "src/config/describe.h"

namespace {

bool Write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (!file) std::cerr << "config_texts: cannot write " << path << "\n";
  return static_cast<bool>(file);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: config_texts ROOT, the root of a checkout\n";
    return 2;
  }
  const std::string root = arguments[1];
  const std::string document_path = root + "/docs/config.md";
  std::ifstream file(document_path, std::ios::binary);
  const std::string document(std::istreambuf_iterator<char>(file), {});
  if (document.empty()) {
    std::cerr << "config_texts: cannot read " << document_path << "\n";
    return 1;
  }
  return Write(root + "/schemas/config.schema.json", stepwatch::config::SchemaText()) &&
                 Write(document_path, stepwatch::config::WithTables(document))
             ? 0
             : 1;
}
