// The pages into which torch's operators write their numbers, as a Python class.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "front_ends/python/native/late_engine.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stepwatch::python {

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

}  // namespace stepwatch::python
