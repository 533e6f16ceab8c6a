#include "src/sinks/format_sink.h"

#include <utility>

#include "src/sinks/csv_sink.h"
#include "src/sinks/tensorboard_sink.h"

namespace stepwatch::sinks {

void FormatSink::SetDirectory(std::string directory) {
  const base::MutexLock lock(&mutex_);
  if (directory_.empty()) directory_ = std::move(directory);
}

Sink* FormatSink::SinkOf(OutputFormat format) const {
  switch (format) {
    case OutputFormat::kCsv: return csv_.get();
    case OutputFormat::kTensorBoard: return tensorboard_.get();
    case OutputFormat::kApi: break;
  }
  return nullptr;
}

void FormatSink::MakeSinkFor(OutputFormat format) {
  if (SinkOf(format) != nullptr) return;
  const base::MutexLock lock(&mutex_);
  if (directory_.empty()) return;
  if (format == OutputFormat::kCsv) csv_ = MakeCsvSink(directory_, files_);
  if (format == OutputFormat::kTensorBoard) tensorboard_ = MakeTensorBoardSink({directory_, rank_, {}}, files_);
}

WriteResult FormatSink::Write(const RecordLayout& layout, const StepFrame& frame) {
  MakeSinkFor(layout.format);
  if (layout.format == OutputFormat::kApi) return {Status(), frame.count};
  if (Sink* sink = SinkOf(layout.format)) return sink->Write(layout, frame);
  return {Status(StatusCode::kUnavailable, "the directory that append_output names is still looked for"), 0};
}

void FormatSink::Discard(const RecordLayout& layout, const StepFrame& frame) {
  if (Sink* sink = SinkOf(layout.format)) sink->Discard(layout, frame);
}

void FormatSink::EndPlan(const RecordLayout& layout) {
  if (Sink* sink = SinkOf(layout.format)) sink->EndPlan(layout);
}

Status FormatSink::Flush() {
  Status flushed = csv_ ? csv_->Flush() : Status();
  Status also = tensorboard_ ? tensorboard_->Flush() : Status();
  return flushed.ok() ? also : flushed;
}

}  // namespace stepwatch::sinks
