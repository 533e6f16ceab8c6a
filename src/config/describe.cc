#include "src/config/describe.h"

#include <cctype>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <span>
#include <utility>
#include <vector>

#include "src/config/fields.h"
#include "src/json/json.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/site_kind.h"
#include "stepwatch/statistics.h"

namespace stepwatch::config {
namespace {

constexpr const char* kDescription =
    "Selects the data that Stepwatch collects from a training run, the steps, and the output. Describes the value of "
    "the file without its // and /* */ comments. Stepwatch checks more than this schema can express: the text is "
    "UTF-8, at most 1 MiB, nested at most 32 deep, with each key once in an object; numbers fit a double; integers "
    "have no point and no exponent (10, not 10.0), and eps has one (1.0 or 1e-8, not 1). Unknown keys, and unusable "
    "values where this schema allows any value, are accepted with a warning. See docs/use/config.md.";

// A key, and the keys of an object with fixed keys.
struct Described {
  FieldText text;
  std::vector<Described> inside{};
  bool is_list = false;  // the value is a list of such objects
};

template <class T>
std::vector<Described> Describe(std::span<const KeyRule<T>> rules) {
  std::vector<Described> described;
  for (const KeyRule<T>& rule : rules) described.push_back({rule.text});
  return described;
}

std::vector<Described> OwnFields() {
  std::vector<Described> fields = Describe(InsideStepwatch());
  for (Described& field : fields) {
    field.is_list = field.text.key == "sites";
    if (field.is_list) field.inside = Describe(InsideSites());
    if (field.text.key == "budget") field.inside = Describe(InsideBudget());
  }
  return fields;
}

std::vector<Described> FeatureHooks() {
  std::vector<Described> hooks;
  for (const SiteKindTraits& traits : kSiteKindTraits)
    if (IsFeature(traits.kind))
      hooks.push_back({{.key = traits.name,
                        .what = "names of modules",
                        .schema = R"("type": "array", "items": {"type": "string"})"}});
  return hooks;
}

template <class T>
std::vector<Described> Fields(std::span<const KeyRule<T>> rules) {
  std::vector<Described> fields = Describe(rules);
  for (Described& field : fields) {
    if (field.text.key == "alert") field.inside = Describe(InsideAlert());
    if (field.text.key == "cc_distribution") field.inside = Describe(InsideCcDistribution());
    if (field.text.key == "l2_targets") field.inside = FeatureHooks();
    if (field.text.key == "stepwatch") field.inside = OwnFields();
  }
  return fields;
}

// Rows of one table of the document.
std::vector<Described> Table(std::string_view name) {
  if (name == "what") return Fields(SelectionFields());
  if (name == "when") return Fields(WindowFields());
  if (name == "output") return Fields(OutputFields());
  if (name == "alert") return Fields(AlertFields());
  if (name == "features") return Fields(FeatureFields());
  if (name == "stepwatch") return Describe(InsideStepwatch());
  if (name == "sites") return Describe(InsideSites());
  if (name == "budget") return Describe(InsideBudget());
  return {};
}

// Replaces `{ops}` and the like by the names of their tables, each between `before` and `after`.
std::string WithNames(std::string_view given, const std::string& before, const std::string& after) {
  std::string ops, features, formats, where_rows_go, kinds;
  const auto add = [&](const char* name, std::string* list) {
    list->append(list->empty() ? "" : ", ").append(before).append(name).append(after);
  };
  for (int i = 0; i < kOpCount; ++i) add(kStatTraits[i].name, &ops);
  for (const SiteKindTraits& traits : kSiteKindTraits)
    if (IsFeature(traits.kind)) add(traits.name, &features);
  for (const OutputFormatTraits& traits : kOutputFormats) {
    add(traits.name, &formats);
    const bool last = &traits == std::end(kOutputFormats) - 1;
    where_rows_go.append(where_rows_go.empty() ? "" : last ? ", or " : ", ").append(traits.where_rows_go);
  }
  for (const KindWord& known : kKindWords) add(known.word, &kinds);
  std::string text(given);
  for (const auto& [mark, names] : {std::pair{"{ops}", ops},
                                    {"{features}", features},
                                    {"{formats}", formats},
                                    {"{where rows go}", where_rows_go},
                                    {"{kinds}", kinds}})
    if (const size_t at = text.find(mark); at != std::string::npos)
      text.replace(at, std::string_view(mark).size(), names);
  return text;
}

std::string Markdown(std::string_view text) {
  return WithNames(text, "`", "`");
}

// Converts a text to a sentence without the marks and links of Markdown; an empty text stays empty.
std::string Sentence(std::string_view text) {
  static const std::regex kLink(R"(\[([^\]]*)\]\([^)]*\))");
  std::string plain = std::regex_replace(Markdown(text), kLink, "$1");
  std::erase(plain, '`');
  if (plain.empty()) return plain;
  plain[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(plain[0])));
  return plain + ".";
}

Json Property(const Described& field) {
  Json property = json::Parse("{" + WithNames(field.text.schema, "\"", "\"") + "}").value();
  if (!field.text.fallback.empty()) property["default"] = json::Parse(field.text.fallback).value();
  const std::string notes = Sentence(field.text.notes);
  property["description"] = Sentence(field.text.what) + (notes.empty() ? "" : " ") + notes;
  Json& object = field.is_list ? property["items"] : property;
  for (const Described& inside : field.inside) object["properties"][std::string(inside.text.key)] = Property(inside);
  return property;
}

void AppendRow(const Described& field, std::string* rows) {
  const FieldText& text = field.text;
  const std::string fallback = text.fallback.empty() ? "none" : "`" + std::string(text.fallback) + "`";
  rows->append("| `").append(text.key).append("` | ").append(Markdown(text.type)).append(" | ").append(fallback);
  rows->append(" | ").append(Markdown(text.what)).append(" | ").append(text.notes);
  rows->append(text.notes.empty() ? "|\n" : " |\n");
  for (const Described& inside : field.inside)
    if (!inside.text.type.empty()) AppendRow(inside, rows);
}

}  // namespace

std::string SchemaText() {
  Json schema;
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "Stepwatch: config.json";
  schema["description"] = kDescription;
  schema["type"] = "object";
  for (const auto rules :
       {SelectionFields(), WindowFields(), OutputFields(), AlertFields(), FeatureFields(), ObjectFields()})
    for (const Described& field : Fields(rules)) schema["properties"][std::string(field.text.key)] = Property(field);
  return schema.dump(2) + "\n";
}

std::string WithTables(std::string_view document) {
  constexpr std::string_view kBegin = "<!-- keys: ", kBeginEnds = " -->\n", kEnd = "<!-- end -->";
  std::string made;
  for (size_t begin; (begin = document.find(kBegin)) != std::string_view::npos;) {
    const size_t name = begin + kBegin.size();
    const size_t name_ends = document.find(kBeginEnds, name);
    const size_t end = document.find(kEnd, name);
    if (name_ends == std::string_view::npos || end == std::string_view::npos) break;
    made.append(document.substr(0, name_ends + kBeginEnds.size()));
    made.append("| key | type | default | what it does | notes |\n|---|---|---|---|---|\n");
    for (const Described& field : Table(document.substr(name, name_ends - name))) AppendRow(field, &made);
    document.remove_prefix(end);
  }
  return made.append(document);
}

}  // namespace stepwatch::config
