// config_texts ROOT: writes schemas/config.schema.json, and the tables of docs/use/config.md, from the table of config
// keys.
#include <iostream>
#include <string>

#include "src/base/file.h"
#include "src/config/describe.h"

namespace {

constexpr size_t kDocumentBytesMax = size_t{1} << 20;

bool Write(const std::string& path, const std::string& text) {
  const stepwatch::Status written = stepwatch::base::ReplaceFile(path, text);
  if (!written.ok()) std::cerr << "config_texts: " << written.message() << "\n";
  return written.ok();
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: config_texts ROOT, the root of a checkout\n";
    return 2;
  }
  const std::string root = arguments[1];
  const std::string document_path = root + "/docs/use/config.md";
  const auto document = stepwatch::base::ReadFile(document_path, kDocumentBytesMax);
  if (!document.ok()) {
    std::cerr << "config_texts: " << document.status().message() << "\n";
    return 1;
  }
  return Write(root + "/schemas/config.schema.json", stepwatch::config::SchemaText()) &&
                 Write(document_path, stepwatch::config::WithTables(document.value()))
             ? 0
             : 1;
}
