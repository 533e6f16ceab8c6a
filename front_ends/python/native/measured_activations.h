// Activations measured in the running step: the output of one module that is the input of the next is read once.
//
// Tensors are the same if memory, shape, strides and version are equal and the measured tensor is still alive, so that
// its memory cannot belong to another tensor. Writes that torch does not count (numpy, `.data`) go unnoticed.
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
  // The key shared by all tensors of the same contents.
  struct Contents {
    TensorView view;
    long version = kNoVersion;
  };

  // Below this size reading a tensor again costs no more than finding it here.
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
