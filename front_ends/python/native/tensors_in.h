// The tensors among the arguments or in the result of a call, and their numbers in rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "front_ends/python/native/py_ref.h"
#include "front_ends/python/native/tensor_reader.h"

namespace stepwatch::python {

struct FoundTensor {
  Ref held;              // a container may be changed meanwhile, or create its values on access
  uint16_t element = 0;  // kNoElement: the only one

  // False: an element that is not a tensor, which still has a row of nan.
  bool is_tensor() const { return held.ptr() != nullptr; }
  PyObject* tensor() const { return held.ptr(); }
};

// Tensors among the positional arguments, then the keyword values, numbered consecutively; then those inside tuples,
// lists, dicts and dataclasses among them, in their order there. `kwargs` may be null. Containers that contain each
// other are visited only in part.
std::vector<FoundTensor> TensorsInArguments(const TensorReader& reader, PyObject* args, PyObject* kwargs);

// True if tensors inside an object have rows: a tuple, list, dict or dataclass.
bool IsContainer(PyObject* object);
// The tensors inside a container, numbered from 0.
std::vector<FoundTensor> TensorsInside(const TensorReader& reader, PyObject* container);

// A tensor is the only element. Elements of a tuple or list are numbered by position, those of a dict or dataclass
// consecutively; more deeply nested tensors follow.
std::vector<FoundTensor> TensorsInResult(const TensorReader& reader, PyObject* result);

// "tensor", "tuple[2]", "list[3]", "<class 'NoneType'>": the description of the result in module_struct.json.
std::string KindOfResult(const TensorReader& reader, PyObject* result);

}  // namespace stepwatch::python
