#include "front_ends/python/native/late_engine.h"

#include <nanobind/stl/shared_ptr.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "front_ends/python/native/zeros_like.h"

namespace stepwatch::python {
namespace {

// Number of tensors measured before their numbers are sent in mid-step.
constexpr size_t kTensorsUnsent = 4096;

uint8_t ColumnsFor(Stat stat) {
  switch (stat) {
    case Stat::kNorm: return kLateNorm;
    case Stat::kMean: return kLateSum;
    case Stat::kMin:
    case Stat::kMax:
    case Stat::kId:
    case Stat::kAbsMax: return kLateMin | kLateMax;
    case Stat::kZeros: return kLateZeros;
    case Stat::kNans: return kLateNans;
    case Stat::kInfs: return kLateInfs;
    case Stat::kStd: return kLateNorm | kLateSum | kLateMin | kLateMax;
    default: return 0;
  }
}

uint8_t ColumnsFor(const std::vector<Stat>& stats) {
  uint8_t columns = 0;
  for (const Stat stat : stats) columns |= ColumnsFor(stat);
  return columns;
}

bool SameShape(const TensorView& a, const TensorView& b) {
  return a.ndim == b.ndim && std::equal(a.sizes.begin(), a.sizes.begin() + a.ndim, b.sizes.begin());
}

TensorView Unknown() {
  TensorView view;
  view.dtype = DType::kOther;
  return view;
}

bool IsForced() {
  const char* wanted = std::getenv("STEPWATCH_ENGINE");
  return wanted != nullptr && std::strcmp(wanted, "torch") == 0;
}

}  // namespace

LatePages::~LatePages() {
  for (Page& page : pages_)
    if (!IsFinished(&page)) (void)page.page.release(), (void)page.sources.release();
}

void LatePages::Publish(PyObject* page, size_t count, PyObject* sources, const std::vector<Section>& sections) {
  const TensorView view = reader_->Read(page).view;
  const bool are_single = view.dtype == DType::kFloat32;
  if ((!are_single && view.dtype != DType::kFloat64) || view.device.kind != DeviceKind::kCpu) return;
  Page& added = pages_.emplace_back();
  added.page = Ref::Borrow(page);
  added.sources = Ref::Borrow(sources);
  added.cells = LatePage(view.data, are_single);
  added.count = std::min(count, static_cast<size_t>(view.numel));
  for (const Section& section : sections) {
    const size_t stride = section.tickets.size();
    for (size_t i = 0; i < stride; ++i) {
      table_->Publish(section.tickets[i], {added.cells, section.columns, section.offset + i, stride});
      added.tickets.push_back(section.tickets[i]);
    }
  }
}

bool LatePages::IsFinished(Page* page) const {
  for (double number = 0; page->written < page->count && page->cells.Read(page->written, &number);) ++page->written;
  if (page->written < page->count) return false;
  while (!page->tickets.empty() && !table_->InUse(page->tickets.back())) page->tickets.pop_back();
  return page->tickets.empty();
}

std::vector<Ref> LatePages::TakeFinished() {
  std::vector<Ref> finished;
  std::erase_if(pages_, [&](Page& page) {
    if (!IsFinished(&page)) return false;
    finished.push_back(std::move(page.page));
    return true;
  });
  return finished;
}

void LatePages::Note(std::string text) {
  Event event;
  event.kind = EventKind::kNote;
  event.message = std::move(text);
  reporter_->Report(std::move(event));
}

LateEngine::LateEngine(TensorReader* reader, front_end::Reporter* reporter)
    : owner_(::getpid()),
      takes_all_(IsForced()),
      reader_(reader),
      reporter_(reporter),
      pages_(std::make_shared<LatePages>(table_, reader, reporter)) {}

bool LateEngine::MakeEngine() {
  if (engine_ || failed_) return !failed_;
  const nanobind::object pages = nanobind::cast(pages_);
  const Ref module(PyImport_ImportModule("stepwatch.devices"));
  Ref made = module ? Ref(PyObject_CallMethod(module.ptr(), "Engine", "O", pages.ptr())) : Ref();
  if (!engine_) engine_ = std::move(made);  // otherwise another thread has made it meanwhile
  failed_ = !engine_;
  ReportError();
  return !failed_;
}

void LateEngine::ReportError() {
  if (PyErr_Occurred() == nullptr) return;
  const nanobind::python_error error;
  reporter_->Caught("measuring with torch's operators", error.what());
}

template <class... Arguments>
Ref LateEngine::CallEngine(const char* method, const char* format, Arguments... arguments) {
  // In a forked child the device and the engine's lock may be unusable.
  if (::getpid() != owner_ || !MakeEngine()) return {};
  Ref result(PyObject_CallMethod(engine_.ptr(), method, format, arguments...));
  if (!result) ReportError();
  return result;
}

void LateEngine::Prepare(PyObject* tensor) {
  (void)CallEngine("prepare", "O", tensor);
}

void LateEngine::Swap(const RecordLayout& layout) {
  columns_.fill(ColumnsFor(layout.stats));
  for (size_t i = 0; i < layout.groups.size() && i + 1 < columns_.size(); ++i)
    if (!layout.groups[i].stats.empty()) columns_[i + 1] = ColumnsFor(layout.groups[i].stats);
}

bool LateEngine::Takes(Recorder& to, const TensorView& view) {
  if (view.dtype == DType::kOther) return false;
  return takes_all_ || (view.device.kind != DeviceKind::kCpu && !to.Measures(view.device));
}

uint64_t LateEngine::Claim(const LateItem& item) {
  return table_->Claim({item.view.numel, IsIntegral(item.view.dtype)});
}

void LateEngine::Refuse(Recorder& to, LateItem* item) {
  item->is_recorded = to.Measure(item->at, Unknown(), &item->record);
}

void LateEngine::TakeAnswer(Recorder& to, PyObject* answer, const LateTicket& ticket, LateItem* item) {
  if (answer == Py_None) {
    item->is_recorded = to.MeasureLate(item->at, item->view, ticket, &item->record);
    return;
  }
  table_->Discard(ticket.number);
  ReportUnmeasurable(*item, answer);
  Refuse(to, item);
}

void LateEngine::ReportUnmeasurable(const LateItem& item, PyObject* answer) {
  const char* why = PyUnicode_Check(answer) ? PyUnicode_AsUTF8AndSize(answer, nullptr) : nullptr;
  ClearError();
  if (why != nullptr) reporter_->Unmeasurable(item.kind, why);
}

void LateEngine::Measure(Recorder& to, const std::vector<uint8_t>& groups, LateItem* items, size_t count) {
  const Clock::time_point start = Clock::now();
  std::vector<LateItem*> asked;
  std::vector<LateTicket> tickets;
  const Ref tensors(PyList_New(0)), columns(PyList_New(0)), numbers(PyList_New(0));
  for (LateItem* item = items; item != items + count; ++item) {
    if (item->view.numel == 0) {
      item->is_recorded = to.Measure(item->at, ZerosLike(item->view), &item->record);
      continue;
    }
    const size_t group = item->at.site < groups.size() ? groups[item->at.site] : 0;
    const uint64_t ticket = Claim(*item);
    if (ticket == 0) {
      Refuse(to, item);
      continue;
    }
    const Ref wanted(PyLong_FromLong(columns_[group])), number(PyLong_FromUnsignedLongLong(ticket));
    PyList_Append(tensors.ptr(), item->tensor);
    PyList_Append(columns.ptr(), wanted.ptr());
    PyList_Append(numbers.ptr(), number.ptr());
    asked.push_back(item);
    tickets.push_back({ticket, false, {}});
  }
  if (asked.empty()) return;
  const ZerosRule zeros = to.zeros_rule();
  const Ref answers = CallEngine("measure", "OOOdi", tensors.ptr(), columns.ptr(), numbers.ptr(), zeros.eps,
                                 zeros.mode == EpsMode::kExact ? 1 : 0);
  const auto spent = (Clock::now() - start) / static_cast<int64_t>(asked.size());
  for (size_t i = 0; i < asked.size(); ++i) {
    tickets[i].spent = std::chrono::nanoseconds(spent);
    PyObject* const answer = answers ? PyList_GetItem(answers.ptr(), static_cast<Py_ssize_t>(i)) : nullptr;
    if (answer != nullptr) {
      TakeAnswer(to, answer, tickets[i], asked[i]);
    } else {
      ClearError();
      table_->Discard(tickets[i].number);
      Refuse(to, asked[i]);
    }
  }
  measured_ += asked.size();
  if (measured_ >= kTensorsUnsent) Flush(to);
}

void LateEngine::ObserveAgreement(Recorder& to, LateItem* gradient, const LateItem& momentum) {
  const Clock::time_point start = Clock::now();
  if (gradient->view.numel == 0 || !SameShape(gradient->view, momentum.view))
    return to.ObserveAgreement(gradient->at, ZerosLike(gradient->view), ZerosLike(momentum.view));
  const uint64_t ticket = Claim(*gradient);
  const Ref answer = ticket == 0 ? Ref()
                                 : CallEngine("agreement", "OOK", gradient->tensor, momentum.tensor,
                                              static_cast<unsigned long long>(ticket));
  if (answer && answer.ptr() == Py_None) {
    ++measured_;
    if (to.MeasureLate(gradient->at, gradient->view, {ticket, true, Clock::now() - start}, &gradient->record))
      to.Enqueue(gradient->record);
    return;
  }
  table_->Discard(ticket);
  if (answer) ReportUnmeasurable(*gradient, answer.ptr());
  to.ObserveAgreement(gradient->at, Unknown(), Unknown());
}

void LateEngine::Flush(Recorder& to) {
  if (measured_ == 0) return;
  measured_ = 0;
  const Clock::time_point start = Clock::now();
  (void)CallEngine("flush", nullptr);
  to.AddTime(Clock::now() - start);
}

}  // namespace stepwatch::python
