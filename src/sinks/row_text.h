// Records as CSV text: one text for each kind of site. Pure; no files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "stepwatch/sink.h"

namespace stepwatch::sinks {

// The first line of a file of this kind, "\n" included.
std::string HeaderLine(const RecordLayout& layout, SiteKind kind);

// The rows of one kind of file in one step.
struct KindRows {
  std::string text;  // whole lines
  size_t records = 0;
};

// Keeps its buffers from frame to frame, so that the drain allocates only while frames grow.
//
// Row order: kinds of modules are grouped by module, modules in the order of their first record, and inside a module by
// micro-step, call, input before output, element. Gradients of one module may arrive from several autograd threads and
// outputs before inputs, so rows are sorted here. All other kinds keep the order in which they were produced.
class RowFormatter {
 public:
  // Every record's site must be in `layout`.
  void Format(const RecordLayout& layout, const StepFrame& frame);
  // `kind`: as returned by FileKind.
  const KindRows& rows(SiteKind kind) const { return kinds_[static_cast<size_t>(kind)].rows; }

 private:
  struct PlacedRecord {
    const Record* record = nullptr;
    uint32_t module_rank = 0;  // of the module among those of its kind in this frame
  };
  struct Kind {
    KindRows rows;
    std::vector<PlacedRecord> records;
    std::vector<uint32_t> rank_of_owner;  // kUnranked, or the module's rank; by PlannedSite::owner
    uint32_t ranks = 0;
  };

  void Collect(const RecordLayout& layout, const StepFrame& frame);

  std::array<Kind, kSiteKindCount> kinds_;
};

}  // namespace stepwatch::sinks
