#include <algorithm>
#include <string>

#include "src/config/fields.h"

namespace stepwatch::config {
namespace {

using Kind = JsonValue::Kind;

Status ReadFormat(const Field& field, Notes& notes, Config& config) {
  const std::string_view name = field.value.Is(Kind::kString) ? std::string_view(field.value.string) : "";
  config.format = OutputFormat::kCsv;
  std::vector<std::string_view> words;
  for (const OutputFormatTraits& traits : kOutputFormats) {
    words.emplace_back(traits.name);
    if (name == traits.name) config.format = traits.format;
  }
  if (std::find(words.begin(), words.end(), name) == words.end())
    notes.Replaced(field, AcceptedWords(words), "\"csv\" is used");
  return Status();
}

std::string AcceptedOps() {
  std::string accepted;
  for (std::string_view name : StatNames()) accepted += (accepted.empty() ? "" : ", ") + std::string(name);
  return accepted;
}

Status ReadOps(const Field& field, Notes& notes, Config& config) {
  if (!field.value.Is(Kind::kArray))
    return notes.Refuse(StatusCode::kWrongType, field, "a list of statistics, such as [\"norm\", \"max\"]");
  for (size_t i = 0; i < field.value.children.size(); ++i) {
    const Field element = ElementOf(field, i);
    const std::string_view name = element.value.Is(Kind::kString) ? std::string_view(element.value.string) : "";
    if (const auto left_out = TakeOp(name, notes.TakesMore(), config.ops))
      notes.Replaced(element, left_out->accepted, left_out->instead);
  }
  if (config.ops.empty() && !field.value.children.empty())
    notes.Replaced(field, "a list with a usable statistic", "\"norm\" is used");
  return Status();
}

Status ReadEps(const Field& field, Notes& notes, Config& config) {
  constexpr std::string_view kAccepted =
      "a number of at least 0, written with a point or an exponent, such as 1.0 or 1e-8";
  if (!field.value.Is(Kind::kFloat)) return notes.Refuse(StatusCode::kWrongType, field, kAccepted);
  if (field.value.number < 0) return notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
  config.eps = field.value.number;
  return Status();
}

// One code for all unusable values: msProbe raises a ValueError for each of them.
Status ReadNdigits(const Field& field, Notes& notes, Config& config) {
  constexpr int64_t kMost = 20;
  const std::optional<int64_t> value = field.value.Is(Kind::kInteger) ? field.value.integer : std::nullopt;
  if (!value || *value < 0 || *value > kMost)
    return notes.Refuse(StatusCode::kOutOfRange, field,
                        "an integer from 0 to 20; without the key, numbers keep all their digits");
  config.ndigits = static_cast<int>(*value);
  return Status();
}

Status ReadStepCountPerRecord(const Field& field, Notes& notes, Config& config) {
  return ReadInteger(field, notes, {1, 1000000}, config.step_count_per_record);
}

// Dec03_21-34-40: the beginning of an output directory's name.
bool IsRunTime(std::string_view text) {
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  if (text.size() != 14 || text[5] != '_' || text[8] != '-' || text[11] != '-') return false;
  const size_t month = kMonths.find(text.substr(0, 3));
  if (month == std::string_view::npos || month % 3 != 0) return false;
  const auto within = [&](size_t at, int least, int most) {
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    if (!digit(text[at]) || !digit(text[at + 1])) return false;
    const int number = (text[at] - '0') * 10 + (text[at + 1] - '0');
    return number >= least && number <= most;
  };
  return within(3, 1, 31) && within(6, 0, 23) && within(9, 0, 59) && within(12, 0, 59);
}

Status ReadAppendOutput(const Field& field, Notes& notes, Config& config) {
  constexpr std::string_view kAccepted =
      "[], or the two ends of a time range, such as [\"Dec03_21-34-40\", \"Dec03_21-34-41\"]";
  Status status = ReadStrings(field, notes, kAccepted, config.append_output);
  if (!status.ok()) return status;
  if (config.append_output.size() != 0 && config.append_output.size() != 2)
    return notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
  for (size_t i = 0; i < config.append_output.size(); ++i)
    if (!IsRunTime(config.append_output[i]))
      return notes.Refuse(StatusCode::kOutOfRange, ElementOf(field, i),
                          "the time of an output directory, such as \"Dec03_21-34-40\"");
  return Status();
}

constexpr std::string_view kAppendOutputSchema = R"(
    "type": "array",
    "items": {
      "type": "string",
      "pattern": "^(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec))"
                                                 R"((0[1-9]|[12][0-9]|3[01])_([01][0-9]|2[0-3])(-[0-5][0-9]){2}$"
    },
    "anyOf": [{"maxItems": 0}, {"minItems": 2, "maxItems": 2}])";

constexpr KeyRule<Config> kOutputFields[] = {
    {{"ops", "list of strings", "[]", "the statistics, in the order of the columns: {ops}",
      "not a list: wrong type. Unknown or repeated entries: warning, left out. No usable entry: `norm`. `shape` and "
      "`dtype` come last unless they are listed",
      R"("type": "array", "items": {"anyOf": [{"enum": [{ops}]}, true]})"},
     ReadOps},
    {{"eps", "number ≥ 0 with a point or an exponent", "1e-8", "`zeros` counts values with a magnitude below `eps`",
      "`1` is a wrong type (write `1.0`); negative: out of range", R"("type": "number", "minimum": 0)"},
     ReadEps},
    {{"ndigits", "integer 0 to 20", "", "decimal places; without it, enough digits to restore the exact number",
      "anything else, including wrong types and `null`: out of range",
      R"("type": "integer", "minimum": 0, "maximum": 20)"},
     ReadNdigits},
    {{"format", "{formats}", "\"csv\"", "where rows go: {where rows go}", "anything else: warning, csv is used",
      R"("anyOf": [{"enum": [{formats}]}, true])"},
     ReadFormat},
    {{"step_count_per_record", "integer 1 to 1000000", "1", "steps in one file", "",
      R"("type": "integer", "minimum": 1, "maximum": 1000000)"},
     ReadStepCountPerRecord},
    {{"append_output", "list of 0 or 2 strings", "[]",
      "`[\"Dec03_21-34-40\", \"Dec03_21-34-41\"]` continues this rank's directory whose name begins with a time in "
      "this range",
      "another length or form: out of range", kAppendOutputSchema},
     ReadAppendOutput},
    Bool<&Config::squash_name>("squash_name",
                               "shortens names: from the last `layers.`, `embedding.`, `final`, `output` or `norm` on"),
};

}  // namespace

std::vector<std::string_view> StatNames() {
  std::vector<std::string_view> names;
  names.reserve(kOpCount);
  for (int i = 0; i < kOpCount; ++i) names.emplace_back(StatName(static_cast<Stat>(i)));
  return names;
}

std::span<const KeyRule<Config>> OutputFields() {
  return kOutputFields;
}

std::optional<OpLeftOut> TakeOp(std::string_view name_untrusted, bool names_nearest, std::vector<Stat>& ops) {
  const std::optional<Stat> stat = StatFromName(name_untrusted);
  if (!stat)
    return OpLeftOut{AcceptedOps(),
                     "it is left out" + (names_nearest ? DidYouMean(name_untrusted, StatNames()) : std::string())};
  if (std::find(ops.begin(), ops.end(), *stat) != ops.end()) return OpLeftOut{"each statistic once", "it is left out"};
  ops.push_back(*stat);
  return std::nullopt;
}

void CompleteOps(std::vector<Stat>& ops) {
  if (ops.empty()) ops.push_back(Stat::kNorm);
  for (Stat last : {Stat::kShape, Stat::kDtype})
    if (std::find(ops.begin(), ops.end(), last) == ops.end()) ops.push_back(last);
}

}  // namespace stepwatch::config
