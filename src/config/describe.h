// Generates the texts about config keys from their table: schemas/config.schema.json and the tables of
// docs/use/config.md. `config_texts` writes them; a test compares.
#pragma once

#include <string>
#include <string_view>

namespace stepwatch::config {

// The JSON schema, as in its file.
std::string SchemaText();

// The document with regenerated tables. A table lies between the lines `<!-- keys: alert -->` and `<!-- end -->`; its
// name is what, when, output, alert, features or stepwatch.
std::string WithTables(std::string_view document);

}  // namespace stepwatch::config
