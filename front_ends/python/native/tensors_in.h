// The tensors among the arguments or in the result of a call, and the numbers that their rows carry.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "front_ends/python/native/py_ref.h"
#include "front_ends/python/native/tensor_reader.h"

namespace stepwatch::python {

struct FoundTensor {
  Ref tensor;            // held: a container may be changed meanwhile, or make its values when it is asked
  uint16_t element = 0;  // kNoElement: the only one

  // False: an element that is no tensor, which still gives a row of nan.
  bool is_tensor() const { return tensor.ptr() != nullptr; }
};

// Tensors among the positional arguments, then the keyword values, numbered densely; then those inside of tuples,
// lists, dicts and dataclasses among them, in the order in which they lie there. `kwargs` may be null. Of containers
// that hold each other without end a part is seen.
std::vector<FoundTensor> TensorsInArguments(const TensorReader& reader, PyObject* args, PyObject* kwargs);

// Whether tensors inside of an object have rows: a tuple, list, dict or dataclass.
bool IsContainer(PyObject* object);
// The tensors inside of a container, numbered from 0.
std::vector<FoundTensor> TensorsInside(const TensorReader& reader, PyObject* container);

// A tensor is the only element. Elements of a tuple or list are numbered by position, those of a dict or dataclass
// densely; tensors that lie deeper follow on.
std::vector<FoundTensor> TensorsInResult(const TensorReader& reader, PyObject* result);

// "tensor", "tuple[2]", "list[3]", "<class 'NoneType'>": what module_struct.json calls the result.
std::string KindOfResult(const TensorReader& reader, PyObject* result);

}  // namespace stepwatch::python
