// Checks whether a model and its optimizers still consist of the same objects. Runs between steps, so it walks through
// them without creating objects.
#pragma once

#include <nanobind/nanobind.h>

#include "front_ends/python/native/names.h"

namespace stepwatch::python {

// True if, in their order, the children and parameters of `modules` are those of `children`, each after its name, and
// the parameters in the groups of `optimizers` are those of `grouped`; if `parameters` are still the tensors at
// `places` (the `_cdata` of each); and if all of `frozen` are frozen. All are lists; no reference is kept.
bool ModelIsAs(const Names& names, const nanobind::list& modules, const nanobind::list& children,
               const nanobind::list& optimizers, const nanobind::list& grouped, const nanobind::list& parameters,
               const nanobind::list& places, const nanobind::list& frozen);

}  // namespace stepwatch::python
