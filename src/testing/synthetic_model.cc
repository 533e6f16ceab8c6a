#include "src/testing/synthetic_model.h"

#include <string>

namespace stepwatch::testing {
namespace {

constexpr int kInput = 0, kOutput = 1;
constexpr int kForward = 0, kBackward = 1;

std::string LayerName(size_t index) {
  return "layers." + std::to_string(index);
}

}  // namespace

SyntheticModel::SyntheticModel(int layers, int64_t elements, int micro_batches)
    : micro_batches_(micro_batches),
      elements_(elements),
      layers_(static_cast<size_t>(layers)),
      values_(static_cast<size_t>(elements)),
      view_(DenseView(values_.data(), DType::kFloat32, &elements, 1)) {
  Swap(nullptr, {});
}

SiteIndex SyntheticModel::Sites() const {
  SiteIndex sites;
  for (size_t i = 0; i < layers_.size(); ++i) {
    sites.modules.push_back({0, LayerName(i), "Synthetic", true});
    sites.parameters.push_back({0, LayerName(i) + ".weight", DType::kFloat32, {elements_}, true});
  }
  return sites;
}

void SyntheticModel::Swap(const RecordLayout* layout, const FrontEndRequests& requests) noexcept {
  for (Layer& layer : layers_) {
    layer.parameter_site.fill(kNoSite);
    for (auto& ports : layer.module_site) ports.fill(kNoSite);
  }
  structure_requested_ = requests.structure;
  structure_taken_ = false;
  if (layout == nullptr) return;
  every_micro_batch_ = layout->micro_step_in_grad_unreduced;
  for (size_t id = 0; id < layout->sites.size(); ++id) {
    const PlannedSite& site = layout->sites[id];
    if (site.owner >= layers_.size()) continue;
    Layer& layer = layers_[site.owner];
    if (OwnerOf(site.kind) == SiteOwner::kParameter) {
      layer.parameter_site[static_cast<size_t>(site.kind)] = static_cast<SiteId>(id);
    } else {
      const size_t which = site.kind == SiteKind::kActv ? kForward : kBackward;
      layer.module_site[which][site.port == Port::kInput ? kInput : kOutput] = static_cast<SiteId>(id);
    }
  }
}

void SyntheticModel::Fill(int64_t seed) {
  uint64_t state = static_cast<uint64_t>(seed) * 0x9e3779b97f4a7c15ull + 0x1234567;
  for (float& value : values_) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    value = static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1p-31f;
  }
}

void SyntheticModel::ObserveModule(Recorder& recorder, const Layer& layer, int which, int port, int micro_step) {
  const SiteId site = layer.module_site[static_cast<size_t>(which)][static_cast<size_t>(port)];
  if (site == kNoSite) return;
  Fill(step_ * 1000003 + int64_t{site} * 101 + micro_step);
  recorder.Observe({site, micro_step}, view_);
}

void SyntheticModel::ObserveParameter(Recorder& recorder, const Layer& layer, SiteKind kind, int micro_step) {
  const SiteId site = layer.parameter_site[static_cast<size_t>(kind)];
  if (site == kNoSite) return;
  Fill(step_ * 1000003 + int64_t{site} * 101 + micro_step);
  if (kind == SiteKind::kMgDirection) {
    recorder.ObserveAgreement({site, micro_step}, view_, view_);
  } else {
    recorder.Observe({site, micro_step}, view_);
  }
}

void SyntheticModel::Forward(Recorder& recorder, int micro_step) {
  for (const Layer& layer : layers_)
    for (int port : {kInput, kOutput}) ObserveModule(recorder, layer, kForward, port, micro_step);
}

void SyntheticModel::Backward(Recorder& recorder, int micro_step) {
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    for (int port : {kInput, kOutput}) ObserveModule(recorder, *layer, kBackward, port, micro_step);
    const bool last = micro_step == micro_batches_ - 1;
    if (every_micro_batch_ || last)
      ObserveParameter(recorder, *layer, SiteKind::kGradUnreduced, every_micro_batch_ ? micro_step : 0);
  }
}

void SyntheticModel::OptimizerStep(Recorder& recorder, bool has_moments) {
  for (SiteKind kind : {SiteKind::kGradReduced, SiteKind::kExpAvg, SiteKind::kExpAvgSq, SiteKind::kMgDirection,
                        SiteKind::kParamOrigin, SiteKind::kParamUpdated}) {
    const bool moment = kind == SiteKind::kExpAvg || kind == SiteKind::kExpAvgSq || kind == SiteKind::kMgDirection;
    if (moment && !has_moments) continue;
    for (const Layer& layer : layers_) ObserveParameter(recorder, layer, kind);
  }
}

void SyntheticModel::TrainStep(Recorder& recorder, int64_t step) {
  step_ = step;
  if (recorder.collecting()) {
    for (int micro_step = 0; micro_step < micro_batches_; ++micro_step) {
      Forward(recorder, micro_step);
      Backward(recorder, micro_step);
    }
    OptimizerStep(recorder, steps_trained_ > 0);
  }
  ++steps_trained_;
}

std::vector<ModuleStructure> SyntheticModel::TakeStructure() {
  std::vector<ModuleStructure> structure;
  if (!structure_requested_ || structure_taken_) return structure;
  structure_taken_ = true;
  const PortStructure tensor{"tensor", {"size=(" + std::to_string(elements_) + ",), dtype=torch.float32"}};
  for (size_t i = 0; i < layers_.size(); ++i)
    structure.push_back({"0:" + LayerName(i), tensor, tensor, tensor, tensor});
  return structure;
}

}  // namespace stepwatch::testing
