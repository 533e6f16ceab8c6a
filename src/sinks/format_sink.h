// The run's own output: sends the frames of each plan to the files of the plan's `format`.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "src/base/file_system.h"
#include "src/base/metered_files.h"
#include "src/base/mutex.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/sink.h"

namespace stepwatch::sinks {

// All calls except SetDirectory come from the drain thread.
//
// Frames of a format without files, such as `api`, count as written: they are already in the table of Monitor::Latest
// and checked for alarms.
class FormatSink final : public Sink {
 public:
  // `files` is the file system for the rows, and `meter`, if not null, counts and limits them.
  explicit FormatSink(int rank, base::FileSystem& files = base::FileSystem::Real(), base::DiskMeter* meter = nullptr)
      : rank_(rank), files_(files), meter_(meter) {}

  // Any thread: sets the output directory. Only the first call has an effect. Before it, frames for files are not
  // accepted.
  void SetDirectory(std::string directory);

  WriteResult Write(const RecordLayout& layout, const StepFrame& frame) override;
  void Discard(const RecordLayout& layout, const StepFrame& frame) override;
  void EndPlan(const RecordLayout& layout) override;
  std::vector<std::string> BeginSegment(int64_t segment) override;
  Status Flush() override;

 private:
  // Null: the format has no files, or no frame has needed them yet.
  std::unique_ptr<Sink>& SinkOf(OutputFormat format) { return sinks_[static_cast<size_t>(format)]; }
  void MakeSinkFor(OutputFormat format);
  WriteResult WriteMetered(Sink* sink, const RecordLayout& layout, const StepFrame& frame);

  const int rank_;
  base::FileSystem& files_;
  base::DiskMeter* const meter_;
  base::Mutex mutex_;
  std::string directory_ STEPWATCH_GUARDED_BY(mutex_);
  std::array<std::unique_ptr<Sink>, kOutputFormatCount> sinks_;
};

}  // namespace stepwatch::sinks
