// The extension stepwatch._core: its functions, the rule that ends iterations, and the pages of late numbers. Session,
// the callables for torch's hooks, the store and the offline tools have files of their own.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "front_ends/python/native/late_engine.h"
#include "front_ends/python/native/log_lines.h"
#include "front_ends/python/native/raise_status.h"
#include "front_ends/shared/iteration_rule.h"
#include "stepwatch/monitor.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/statistics.h"
#include "stepwatch/version.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stepwatch::python {

void BindHooks(nb::module_& m);
void BindLogs(nb::module_& m);
void BindOffline(nb::module_& m);
void BindSession(nb::module_& m);
void BindStore(nb::module_& m);

namespace {

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

void BindLate(nb::module_& m) {
  m.attr("UNWRITTEN") = nb::make_tuple(kUnwritten, kUnwrittenSingle);
  nb::class_<LatePages>(m, "LatePages",
                        "The pages in which torch's operators leave the numbers of the tensors that they measure.")
      .def(
          "publish",
          [](LatePages& pages, nb::handle page, size_t count, nb::object sources,
             const std::vector<std::tuple<size_t, uint8_t, std::vector<uint64_t>>>& sections) {
            std::vector<LatePages::Section> taken;
            for (const auto& [offset, columns, tickets] : sections) taken.push_back({offset, columns, tickets});
            pages.Publish(page.ptr(), count, sources.ptr(), taken);
          },
          "page"_a, "count"_a, "sources"_a.none(), "sections"_a,
          "Read the numbers of these tickets from a page, a tensor in CPU memory whose first `count` cells are being "
          "copied from `sources`. A section is (offset, columns, tickets): tensors with the same cells, cell by cell.")
      .def(
          "take_finished",
          [](LatePages& pages) {
            nb::list finished;
            for (const Ref& page : pages.TakeFinished()) finished.append(page);
            return finished;
          },
          "Return the pages that are no longer written or read.")
      .def("note", &LatePages::Note, "text"_a, "Report a note to the user, which needs no action.");
}

}  // namespace
}  // namespace stepwatch::python

NB_MODULE(_core, m) {
  using namespace stepwatch::python;
  nb::set_leak_warnings(false);  // hooks live as long as the graphs of tensors, which may outlive the interpreter
  m.attr("__version__") = stepwatch::kVersion;
  nb::dict formats;
  for (const stepwatch::OutputFormatTraits& traits : stepwatch::kOutputFormats)
    formats[traits.name] = traits.where_rows_go;
  m.attr("OUTPUT_FORMATS") = formats;
  nb::list ops;
  for (int i = 0; i < stepwatch::kOpCount; ++i) ops.append(stepwatch::kStatTraits[i].name);
  m.attr("OPS") = nb::tuple(ops);
  BindHooks(m);
  BindIterations(m);
  BindLate(m);
  BindSession(m);
  BindLogs(m);
  BindOffline(m);
  BindStore(m);
  m.def(
      "check_config", [](const nb::bytes& path) { Check(stepwatch::CheckConfig(PathBytes(path))); }, "path"_a);
  m.def(
      "check_config_text", [](const std::string& text) { Check(stepwatch::CheckConfigText(text)); }, "text"_a);
  m.def(
      "print_line",
      [](int level, int rank, const std::string& text) {
        const auto of_line = static_cast<LogLevel>(std::clamp(level, 0, 3));
        if (of_line >= LogLevelHere()) PrintLine(of_line, rank, text);
      },
      "level"_a, "rank"_a, "text"_a);
}
