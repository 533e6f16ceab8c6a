// Turns a Status into a Python exception.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "stepwatch/status.h"

namespace stepwatch::python {

// A path in the form that Python uses for non-text paths, with surrogates in place of bytes.
inline nanobind::object PathText(const std::string& path) {
  return nanobind::steal(PyUnicode_DecodeUTF8(path.data(), static_cast<Py_ssize_t>(path.size()), "surrogateescape"));
}
inline std::string PathBytes(const nanobind::bytes& path) {
  return {path.c_str(), path.size()};
}

// The exception of a refused config is part of the interface: TypeError, but ValueError for these.
[[noreturn]] inline void Raise(const Status& status) {
  const std::string& key = status.place().key;
  const bool value_error = key == "ndigits" || (status.code() == StatusCode::kOutOfRange &&
                                                (key == "step_count_per_record" || key == "append_output"));
  const bool refused = status.code() == StatusCode::kWrongType || status.code() == StatusCode::kOutOfRange;
  PyObject* const kind = value_error                                 ? PyExc_ValueError
                         : refused                                   ? PyExc_TypeError
                         : status.code() == StatusCode::kInvalid     ? PyExc_ValueError
                         : status.code() == StatusCode::kNotFound    ? PyExc_FileNotFoundError
                         : status.code() == StatusCode::kUnavailable ? PyExc_OSError
                                                                     : PyExc_RuntimeError;
  PyErr_SetObject(kind, PathText(status.ToString()).ptr());
  throw nanobind::python_error();
}

inline void Check(const Status& status) {
  if (!status.ok()) Raise(status);
}

}  // namespace stepwatch::python
