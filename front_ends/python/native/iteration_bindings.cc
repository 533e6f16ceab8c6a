// The rule by which iterations of a training loop end, as a Python class.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

#include "front_ends/shared/iteration_rule.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stepwatch::python {

namespace {

using front_end::IterationRule;

// Keeps who is left out until somebody asks.
struct Rule {
  IterationRule rule{};
  std::vector<IterationRule::Member> left_out{};

  bool Updated(IterationRule::Member member) {
    IterationRule::Decision decision = rule.Updated(member);
    if (!decision.left_out.empty()) left_out = std::move(decision.left_out);
    return decision.ends_iteration;
  }
};

}  // namespace

void BindIterations(nb::module_& m) {
  nb::class_<Rule>(m, "IterationRule",
                   "When an iteration of a training loop is over, by the updates of its optimizers.")
      .def(nb::init<>())
      .def(
          "add", [](Rule& self) { return self.rule.Add(); }, "Add an optimizer; return its number.")
      .def(
          "remove", [](Rule& self, IterationRule::Member member) { self.rule.Remove(member); }, "member"_a)
      .def(
          "set_takes_turns",
          [](Rule& self, IterationRule::Member member, bool takes_turns) {
            self.rule.SetTakesTurns(member, takes_turns);
          },
          "member"_a, "takes_turns"_a, "Say whether others update all that it updates.")
      .def(
          "name_clock", [](Rule& self, IterationRule::Member member) { self.rule.NameClock(member); }, "member"_a,
          "Let its updates alone end iterations.")
      .def(
          "leave_to_program", [](Rule& self) { self.rule.LeaveToProgram(); }, "Let no update end an iteration.")
      .def("updated", &Rule::Updated, "member"_a, "Return whether this update ends an iteration.")
      .def(
          "take_left_out", [](Rule& self) { return std::exchange(self.left_out, {}); },
          "Return who is left out since the last call.")
      .def(
          "end_by_hand", [](Rule& self) { return self.rule.EndByHand(); },
          "Return whether an iteration ends now: False if an update has ended it.");
}

}  // namespace stepwatch::python
