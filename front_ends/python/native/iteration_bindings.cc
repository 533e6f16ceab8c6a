// The rule by which iterations of a training loop end, as a Python class.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include "front_ends/shared/iteration_rule.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stepwatch::python {

using front_end::IterationRule;

void BindIterations(nb::module_& m) {
  nb::class_<IterationRule>(m, "IterationRule",
                            "The rule that ends the iterations of a training loop by the updates of its optimizers.")
      .def(nb::init<>())
      .def("add", &IterationRule::Add, "Add an optimizer; return its number.")
      .def("remove", &IterationRule::Remove, "member"_a)
      .def("set_takes_turns", &IterationRule::SetTakesTurns, "member"_a, "takes_turns"_a,
           "Set whether other optimizers update all that this one updates.")
      .def("leave_out", &IterationRule::LeaveOut, "member"_a,
           "Let iterations end without this optimizer until it updates again.")
      .def("name_clock", &IterationRule::NameClock, "member"_a,
           "Let only the updates of this optimizer end iterations.")
      .def("leave_to_program", &IterationRule::LeaveToProgram, "Let no update end an iteration.")
      .def("updated", &IterationRule::Updated, "member"_a, "Return whether this update ends an iteration.")
      .def("take_left_out", &IterationRule::TakeLeftOut,
           "Return the optimizers that were left out for the first time since the last call.")
      .def("end_by_hand", &IterationRule::EndByHand,
           "Return whether an iteration ends now: False if an update has ended it.");
}

}  // namespace stepwatch::python
