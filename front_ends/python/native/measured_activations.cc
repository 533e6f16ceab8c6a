#include "front_ends/python/native/measured_activations.h"

#include <algorithm>

namespace stepwatch::python {
namespace {

constexpr int64_t kWorthwhileBytes = 16 * 1024;

bool SameLayout(const TensorView& a, const TensorView& b) {
  return a.data == b.data && a.dtype == b.dtype && a.ndim == b.ndim &&
         std::equal(a.sizes.begin(), a.sizes.begin() + a.ndim, b.sizes.begin()) &&
         std::equal(a.strides.begin(), a.strides.begin() + a.ndim, b.strides.begin());
}

}  // namespace

long VersionOf(const Names& names, PyObject* tensor) {
  const Ref version = Attribute(tensor, names.version);
  const long value = version ? PyLong_AsLong(version.ptr()) : kNoVersion;
  ClearError();
  return value;
}

bool MeasuredActivations::IsWorthwhile(const TensorView& view) {
  return view.device.kind == DeviceKind::kCpu && view.numel * ElementSize(view.dtype) >= kWorthwhileBytes;
}

const Record* MeasuredActivations::Find(TensorReader& reader, const Contents& contents) const {
  const auto found = measured_.find(contents.view.data);
  if (found == measured_.end() || contents.version == kNoVersion) return nullptr;
  const Entry& entry = found->second;
  if (entry.contents.version != contents.version || !SameLayout(entry.contents.view, contents.view)) return nullptr;
  const Ref tensor = Target(entry.tensor);
  if (!tensor) return nullptr;
  // Its storage may have been released.
  return reader.Read(tensor.ptr()).view.data == contents.view.data ? &entry.record : nullptr;
}

void MeasuredActivations::Add(PyObject* tensor, const Contents& contents, const Record& record) {
  if (contents.version == kNoVersion || record.pending()) return;
  Ref weak(PyWeakref_NewRef(tensor, nullptr));
  if (!weak) return ClearError();
  measured_.insert_or_assign(contents.view.data, Entry{std::move(weak), contents, record});
}

}  // namespace stepwatch::python
