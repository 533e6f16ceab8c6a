#include "src/sinks/format_sink.h"

#include <utility>

#include "src/sinks/beyond_limit.h"
#include "src/sinks/sink_makers.h"

namespace stepwatch::sinks {

void FormatSink::SetDirectory(std::string directory) {
  const base::MutexLock lock(&mutex_);
  if (directory_.empty()) directory_ = std::move(directory);
}

void FormatSink::MakeSinkFor(OutputFormat format) {
  std::unique_ptr<Sink>& sink = SinkOf(format);
  const MakeSink make = kSinkMakers[static_cast<size_t>(format)];
  if (sink != nullptr || make == nullptr) return;
  const base::MutexLock lock(&mutex_);
  if (!directory_.empty()) sink = make({directory_, rank_, nullptr, files_});
}

WriteResult FormatSink::Write(const RecordLayout& layout, const StepFrame& frame) {
  MakeSinkFor(layout.format);
  if (const auto& sink = SinkOf(layout.format))
    return meter_ == nullptr ? sink->Write(layout, frame) : WriteMetered(sink.get(), layout, frame);
  if (kSinkMakers[static_cast<size_t>(layout.format)] == nullptr) return {Status(), frame.count};
  return {Status(StatusCode::kUnavailable, "the search for the directory of append_output is not finished"), 0};
}

// Rows rejected by the limit are not retried: space is not freed.
WriteResult FormatSink::WriteMetered(Sink* sink, const RecordLayout& layout, const StepFrame& frame) {
  const uint64_t before = meter_->used();
  WriteResult result = sink->Write(layout, frame);
  if (!result.status.ok() && meter_->has_refused()) throw BeyondLimit(result.written);
  const uint64_t after = meter_->used();
  if (after > before) meter_->CountStep(after - before);
  return result;
}

void FormatSink::Discard(const RecordLayout& layout, const StepFrame& frame) {
  if (const auto& sink = SinkOf(layout.format)) sink->Discard(layout, frame);
}

void FormatSink::EndPlan(const RecordLayout& layout) {
  if (const auto& sink = SinkOf(layout.format)) sink->EndPlan(layout);
}

std::vector<std::string> FormatSink::BeginSegment(int64_t segment) {
  std::vector<std::string> files;
  for (const auto& sink : sinks_) {
    if (sink == nullptr) continue;
    std::vector<std::string> closed = sink->BeginSegment(segment);
    files.insert(files.end(), closed.begin(), closed.end());
  }
  return files;
}

Status FormatSink::Flush() {
  Status first_failure;
  for (const auto& sink : sinks_)
    if (Status flushed = sink ? sink->Flush() : Status(); first_failure.ok()) first_failure = std::move(flushed);
  return first_failure;
}

}  // namespace stepwatch::sinks
