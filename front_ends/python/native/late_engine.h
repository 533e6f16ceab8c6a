// Measures tensors that no engine of the core can read: torch's operators (stepwatch.devices, in Python) measure them
// on their device and write the numbers into pages of host memory.
//
// With the GIL held.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "front_ends/python/native/late_table.h"
#include "front_ends/python/native/py_ref.h"
#include "front_ends/python/native/tensor_reader.h"
#include "front_ends/shared/reporter.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/recorder.h"
#include "stepwatch/site_kind.h"

namespace stepwatch::python {

// Receives the pages that Python fills, and its messages.
class LatePages {
 public:
  LatePages(std::shared_ptr<LateTable> table, TensorReader* reader, front_end::Reporter* reporter)
      : table_(std::move(table)), reader_(reader), reporter_(reporter) {}
  // Leaks pages that may still be read or written.
  ~LatePages();

  // Tensors with the same set of measurements: the cells of the i-th begin at offset + i, with a stride of the number
  // of tensors.
  struct Section {
    size_t offset = 0;
    uint8_t columns = 0;
    std::vector<uint64_t> tickets;
  };
  // `page`: float64 or float32 in CPU memory, whose first `count` cells are unwritten except for numbers that have
  // arrived. `sources`, from which they are copied, is kept alive as long as the page.
  void Publish(PyObject* page, size_t count, PyObject* sources, const std::vector<Section>& sections);
  // Pages that are no longer read or written, to be filled again.
  std::vector<Ref> TakeFinished();
  void Note(std::string text);

 private:
  struct Page {
    Ref page;
    Ref sources;
    LatePage cells;
    size_t count = 0;
    size_t written = 0;  // at least this many, from the first on
    std::vector<uint64_t> tickets;
  };
  bool IsFinished(Page* page) const;

  const std::shared_ptr<LateTable> table_;
  TensorReader* const reader_;           // outlives this
  front_end::Reporter* const reporter_;  // likewise
  std::vector<Page> pages_;
};

// A tensor to measure, and the result: `record` is to be enqueued if `is_recorded`.
struct LateItem {
  SiteKind kind = SiteKind::kActv;
  Observation at;
  PyObject* tensor = nullptr;  // borrowed
  TensorView view;
  Record record;
  bool is_recorded = false;
};

class LateEngine {
 public:
  // STEPWATCH_ENGINE=torch in the environment: torch's operators measure all tensors.
  LateEngine(TensorReader* reader, front_end::Reporter* reporter);

  std::shared_ptr<LateResults> results() const { return table_; }

  // From now on measures the sites of `layout`.
  void Swap(const RecordLayout& layout);
  // True if tensors like this one are measured here.
  bool Takes(Recorder& to, const TensorView& view);
  // Prepares the measurement of tensors like this one.
  void Prepare(PyObject* tensor);

  // `groups`: PlannedSite::group by site; empty: no site has a group.
  void Measure(Recorder& to, const std::vector<uint8_t>& groups, LateItem* items, size_t count);
  // Records the agreement of signs of two tensors; the first one determines the device.
  void ObserveAgreement(Recorder& to, LateItem* gradient, const LateItem& momentum);
  // Sends the numbers measured so far to the host.
  void Flush(Recorder& to);

 private:
  using Clock = std::chrono::steady_clock;

  // Returns an empty reference if it raises; the exception is reported.
  template <class... Arguments>
  Ref CallEngine(const char* method, const char* format, Arguments... arguments);
  bool MakeEngine();
  void ReportError();
  uint64_t Claim(const LateItem& item);
  void TakeAnswer(Recorder& to, PyObject* answer, const LateTicket& ticket, LateItem* item);
  void ReportUnmeasurable(const LateItem& item, PyObject* answer);
  void Refuse(Recorder& to, LateItem* item);

  const std::shared_ptr<LateTable> table_ = std::make_shared<LateTable>();
  const pid_t owner_;
  const bool takes_all_;
  TensorReader* const reader_;
  front_end::Reporter* const reporter_;
  std::shared_ptr<LatePages> pages_;
  Ref engine_;  // made with the first tensor
  bool failed_ = false;
  std::array<uint8_t, 64> columns_{};  // by PlannedSite::group
  size_t measured_ = 0;                // since the last Flush
};

}  // namespace stepwatch::python
