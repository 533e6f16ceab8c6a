// A Python tensor as a TensorView: address, shape, dtype, device; without linking torch.
#pragma once

#include <Python.h>

#include <string>

#include "front_ends/python/native/py_ref.h"
#include "stepwatch/late_results.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch::python {

// The part of DLPack's exchange table that is used.
struct ExchangeTable;

struct SeenTensor {
  TensorView view;
  const char* problem = nullptr;  // the reason why it cannot be measured; the view's dtype is then kOther
};

inline bool IsElsewhere(const TensorView& view) {
  return view.device.kind == kElsewhere.kind && view.device.index == kElsewhere.index;
}

// All calls with the GIL held; no call leaves a Python error set. The view is borrowed: it is valid as long as the
// tensor. For a tensor on a device whose memory cannot be read here (kElsewhere) it has dtype and shape only.
class TensorReader {
 public:
  // `torch`: the torch module. Features are detected by the attributes of its tensors, not by its version.
  explicit TensorReader(PyObject* torch);
  ~TensorReader();
  TensorReader(const TensorReader&) = delete;
  TensorReader& operator=(const TensorReader&) = delete;

  bool IsTensor(PyObject* object) const;
  // `tensor` is a tensor. A DTensor is read as its local shard, the result of an asynchronous collective once it is
  // complete.
  SeenTensor Read(PyObject* tensor);
  // The same by attributes alone, for torch before 2.10.
  SeenTensor ReadAttributes(PyObject* tensor);
  // The values of a sparse tensor (COO), each index once; an empty reference for any other tensor.
  Ref SparseValues(PyObject* tensor) const;
  // "torch.float32" for anything with a dtype, measurable or not; shape as in a Python tuple: "size=(5, 4), dtype=…".
  std::string Describe(PyObject* tensor) const;

 private:
  SeenTensor ReadElsewhere(PyObject* tensor);
  const ExchangeTable* TableOf(PyObject* tensor);
  Ref Inside(PyObject* tensor) const;
  bool IsReleased(PyObject* tensor) const;
  bool ReadTable(const ExchangeTable& table, PyObject* tensor, SeenTensor* seen) const;
  DType DTypeOf(PyObject* dtype) const;

  const Name local_tensor_{"_local_tensor"};
  const Name elem_{"elem"};
  const Name is_sparse_{"is_sparse"};
  PyObject* const torch_;      // strong
  PyObject* tensor_type_;      // torch.Tensor, strong
  PyObject* strided_;          // torch.strided, strong
  Ref parameter_type_;         // torch.nn.Parameter
  PyObject* dtypes_[12] = {};  // torch.float64 …, in the order of DType; null where torch lacks one
  // The types seen last, mostly torch.Tensor and Parameter.
  struct KnownType {
    PyTypeObject* type = nullptr;  // strong
    const ExchangeTable* table = nullptr;
  };
  KnownType known_[2];
};

}  // namespace stepwatch::python
