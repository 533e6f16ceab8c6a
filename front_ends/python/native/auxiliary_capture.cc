#include "front_ends/python/native/auxiliary_capture.h"

namespace stepwatch::python {

void AuxiliaryCapture::Clear() {
  features_.clear();
  operators_.clear();
  updates_.clear();
  watches_before_operators_ = false;
}

void AuxiliaryCapture::Want(const PlannedSite& site, SiteId id) {
  if (OwnerOf(site.kind) == SiteOwner::kOperator) {
    OperatorSites& sites = operators_[site.owner];
    const bool is_before = site.port == Port::kInput;
    (is_before ? sites.before : sites.after) = id;
    watches_before_operators_ |= is_before;
    return;
  }
  if (HasHeatmap(site.kind)) {
    UpdateSites& sites = updates_[site.owner];
    (site.kind == SiteKind::kAdamUpdate ? sites.update : sites.ratio) = id;
    return;
  }
  FeatureSite& feature = features_[{site.kind, site.owner}];
  feature.id = id;
  feature.chunk = static_cast<size_t>(site.chunk);
}

std::vector<AuxiliaryCapture::Feature> AuxiliaryCapture::features() const {
  std::vector<Feature> found;
  for (const auto& [feature, site] : features_) found.push_back(feature);
  return found;
}

std::vector<size_t> AuxiliaryCapture::updates() const {
  std::vector<size_t> found;
  for (const auto& [parameter, sites] : updates_) found.push_back(parameter);
  return found;
}

void AuxiliaryCapture::ObserveUpdates(const std::vector<CountedUpdate>& counted) {
  Recorder* const recorder = context_->Collecting();
  if (recorder == nullptr) return;
  std::vector<HeatmapColumn> columns;
  for (const CountedUpdate& one : counted) {
    const auto found = updates_.find(one.parameter);
    if (found == updates_.end()) continue;
    columns.push_back({found->second.update, one.update});
    columns.push_back({found->second.ratio, one.ratio});
  }
  recorder->ObserveHeatmaps(std::move(columns));
}

// A forward that a checkpoint recomputes was observed in its first run.
std::optional<front_end::CallPosition> AuxiliaryCapture::NextCall(const Feature& feature) {
  const auto found = features_.find(feature);
  if (context_->Collecting() == nullptr || found == features_.end() || context_->InBackward()) return std::nullopt;
  FeatureSite& site = found->second;
  return site.calls.Next(context_->step, context_->MicroBatchesBegun(site.chunk), context_->grad_acc_steps);
}

void AuxiliaryCapture::ObserveFeature(const Feature& feature, front_end::CallPosition at,
                                      const std::vector<double>& values) {
  Recorder* const recorder = context_->Collecting();
  const auto found = features_.find(feature);
  if (recorder == nullptr || found == features_.end()) return;
  recorder->ObserveValues({found->second.id, at.micro_step, kNoElement, at.call}, values.data(), values.size());
}

void AuxiliaryCapture::ObserveOperator(size_t which, bool is_after, uint16_t position, PyObject* tensor) {
  Recorder* const recorder = context_->Collecting();
  const auto found = operators_.find(which);
  if (recorder == nullptr || found == operators_.end()) return;
  const SiteId site = is_after ? found->second.after : found->second.before;
  if (site != kNoSite) context_->Observe(*recorder, SiteKind::kCommunication, {site, 0, position}, tensor);
}

}  // namespace stepwatch::python
