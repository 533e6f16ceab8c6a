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

// All calls but SetDirectory come from the drain thread.
//
// Frames of a format without files, as of `api`, count as written: they are in the table of Monitor::Latest and judged
// for alarms by then.
class FormatSink final : public Sink {
 public:
  // `files` is where the rows go, and `meter`, if it is not null, what counts and limits them there.
  explicit FormatSink(int rank, base::FileSystem& files = base::FileSystem::Real(), base::DiskMeter* meter = nullptr)
      : rank_(rank), files_(files), meter_(meter) {}

  // Any thread: where files go. Later calls change nothing. Until then frames that go to files are not taken.
  void SetDirectory(std::string directory);

  WriteResult Write(const RecordLayout& layout, const StepFrame& frame) override;
  void Discard(const RecordLayout& layout, const StepFrame& frame) override;
  void EndPlan(const RecordLayout& layout) override;
  std::vector<std::string> BeginSegment(int64_t segment) override;
  Status Flush() override;

 private:
  // Null: the format has no files, or there was no frame for them yet.
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
