// User documentation of a config key: a row of the tables in docs/config.md, and a property of the JSON schema.
#pragma once

#include <string_view>

namespace stepwatch::config {

// Texts are Markdown; the schema's description uses them as sentences without marks and links. Placeholders: {ops} and
// {features} are the names in the tables of statistics and of site kinds, {formats} those in the table of output
// formats, {where rows go} its description of each, and {kinds} the words of `kinds`.
struct FieldText {
  std::string_view key = {};
  std::string_view type = {};      // for people: "integer ≥ 0"
  std::string_view fallback = {};  // value of a config without the key, as JSON; empty: no default
  std::string_view what = {};      // its effect
  std::string_view notes = {};     // values that are rejected, replaced or restored
  // Members of the key's property beside default and description, as JSON: `"type": "boolean"`. Values that the config
  // tolerates with a warning pass the schema.
  std::string_view schema = {};
};

}  // namespace stepwatch::config
