// The extension stepwatch._core: Session, the callables for torch's hooks, and the offline tools.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>

#include "front_ends/python/native/log_lines.h"
#include "front_ends/python/native/raise_status.h"
#include "stepwatch/monitor.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/statistics.h"
#include "stepwatch/version.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stepwatch::python {

void BindHooks(nb::module_& m);
void BindIterations(nb::module_& m);
void BindLate(nb::module_& m);
void BindOffline(nb::module_& m);
void BindSession(nb::module_& m);
void BindStore(nb::module_& m);

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
