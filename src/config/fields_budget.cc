#include <string_view>

#include "src/config/fields.h"

namespace stepwatch::config {
namespace {

using Kind = JsonValue::Kind;

Status ReadPercent(const Field& field, Notes& notes, Budget& budget) {
  constexpr std::string_view kAccepted = "a number above 0 and at most 100, such as 1.0: per cent of the training time";
  if (!field.value.Is(Kind::kInteger) && !field.value.Is(Kind::kFloat))
    return notes.Refuse(StatusCode::kWrongType, field, kAccepted);
  if (!(field.value.number > 0) || field.value.number > 100)
    return notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
  budget.percent = field.value.number;
  return Status();
}

constexpr KeyRule<Budget> kBudgetKeys[] = {
    {{"percent", "number above 0, at most 100", "",
      "maximum percentage of the training time for measuring, as the mean over all steps. Above it Stepwatch collects "
      "fewer steps than `step_interval` selects, and then fewer kinds of tensors; below it Stepwatch restores both",
      "anything else: wrong type or out of range", R"("type": "number", "exclusiveMinimum": 0, "maximum": 100)"},
     ReadPercent},
};

}  // namespace

Status ReadBudget(const Field& field, Notes& notes, OwnOptions& own) {
  constexpr std::string_view kAccepted = "an object such as {\"percent\": 1.0}";
  if (!field.value.Is(Kind::kObject) || field.value.Member("percent") == nullptr) {
    // An unknown key is a better message than a missing one.
    if (field.value.Is(Kind::kObject) && !field.value.children.empty())
      return notes.RefuseKey(MemberOf(field, field.value.children.front()), {"percent"});
    return notes.Refuse(StatusCode::kWrongType, field, kAccepted);
  }
  Budget budget;
  Status status = ReadMembers<Budget>(field, kBudgetKeys, UnknownKeys::kRefuse, notes, budget);
  if (status.ok()) own.budget = budget;
  return status;
}

std::span<const KeyRule<Budget>> InsideBudget() {
  return kBudgetKeys;
}

}  // namespace stepwatch::config
