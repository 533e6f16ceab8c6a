#include <array>
#include <bitset>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/step_bucket.h"
#include "src/sinks/csv_file.h"
#include "src/sinks/row_text.h"
#include "src/sinks/sink_makers.h"

namespace stepwatch::sinks {
namespace {

// "actv_0-4", and "actv_0-4_s2" in the second segment.
std::string FileStem(SiteKind kind, int64_t step, int64_t steps_per_file, int64_t segment) {
  const int64_t first = base::FileBucket(step, steps_per_file);
  return std::string(SiteKindName(kind)) + "_" + std::to_string(first) + "-" +
         std::to_string(first + steps_per_file - 1) + (segment > 1 ? "_s" + std::to_string(segment) : "");
}

class CsvSink final : public Sink {
 public:
  explicit CsvSink(SinkPlace place) : directory_{std::move(place.directory), false} {
    for (auto& file : files_) file = std::make_unique<CsvFile>(place.files, &directory_);
  }

  WriteResult Write(const RecordLayout& layout, const StepFrame& frame) override {
    if (written_.plan_id != layout.plan_id || written_.step != frame.step) written_ = {layout.plan_id, frame.step, {}};
    formatter_.Format(layout, frame);
    WriteResult result;
    for (size_t k = 0; k < kSiteKindCount; ++k) {
      const auto kind = static_cast<SiteKind>(k);
      const KindRows& rows = formatter_.rows(kind);
      if (rows.records == 0 || written_.kinds[k]) continue;
      // A kind that fails does not prevent the others from being written.
      Status appended = Append(layout, kind, frame.step, rows.text);
      if (appended.ok()) {
        written_.kinds[k] = true;
        result.written += rows.records;
      } else if (result.status.ok()) {
        result.status = std::move(appended);
      }
    }
    return result;
  }

  void EndPlan(const RecordLayout&) override { CloseFiles(); }

  std::vector<std::string> BeginSegment(int64_t segment) override {
    std::vector<std::string> open;
    for (const auto& file : files_)
      if (std::string path = file->path(); !path.empty()) open.push_back(std::move(path));
    CloseFiles();
    segment_ = segment;
    return open;
  }

  // Every append is visible at once; only an error of an earlier close is left to report.
  Status Flush() override { return std::exchange(unreported_, Status()); }

 private:
  void CloseFiles() {
    for (auto& file : files_) {
      Status closed = file->Close();
      if (!closed.ok() && unreported_.ok()) unreported_ = std::move(closed);
    }
  }

  // An exception must not hide the rows written for other kinds.
  Status Append(const RecordLayout& layout, SiteKind kind, int64_t step, std::string_view rows) noexcept {
    try {
      return files_[static_cast<size_t>(kind)]->Append({FileStem(kind, step, layout.step_count_per_record, segment_),
                                                        HeaderLine(layout, kind), layout.plan_id, segment_ > 1},
                                                       rows);
    } catch (const std::bad_alloc&) {
      return Status(StatusCode::kExhausted, "out of memory");  // short enough to need no allocation
    }
  }

  // The kinds whose files already hold the rows of the frame that Write saw last.
  struct Written {
    PlanId plan_id = 0;
    int64_t step = 0;
    std::bitset<kSiteKindCount> kinds;
  };

  CsvDirectory directory_;
  std::array<std::unique_ptr<CsvFile>, kSiteKindCount> files_;
  RowFormatter formatter_;
  int64_t segment_ = 1;
  Written written_;
  Status unreported_;
};

}  // namespace

std::unique_ptr<Sink> MakeCsvSink(SinkPlace place) {
  return std::make_unique<CsvSink>(std::move(place));
}

}  // namespace stepwatch::sinks
