#include "controller/reload/row_output.h"

#include <utility>
#include <vector>

namespace stepwatch::reload {

void RowOutput::Prepare(const plan::Plan& plan) {
  if (sink_ == nullptr) {
    const auto sink = std::make_shared<sinks::FormatSink>(options_.rank, storage_->row_files(), storage_->meter());
    std::vector<std::shared_ptr<Sink>> sinks{sink};
    sinks.insert(sinks.end(), options_.extra_sinks.begin(), options_.extra_sinks.end());
    drain_->SetSinks(std::move(sinks));
    sink_ = sink;
  }
  journal_->FixDirectory(plan);
  if (plan.layout.format == OutputFormat::kApi) drain_->KeepLatest();
}

}  // namespace stepwatch::reload
