// A training run without a framework: the real monitor on a synthetic model, for `rehearse` and for tests.
//
// The model is a chain of layers, each with one input, one output and one weight. Its numbers are a fixed function of
// layer, step and micro-batch, so two rehearsals of the same config give the same rows.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "stepwatch/hook_table.h"
#include "stepwatch/module_structure.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/recorder.h"
#include "stepwatch/site.h"
#include "stepwatch/site_kind.h"

namespace stepwatch::testing {

class SyntheticModel final : public HookTable {
 public:
  SyntheticModel(int layers, int64_t elements, int micro_batches);

  SiteIndex Sites() const;
  void Swap(const RecordLayout* layout, const FrontEndRequests& requests) noexcept override;
  // One training step; the caller calls Monitor::EndStep afterwards.
  void TrainStep(Recorder& recorder, int64_t step);
  // The structure, if the plan in force requests it and it was not taken yet; otherwise empty.
  std::vector<ModuleStructure> TakeStructure();

 private:
  static constexpr SiteId kNoSite = ~SiteId{0};

  struct Layer {
    // Sites by kind; kActv and kActvGrad by port as well.
    std::array<SiteId, kSiteKindCount> parameter_site;
    std::array<std::array<SiteId, 2>, 2> module_site;  // [kActv or kActvGrad][input or output]
  };

  void Forward(Recorder& recorder, int micro_step);
  void Backward(Recorder& recorder, int micro_step);
  void OptimizerStep(Recorder& recorder, bool has_moments);
  void Fill(int64_t seed);
  void ObserveModule(Recorder& recorder, const Layer& layer, int which, int port, int micro_step);
  void ObserveParameter(Recorder& recorder, const Layer& layer, SiteKind kind, int micro_step = 0);

  const int micro_batches_;
  const int64_t elements_;
  std::vector<Layer> layers_;
  std::vector<float> values_;
  TensorView view_;
  int64_t step_ = 0;
  int64_t steps_trained_ = 0;
  bool every_micro_batch_ = false;
  bool structure_requested_ = false;
  bool structure_taken_ = false;
};

}  // namespace stepwatch::testing
