// Numbered lines that a process reports about itself: recent ends of steps, reported numbers and events.
// The step thread puts entries into the queue of its PulseWriter; any reader, or the control socket once a second,
// makes lines of them here. Lines are numbered from 1, so a reader that polls misses no line, or knows how many it
// missed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controller/control_socket/job.h"
#include "controller/control_socket/job_owner.h"
#include "src/base/mutex.h"
#include "src/json/json.h"
#include "src/step/pulse_writer.h"
#include "stepwatch/report.h"

namespace stepwatch::control_socket {

// Any thread but the step thread. Bounded; entries that find no memory are counted as dropped.
class BeatLog {
 public:
  static constexpr size_t kLinesMax = 10000;
  static constexpr size_t kBytesMax = size_t{8} << 20;
  static constexpr size_t kPageBytesMax = size_t{1} << 20;

  struct Who {
    std::string run_id;
    std::string host;
    int rank = 0;
    int world = 1;
    JobOwner job = {};
  };

  // `pulse` must outlive the log. The first line is the event `start`.
  BeatLog(Who who, step::PulseWriter* pulse);

  // Empties the queue, and updates the offset from the pulse's clock to the system's.
  void Take() noexcept;
  void SetRunId(const std::string& run_id) noexcept;
  void Note(const ExceptionReport& exception) noexcept;
  // The first end counts; an exception that ends the run is kError.
  void NoteEnd(RunEnd end) noexcept;
  // Returns the oldest kept lines with a larger number: at most `count`, and about kPageBytesMax. A number larger than
  // the newest belongs to an earlier process and counts as 0.
  BeatPage After(uint64_t number, size_t count);

 private:
  struct Line {
    uint64_t number = 0;
    double t = 0;  // seconds, system clock
    bool is_event = false;
    std::string body;
  };
  // Numbers of one step, in the order in which they were first reported.
  using Numbers = std::vector<std::pair<std::string, double>>;

  void TakeAll() STEPWATCH_REQUIRES(mutex_);
  void OnEntry(const step::ReportEntry& entry) STEPWATCH_REQUIRES(mutex_);
  void OnNumber(const step::ReportEntry& entry) STEPWATCH_REQUIRES(mutex_);
  void OnStepEnd(const step::ReportEntry& entry) STEPWATCH_REQUIRES(mutex_);
  void OnPhase(const step::ReportEntry& entry) STEPWATCH_REQUIRES(mutex_);
  void CountPhase(int64_t until_ns) STEPWATCH_REQUIRES(mutex_);
  Json ExceptionJson(const ExceptionReport& exception) const STEPWATCH_REQUIRES(mutex_);
  void AddLateBeat() STEPWATCH_REQUIRES(mutex_);
  uint64_t AddBeat(int64_t at_ns, const Json& beat) STEPWATCH_REQUIRES(mutex_);
  uint64_t AddEvent(int64_t at_ns, const Json& event) STEPWATCH_REQUIRES(mutex_);
  uint64_t Add(int64_t at_ns, bool is_event, std::string body) STEPWATCH_REQUIRES(mutex_);
  // Copies the line into the pulse too, where it outlives the process.
  void AddLastWord(uint64_t number, bool is_end) STEPWATCH_REQUIRES(mutex_);
  std::string TextOf(const Line& line) const STEPWATCH_REQUIRES(mutex_);

  step::PulseWriter* const pulse_;
  mutable base::Mutex mutex_;
  Who who_ STEPWATCH_GUARDED_BY(mutex_);
  std::deque<Line> lines_ STEPWATCH_GUARDED_BY(mutex_);
  size_t bytes_ STEPWATCH_GUARDED_BY(mutex_) = 0;
  uint64_t newest_ STEPWATCH_GUARDED_BY(mutex_) = 0;
  uint64_t dropped_ STEPWATCH_GUARDED_BY(mutex_) = 0;
  int64_t wall_offset_ns_ STEPWATCH_GUARDED_BY(mutex_) = 0;

  std::map<int64_t, Numbers> numbers_ STEPWATCH_GUARDED_BY(mutex_);  // by step, of steps that have not ended
  struct Late {
    int64_t step = 0;
    int64_t at_ns = 0;
    Phase phase = Phase::kInit;
    Numbers numbers;
  };
  std::optional<Late> late_ STEPWATCH_GUARDED_BY(mutex_);  // numbers reported after the end of their step
  std::optional<std::pair<int64_t, int64_t>> last_end_ STEPWATCH_GUARDED_BY(mutex_);  // step and time of the last end
  Phase phase_ STEPWATCH_GUARDED_BY(mutex_) = Phase::kInit;
  int64_t phase_since_ns_ STEPWATCH_GUARDED_BY(mutex_) = 0;
  int64_t not_training_ns_ STEPWATCH_GUARDED_BY(mutex_) = 0;           // since the newest end of a step
  std::optional<int64_t> checkpoint_ns_ STEPWATCH_GUARDED_BY(mutex_);  // the same, of checkpoints
  // The inner parts that the program has reported itself: measured ones no longer replace them.
  std::array<bool, 3> own_parts_ STEPWATCH_GUARDED_BY(mutex_){};
  bool has_ended_ STEPWATCH_GUARDED_BY(mutex_) = false;
};

}  // namespace stepwatch::control_socket
