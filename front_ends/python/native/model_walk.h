// Whether a model and its optimizers are still made of the same objects: asked at the boundary of steps, so it walks
// through them without making anything.
#pragma once

#include <nanobind/nanobind.h>

#include "front_ends/python/native/names.h"

namespace stepwatch::python {

// True if, in their order, the children and parameters of `modules` are those of `children`, each behind its name, and
// the parameters in the groups of `optimizers` those of `grouped`; `parameters` are still the tensors that `places`
// tells (`_cdata` of each); and all of `frozen` are. All are lists; nothing is kept.
bool ModelIsAs(const Names& names, const nanobind::list& modules, const nanobind::list& children,
               const nanobind::list& optimizers, const nanobind::list& grouped, const nanobind::list& parameters,
               const nanobind::list& places, const nanobind::list& frozen);

}  // namespace stepwatch::python
