#include "src/sinks/format_sink.h"

#include <utility>

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
  if (const auto& sink = SinkOf(layout.format)) return sink->Write(layout, frame);
  if (kSinkMakers[static_cast<size_t>(layout.format)] == nullptr) return {Status(), frame.count};
  return {Status(StatusCode::kUnavailable, "the directory that append_output names is still looked for"), 0};
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
