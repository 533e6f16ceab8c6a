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
                            "When an iteration of a training loop is over, by the updates of its optimizers.")
      .def(nb::init<>())
      .def("add", &IterationRule::Add, "Add an optimizer; return its number.")
      .def("remove", &IterationRule::Remove, "member"_a)
      .def("set_takes_turns", &IterationRule::SetTakesTurns, "member"_a, "takes_turns"_a,
           "Say whether others update all that it updates.")
      .def("leave_out", &IterationRule::LeaveOut, "member"_a, "Let iterations end without it until it updates again.")
      .def("name_clock", &IterationRule::NameClock, "member"_a, "Let its updates alone end iterations.")
      .def("leave_to_program", &IterationRule::LeaveToProgram, "Let no update end an iteration.")
      .def("updated", &IterationRule::Updated, "member"_a, "Return whether this update ends an iteration.")
      .def("take_left_out", &IterationRule::TakeLeftOut,
           "Return those that were left out for the first time since the last call.")
      .def("end_by_hand", &IterationRule::EndByHand,
           "Return whether an iteration ends now: False if an update has ended it.");
}

}  // namespace stepwatch::python
