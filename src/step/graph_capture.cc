#include "src/step/graph_capture.h"

#include "src/records/pending_result.h"

namespace stepwatch::step {

// Only the device knows which captured graphs ran in this step; the drain looks it up.
void GraphCapture::EndStep() noexcept {
  Pipeline* pipeline = running_->CollectingPipeline();
  engine_->graphs().EndStep([&](const kernels::DeviceStep& on) {
    const GraphStep replayed{running_->number(), on, running_->record_flags(), running_->due()};
    if (pipeline == nullptr || pipeline->ring.TryPush(replayed)) return;
    pipeline->produced.fetch_add(on.end, std::memory_order_relaxed);
    pipeline->dropped_ring_full.fetch_add(on.end, std::memory_order_relaxed);
  });
}

void GraphCapture::Capture(const PlannedSite& site, const Observation& at, const TensorView& tensor) noexcept {
  if (!running_->InOwner() || !engine_->IsCapturing(tensor)) return;
  Pipeline* pipeline = running_->pipeline();
  const kernels::MeasureOptions measure = pipeline == nullptr ? kernels::MeasureOptions{} : pipeline->measure;
  Record record;
  record.micro_step = at.micro_step;
  record.element = at.element;
  record.call = at.call;
  const StatusCode code = engine_->Enqueue(RecordLayout{}, measure, tensor, &record);
  if (code != StatusCode::kOk) {
    if (Pipeline* collecting = running_->CollectingPipeline()) collecting->CountUnmeasured(code);
  } else if (records::IsCaptured(record)) {
    engine_->Keep(site, measure, record);
  } else {
    engine_->Discard(record);  // the capture ended in the meantime
  }
}

}  // namespace stepwatch::step
