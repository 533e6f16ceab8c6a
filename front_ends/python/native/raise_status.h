// Turns a Status into a Python exception.
#pragma once

#include <nanobind/nanobind.h>

#include "stepwatch/status.h"

namespace stepwatch::python {

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
  PyErr_SetString(kind, status.ToString().c_str());
  throw nanobind::python_error();
}

inline void Check(const Status& status) {
  if (!status.ok()) Raise(status);
}

}  // namespace stepwatch::python
