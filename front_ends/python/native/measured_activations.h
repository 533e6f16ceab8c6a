// Activations measured in the running step: the output of one module that is the input of the next is read once.
//
// The same tensor is the same memory, shape, strides and version, with the tensor that was measured still alive, so
// that its memory cannot have become another's. Writes that torch does not count (numpy, `.data`) go unnoticed.
//
// With the GIL held.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "front_ends/python/native/names.h"
#include "front_ends/python/native/py_ref.h"
#include "front_ends/python/native/tensor_reader.h"
#include "stepwatch/record.h"

namespace stepwatch::python {

// tensor._version; kNoVersion where torch counts none, as in inference mode.
inline constexpr long kNoVersion = -1;
long VersionOf(const Names& names, PyObject* tensor);

class MeasuredActivations {
 public:
  // The key that all tensors of the same contents share.
  struct Contents {
    TensorView view;
    long version = kNoVersion;
  };

  // Below it, reading a tensor again costs no more than finding it here.
  static bool IsWorthwhile(const TensorView& view);

  // The record of the same contents, or null.
  const Record* Find(TensorReader& reader, const Contents& contents) const;
  void Add(PyObject* tensor, const Contents& contents, const Record& record);
  void Clear() { measured_.clear(); }

 private:
  struct Entry {
    Ref tensor;  // weak
    Contents contents;
    Record record;
  };
  std::unordered_map<const void*, Entry> measured_;  // by address; the newest of each
};

}  // namespace stepwatch::python
