// Tensors that no engine of the core reads, measured on their device by torch's operators (stepwatch.devices, in
// Python), which leave their numbers in pages of host memory.
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

// What Python fills: pages, and what is worth saying.
class LatePages {
 public:
  LatePages(std::shared_ptr<LateTable> table, TensorReader* reader, front_end::Reporter* reporter)
      : table_(std::move(table)), reader_(reader), reporter_(reporter) {}
  // Pages that may be read or written still are given up to leak.
  ~LatePages();

  // A number of tensors of which the same is measured: the cells of the i-th begin at offset + i, and lie as far apart
  // as there are tensors.
  struct Section {
    size_t offset = 0;
    uint8_t columns = 0;
    std::vector<uint64_t> tickets;
  };
  // `page`: float64 or float32 in CPU memory, of which the first `count` are unwritten but for what has arrived.
  // `sources`, whence they are copied, is kept alive as long as the page is.
  void Publish(PyObject* page, size_t count, PyObject* sources, const std::vector<Section>& sections);
  // Pages that nobody reads or writes any more, to be filled again.
  std::vector<Ref> TakeFinished();
  void Note(std::string text);

 private:
  struct Page {
    Ref page;
    Ref sources;
    LatePage cells;
    size_t count = 0;
    size_t written = 0;  // so many from the first on, at least
    std::vector<uint64_t> tickets;
  };
  bool IsFinished(Page* page) const;

  const std::shared_ptr<LateTable> table_;
  TensorReader* const reader_;           // outlives this
  front_end::Reporter* const reporter_;  // likewise
  std::vector<Page> pages_;
};

// A tensor that is to be measured, and what became of it: `record` is to be enqueued if `is_recorded`.
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

  // Sites of `layout` are measured from now on.
  void Swap(const RecordLayout& layout);
  // Tensors like this one are measured here.
  bool Takes(Recorder& to, const TensorView& view);
  // Makes ready what measuring tensors like this one needs.
  void Prepare(PyObject* tensor);

  // `groups`: PlannedSite::group by site; empty: none is in one.
  void Measure(Recorder& to, const std::vector<uint8_t>& groups, LateItem* items, size_t count);
  // Records the agreement of signs of two tensors, the first of which says where.
  void ObserveAgreement(Recorder& to, LateItem* gradient, const LateItem& momentum);
  // What has been measured by now is on its way to the host.
  void Flush(Recorder& to);

 private:
  using Clock = std::chrono::steady_clock;

  // Returns nothing if it raises, which is told.
  template <class... Arguments>
  Ref CallEngine(const char* method, const char* format, Arguments... arguments);
  bool MakeEngine();
  void TellError();
  uint64_t Claim(const LateItem& item);
  void TakeAnswer(Recorder& to, PyObject* answer, const LateTicket& ticket, LateItem* item);
  void TellWhyNot(const LateItem& item, PyObject* answer);
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
