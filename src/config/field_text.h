// What people are told of a config key: a row of the tables in docs/use/config.md, and a property of the JSON schema.
#pragma once

#include <string_view>

namespace stepwatch::config {

// Texts are Markdown. Of the schema's description they make sentences without marks and links. In all of them {ops} and
// {features} stand for the names that the tables of statistics and of site kinds hold, {formats} for those of the table
// of output formats, {where rows go} for what it says of each, and {kinds} for the words of `kinds`.
struct FieldText {
  std::string_view key = {};
  std::string_view type = {};      // for people: "integer ≥ 0"
  std::string_view fallback = {};  // the value of a config without the key, as JSON; empty if there is none
  std::string_view what = {};      // what it does
  std::string_view notes = {};     // what is refused, replaced or put back
  // Members of the key's property beside default and description, as JSON: `"type": "boolean"`. What the config
  // tolerates with a warning the schema lets pass.
  std::string_view schema = {};
};

}  // namespace stepwatch::config
