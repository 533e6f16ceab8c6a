#include "front_ends/torch/model_change.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace stepwatch::torch_front {
namespace {

constexpr size_t kNamesMax = 3;

using Places = std::unordered_map<std::string, size_t>;

std::string KeyOf(const ModuleEntry& module) {
  return std::to_string(module.chunk) + (module.watchable ? "+" : "-") + module.name;
}

std::string KeyOf(const ParameterEntry& parameter) {
  return std::to_string(parameter.chunk) + (parameter.requires_grad ? "+" : "-") + parameter.name;
}

template <class Entry>
std::vector<size_t> Match(const std::vector<Entry>& known, const std::vector<Entry>& fresh, bool* is_same) {
  Places places;
  for (size_t i = 0; i < fresh.size(); ++i) places.emplace(KeyOf(fresh[i]), i);
  std::vector<size_t> matched;
  for (size_t i = 0; i < known.size(); ++i) {
    const auto found = places.find(KeyOf(known[i]));
    matched.push_back(found == places.end() ? kNowhere : found->second);
    *is_same = *is_same && matched.back() == i;
  }
  *is_same = *is_same && known.size() == fresh.size();
  return matched;
}

// "means, scales, opacities and 4 more"
std::string Some(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamesMax); ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kNamesMax) text += " and " + std::to_string(names.size() - kNamesMax) + " more";
  return text;
}

}  // namespace

IndexMatch MatchIndexes(const SiteIndex& known, const SiteIndex& fresh) {
  IndexMatch match;
  match.is_same = true;
  match.modules = Match(known.modules, fresh.modules, &match.is_same);
  match.parameters = Match(known.parameters, fresh.parameters, &match.is_same);
  return match;
}

namespace {

template <class Entry>
void AppendGone(const std::vector<Entry>& known, const std::vector<size_t>& match, std::vector<std::string>* names) {
  for (size_t i = 0; i < known.size(); ++i)
    if (match[i] == kNowhere) names->push_back(known[i].name);
}

template <class Entry>
void AppendFresh(const std::vector<Entry>& fresh, const std::vector<size_t>& match, std::vector<std::string>* names) {
  std::vector<bool> is_matched(fresh.size(), false);
  for (const size_t at : match)
    if (at != kNowhere) is_matched[at] = true;
  for (size_t i = 0; i < fresh.size(); ++i)
    if (!is_matched[i]) names->push_back(fresh[i].name);
}

}  // namespace

std::vector<std::string> GoneNames(const SiteIndex& known, const IndexMatch& match) {
  std::vector<std::string> names;
  AppendGone(known.modules, match.modules, &names);
  AppendGone(known.parameters, match.parameters, &names);
  return names;
}

std::vector<std::string> FreshNames(const SiteIndex& fresh, const IndexMatch& match) {
  std::vector<std::string> names;
  AppendFresh(fresh.modules, match.modules, &names);
  AppendFresh(fresh.parameters, match.parameters, &names);
  return names;
}

void ChangeReporter::ReportOnce(bool* reported, EventKind kind, std::string message) {
  if (std::exchange(*reported, true)) return;
  Event event;
  event.kind = kind;
  event.message = std::move(message);
  reporter_->Report(std::move(event));
}

void ChangeReporter::Report(const ModelChange& change) {
  if (!change.replaced.empty())
    ReportOnce(
        &replaced_, EventKind::kNote,
        "parameters of the model were replaced by other tensors (" + Some(change.replaced) +
            "): their rows continue with the new ones, those of un-reduced gradients from the next step on; later "
            "replacements are followed without a message");
  if (!change.fresh.empty() || !change.gone.empty())
    ReportOnce(
        &reshaped_, EventKind::kNote,
        "the model has changed (" + (change.fresh.empty() ? "" : "new: " + Some(change.fresh)) +
            (change.fresh.empty() || change.gone.empty() ? "" : "; ") +
            (change.gone.empty() ? "" : "gone: " + Some(change.gone)) +
            "): it is read again, and a plan for it starts with the next step; later changes are followed without "
            "a message");
  if (change.regrouped > 0)
    ReportOnce(&regrouped_, EventKind::kNote,
               std::to_string(change.regrouped) +
                   " parameters were moved to an attached optimizer, or to another one: their rows follow; later moves "
                   "are followed without a message");
  if (!change.left.empty())
    ReportOnce(
        &left_, EventKind::kWarning,
        "these parameters of the model are no longer updated by an attached optimizer: " + Some(change.left) +
            "; they have no rows of weights, optimizer state and reduced gradients from now on. If the model has "
            "new tensors, register them in their module; if another optimizer updates them, attach it");
  if (change.strangers > 0)
    ReportOnce(
        &strangers_, EventKind::kWarning,
        "an attached optimizer updates " + std::to_string(change.strangers) +
            " more tensors that no attached module registers: they have no name and no rows; register them in their "
            "module (register_parameter), or attach the model that has them");
}

void ChangeReporter::ReportModelGone() {
  ReportOnce(
      &model_gone_, EventKind::kWarning,
      "an attached model was destroyed, and training goes on: its modules have no more rows, nor do its parameters "
      "once they are freed; if another model is trained in its place, attach it: "
      "monitor.Attach(*model, optimizer)");
}

}  // namespace stepwatch::torch_front
