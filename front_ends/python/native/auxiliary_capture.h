// Sites of the plan in force whose hooks are written in Python: L2 features, communication operators and heat maps of
// parameters.
//
// With the GIL held.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "front_ends/python/native/context.h"
#include "stepwatch/site.h"
#include "stepwatch/site_kind.h"

namespace stepwatch::python {

class AuxiliaryCapture {
 public:
  // Kind and module of a feature.
  using Feature = std::pair<SiteKind, size_t>;

  explicit AuxiliaryCapture(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  void Clear();
  // `site` is that of a feature, an operator or a heat map.
  void Want(const PlannedSite& site, SiteId id);

  std::vector<Feature> features() const;
  // Parameters whose updates and ratios are counted.
  std::vector<size_t> updates() const;
  bool watches_before_operators() const { return watches_before_operators_; }

  // Number of the current call of a feature's hook in the step; nullopt if the call is to be skipped.
  std::optional<front_end::CallPosition> NextCall(const Feature& feature);
  void ObserveFeature(const Feature& feature, front_end::CallPosition at, const std::vector<double>& values);
  // The tensor at `position` of a call of `SiteIndex::operators[which]`, before it or after it.
  void ObserveOperator(size_t which, bool is_after, uint16_t position, PyObject* tensor);
  // Expects one step: each parameter, and the elements of its update and of its ratio in each bin.
  using Counts = std::array<uint64_t, kHeatmapBins>;
  struct CountedUpdate {
    size_t parameter = 0;
    Counts update{};
    Counts ratio{};
  };
  void ObserveUpdates(const std::vector<CountedUpdate>& counted);

 private:
  struct FeatureSite {
    SiteId id = kNoSite;
    size_t chunk = 0;
    front_end::CallCounter calls;
  };
  struct OperatorSites {
    SiteId before = kNoSite;
    SiteId after = kNoSite;
  };

  struct UpdateSites {
    SiteId update = kNoSite;
    SiteId ratio = kNoSite;
  };

  const std::shared_ptr<Context> context_;
  std::map<Feature, FeatureSite> features_;
  std::map<size_t, OperatorSites> operators_;
  std::map<size_t, UpdateSites> updates_;  // by parameter
  bool watches_before_operators_ = false;
};

}  // namespace stepwatch::python
