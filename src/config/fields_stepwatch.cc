#include <string>

#include "src/config/fields.h"

namespace stepwatch::config {
namespace {

using Kind = JsonValue::Kind;

Status ReadColumns(const Field& field, Notes& notes, OwnOptions& own) {
  std::vector<std::string> columns;
  Status status = ReadStrings(field, notes, "a list of columns: [] or [\"plan_id\"]", columns);
  if (!status.ok()) return status;
  for (size_t i = 0; i < columns.size(); ++i)
    if (columns[i] != "plan_id") return notes.RefuseWord(StatusCode::kOutOfRange, ElementOf(field, i), {"plan_id"});
  own.plan_id_column = !columns.empty();
  return Status();
}

Status ReadEpsMode(const Field& field, Notes& notes, OwnOptions& own) {
  std::string mode;
  Status status = ReadString(field, notes, "\"parity\" or \"exact\"", mode);
  if (!status.ok()) return status;
  if (mode != "parity" && mode != "exact") return notes.RefuseWord(StatusCode::kOutOfRange, field, {"parity", "exact"});
  own.eps_mode = mode == "exact" ? EpsMode::kExact : EpsMode::kParity;
  return Status();
}

Status ReadCoordination(const Field& field, Notes& notes, OwnOptions& own) {
  std::string mode;
  Status status = ReadString(field, notes, "\"strict\", \"besteffort\" or \"local\"", mode);
  if (!status.ok()) return status;
  if (mode == "strict")
    own.coordination = Coordination::kStrict;
  else if (mode == "besteffort")
    own.coordination = Coordination::kBestEffort;
  else if (mode == "local")
    own.coordination = Coordination::kLocal;
  else
    return notes.RefuseWord(StatusCode::kOutOfRange, field, {"strict", "besteffort", "local"});
  return Status();
}

Status ReadOnRestart(const Field& field, Notes& notes, OwnOptions& own) {
  std::string word;
  Status status = ReadString(field, notes, "\"start\" or \"once\"", word);
  if (!status.ok()) return status;
  if (word != "start" && word != "once") return notes.RefuseWord(StatusCode::kOutOfRange, field, {"start", "once"});
  own.on_restart = word == "once" ? OnRestart::kOnce : OnRestart::kStart;
  return Status();
}

Status ReadNames(const Field& field, Notes& notes, OwnOptions& own) {
  std::string word;
  Status status = ReadString(field, notes, "\"model\" or \"torch\"", word);
  if (!status.ok()) return status;
  if (word != "model" && word != "torch") return notes.RefuseWord(StatusCode::kOutOfRange, field, {"model", "torch"});
  own.names = word == "torch" ? NameSource::kTorch : NameSource::kModel;
  return Status();
}

constexpr KeyRule<OwnOptions> kOwnKeys[] = {
    {{"columns", "list of strings", "[]", "`[\"plan_id\"]` adds a column with the number of the plan to every CSV file",
      "another name: out of range", R"("type": "array", "items": {"enum": ["plan_id"]})"},
     ReadColumns},
    {{"eps_mode", "string", "\"parity\"",
      "`\"parity\"` rounds `eps` to the tensor's dtype before `zeros` compares, as torch does; exact zeros count "
      "even if it rounds to 0. `\"exact\"` compares with `eps` itself",
      "another text: out of range", R"("enum": ["parity", "exact"])"},
     ReadEpsMode},
    {{"coordination", "string", "\"strict\"",
      "how the ranks of a job choose the step at which they apply this edit "
      "([life_of_an_edit.md](../design/life_of_an_edit.md)): "
      "`\"strict\"`: all at the same step, or none; `\"besteffort\"`: at an announced step, and a rank that receives "
      "the announcement too late follows at its next boundary; `\"local\"`: each at its own next boundary. With one "
      "process there is no difference",
      "another text: out of range", R"("enum": ["strict", "besteffort", "local"])"},
     ReadCoordination},
    {{"on_restart", "string", "\"start\"",
      "dynamic mode only: behaviour if an earlier start of the job has completed this window but the file, which could "
      "not be written, still requests it: `\"start\"` begins the window again, `\"once\"` does not "
      "([restarts](#restarts))",
      "another text: out of range", R"("enum": ["start", "once"])"},
     ReadOnRestart},
    {{"names", "string", "\"model\"",
      "the names of modules and parameters in rows, and of modules in `print_struct` and `stack_info`. `\"model\"`: as "
      "in the model's own code; `\"torch\"`: with the parts that FSDP, checkpointing and torch.compile insert "
      "(`_fsdp_wrapped_module`, `_checkpoint_wrapped_module`, `_orig_mod`), as msProbe prints them. `targets` always "
      "accepts both. Python only",
      "another text: out of range", R"("enum": ["model", "torch"])"},
     ReadNames},
    Bool<&OwnOptions::exit_after_struct, OwnOptions>(
        "exit_after_struct",
        "false: the run continues after `print_struct` has written the structure. In C++ it always continues", "",
        true),
    {{"sites", "list of objects", "[]",
      "groups of sites, selected by patterns of names, with their own interval and statistics: "
      "[groups of sites](#groups-of-sites)",
      "more than 63: out of range",
      R"("type": "array", "maxItems": 63, "items": {"type": "object", "required": ["match"], )"
      R"("additionalProperties": false})"},
     ReadSites},
    {{"budget", "object", "", "limits the training time spent on measuring: [overhead budget](budget.md)",
      "without `percent`, or with another key: wrong type",
      R"("type": "object", "required": ["percent"], "additionalProperties": false)"},
     ReadBudget},
};

Status ReadOwn(const Field& field, Notes& notes, Config& config) {
  if (!field.value.Is(Kind::kObject))
    return notes.Refuse(StatusCode::kWrongType, field, ObjectWithKeys<OwnOptions>(kOwnKeys));
  return ReadMembers<OwnOptions>(field, kOwnKeys, UnknownKeys::kWarn, notes, config.own);
}

// "$schema" names the schema for editors that check while typing.
Status Ignore(const Field&, Notes&, Config&) {
  return Status();
}

constexpr KeyRule<Config> kOwnFields[] = {
    {{"stepwatch", "object", "{}", "Stepwatch's own keys", "", R"("type": "object")"}, ReadOwn},
    {{"$schema", "any value", "", "ignored: names this schema for editors that check while typing", "", ""}, Ignore},
};

}  // namespace

std::span<const KeyRule<Config>> ObjectFields() {
  return kOwnFields;
}
std::span<const KeyRule<OwnOptions>> InsideStepwatch() {
  return kOwnKeys;
}

}  // namespace stepwatch::config
