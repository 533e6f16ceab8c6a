// The tensors among the arguments or in the result of a call, and the numbers that their rows carry.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>
#include <vector>

#include "python/tensor_reader.h"

namespace stepwatch::python {

// Borrowed from the object it was found in.
struct FoundTensor {
  PyObject* tensor = nullptr;  // null: an element that is no tensor, which still gives a row of nan
  uint16_t element = 0;        // kNoElement: the only one
};

// Tensors among the positional arguments, then the keyword values, numbered densely; then those inside of tuples,
// lists, dicts and dataclasses among them, in the order in which they lie there. `kwargs` may be null.
std::vector<FoundTensor> TensorsInArguments(const TensorReader& reader, PyObject* args, PyObject* kwargs);

// A tensor is the only element. Elements of a tuple or list are numbered by position, those of a dict or dataclass
// densely; tensors that lie deeper follow on.
std::vector<FoundTensor> TensorsInResult(const TensorReader& reader, PyObject* result);

// "tensor", "tuple[2]", "list[3]", "<class 'NoneType'>": what module_struct.json calls the result.
std::string KindOfResult(const TensorReader& reader, PyObject* result);

}  // namespace stepwatch::python
