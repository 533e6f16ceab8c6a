#include "src/config/parse_config.h"

#include <string>
#include <utility>

#include "src/config/config_text.h"
#include "src/config/fields.h"

namespace stepwatch::config {
namespace {

std::vector<KeyRule<Config>> AllFields() {
  std::vector<KeyRule<Config>> fields;
  for (const auto group :
       {SelectionFields(), WindowFields(), OutputFields(), AlertFields(), FeatureFields(), ObjectFields()})
    fields.insert(fields.end(), group.begin(), group.end());
  return fields;
}

void CheckDirections(const Field& top, Notes& notes, const Config& config) {
  if (!config.forward_only || !config.backward_only) return;
  const JsonValue* forward = top.value.Member("forward_only");
  const JsonValue* backward = top.value.Member("backward_only");
  const JsonValue* later = forward->range.begin > backward->range.begin ? forward : backward;
  notes.Note(MemberOf(top, *later),
             "\"forward_only\" and \"backward_only\" are both true: no activations are collected");
}

void CheckImages(const Field& top, Notes& notes, const Config& config) {
  if (!config.ur_distribution || config.format == OutputFormat::kTensorBoard) return;
  notes.NotEffective(MemberOf(top, *top.value.Member("ur_distribution")),
                     "accepted, but not effective: no images are drawn; images need \"format\": \"tensorboard\"");
}

// Sets fields that depend on several others.
void Derive(const Field& top, Notes& notes, Config& config) {
  CompleteOps(config.ops);
  CompleteSelection(config);
  CheckDirections(top, notes, config);
  CheckImages(top, notes, config);
}

}  // namespace

Result<ParsedConfig> ParseConfig(std::string_view text_untrusted) {
  Result<JsonDocument> document = ReadConfigText(text_untrusted);
  if (!document.ok()) return document.status();
  const Field top{document.value().root, ""};
  Notes notes(document.value());
  ParsedConfig parsed;
  const std::vector<KeyRule<Config>> fields = AllFields();
  Status status = ReadMembers<Config>(top, fields, UnknownKeys::kWarn, notes, parsed.config);
  if (!status.ok()) return status;
  Derive(top, notes, parsed.config);
  parsed.warnings = notes.TakeWarnings();
  return parsed;
}

}  // namespace stepwatch::config
