// The extension stepwatch._core: Session, the callables that torch's hooks are given, and the offline tools.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <tuple>

#include "python/lent_threads.h"
#include "python/log_lines.h"
#include "python/session.h"
#include "stepwatch/version.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stepwatch::python {

void BindOffline(nb::module_& m);
void BindStore(nb::module_& m);

namespace {

// --- the callables of hooks ---
// A copy of a hooked model (deepcopy, pickle) must not write rows under the names of the original: its hooks are inert.

struct InertHook {
  void Call(const nb::args&, const nb::kwargs&) const {}
};

struct BeforeForward {
  std::shared_ptr<ModuleProbe> probe;
  nb::object Call(nb::handle module, nb::handle args, nb::handle kwargs) const {
    Ref replaced = probe->Before(module.ptr(), args.ptr(), kwargs.ptr());
    return replaced ? nb::steal(replaced.release()) : nb::none();
  }
};

struct AfterForward {
  std::shared_ptr<ModuleProbe> probe;
  void Call(nb::handle, nb::handle, nb::handle, nb::handle output) const { probe->After(output.ptr()); }
};

struct UnreducedHook {
  std::shared_ptr<ParameterProbe> probe;
  void Call(nb::handle) const { probe->OnAccumulated(); }
};

template <class Hook>
auto BindHook(nb::module_& m, const char* name) {
  return nb::class_<Hook>(m, name).def("__call__", &Hook::Call).def("__reduce__", [](const Hook&) {
    return nb::make_tuple(nb::type<InertHook>(), nb::make_tuple());
  });
}

void BindHooks(nb::module_& m) {
  nb::class_<InertHook>(m, "InertHook", "The hook of a copied model: does nothing.")
      .def(nb::init<>())
      .def("__call__", &InertHook::Call)
      .def("__reduce__", [](const InertHook&) { return nb::make_tuple(nb::type<InertHook>(), nb::make_tuple()); });
  BindHook<BeforeForward>(m, "BeforeForward");
  BindHook<AfterForward>(m, "AfterForward");
  BindHook<UnreducedHook>(m, "UnreducedHook");
  nb::class_<GradientHook>(m, "GradientHook")
      .def("__call__", [](const GradientHook& hook, nb::handle gradient) { hook.Call(gradient.ptr()); })
      .def("__reduce__", [](const GradientHook&) { return nb::make_tuple(nb::type<InertHook>(), nb::make_tuple()); });
}

// --- values ---

// What a refused config raises is part of the interface: TypeError, but ValueError for these.
[[noreturn]] void Raise(const Status& status) {
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
  throw nb::python_error();
}

void Check(const Status& status) {
  if (!status.ok()) Raise(status);
}

std::chrono::milliseconds Milliseconds(double seconds) {
  constexpr double kDay = 86400;
  if (!(seconds >= 0)) throw nb::value_error("a timeout is a number of seconds, 0 or more");
  return std::chrono::milliseconds(static_cast<int64_t>(std::min(seconds, kDay) * 1000));
}

const char* NameOf(RefreshOutcome outcome) {
  static constexpr const char* kNames[] = {"unchanged", "armed", "stopping", "refused", "missing", "timed_out"};
  return kNames[static_cast<int>(outcome)];
}

SiteKind KindFromName(const std::string& name) {
  for (int i = 0; i < kSiteKindCount; ++i)
    if (name == SiteKindName(static_cast<SiteKind>(i))) return static_cast<SiteKind>(i);
  throw nb::value_error(("unknown kind \"" + name + "\"").c_str());
}

nb::dict ValuesOf(const Record& record) {
  nb::dict values;
  for (size_t i = 0; i < record.value_count; ++i) {
    const StatValue& value = record.values[i];
    if (value.is_integer) {
      values[StatName(value.stat)] = value.i64;
    } else {
      values[StatName(value.stat)] = value.f64;
    }
  }
  if (record.missing()) return values;
  nb::list shape;
  for (int i = 0; i < record.ndim; ++i) shape.append(record.dims[static_cast<size_t>(i)]);
  values["shape"] = shape;
  values["dtype"] = DTypeName(record.dtype);
  return values;
}

// (chunk, name with element and call, micro-step, {statistic: value}).
nb::list RowsOf(const std::vector<LatestValue>& latest) {
  nb::list rows;
  for (const LatestValue& value : latest) {
    std::string name = value.name;
    if (value.record.element != kNoElement) name += "_" + std::to_string(value.record.element);
    if (value.record.call != 0) name += "@" + std::to_string(value.record.call);
    rows.append(nb::make_tuple(value.chunk, name, value.record.micro_step, ValuesOf(value.record)));
  }
  return rows;
}

using ModuleTuple = std::tuple<int, std::string, std::string, bool>;
using ParameterTuple = std::tuple<int, std::string, nb::object, bool, bool, int>;

void Attach(Session& session, const std::vector<ModuleTuple>& modules, const std::vector<ParameterTuple>& parameters,
            int optimizers, nb::callable on_swap) {
  std::vector<ModuleEntry> entries;
  for (const auto& [chunk, name, type, watchable] : modules) entries.push_back({chunk, name, type, watchable});
  std::vector<FoundParameter> found;
  for (const auto& [chunk, name, tensor, requires_grad, counts_reduced, optimizer] : parameters)
    found.push_back({chunk, name, tensor.ptr(), requires_grad, counts_reduced, optimizer});
  Check(session.Attach(std::move(entries), found, optimizers, [on_swap = std::move(on_swap)] { on_swap(); }));
}

std::unique_ptr<Session> MakeSession(nb::module_ torch, const std::string& config_path, std::optional<bool> dynamic,
                                     const std::string& output_dir, int rank, int world_size, const std::string& run_id,
                                     int grad_acc_steps, int64_t start_iteration, bool main_grad, bool keep_latest,
                                     std::shared_ptr<StoreQueue> store, const std::string& store_prefix) {
  Options options;
  options.config_path = config_path;
  options.dynamic = dynamic;
  options.output_dir = output_dir;
  options.rank = rank;
  options.world_size = world_size;
  options.run_id = run_id;
  options.grad_acc_steps = grad_acc_steps;
  options.start_iteration = start_iteration;
  options.keep_latest = keep_latest;
  options.store = std::move(store);
  options.store_prefix = store_prefix;
  options.parallel_for = TrainersThreads();
  auto printer = MakeEventPrinter(LogLevelFromEnvironment(), world_size > 1 ? rank : -1);
  auto session = std::make_unique<Session>(torch.ptr(), std::move(options), main_grad, std::move(printer));
  Check(session->Start());
  return session;
}

// (numel, shape, strides, dtype, address), or the sentence that says why it cannot be measured.
nb::object ViewOf(nb::module_ torch, nb::handle tensor, bool by_attributes) {
  TensorReader reader(torch.ptr());
  const SeenTensor seen = by_attributes ? reader.ReadAttributes(tensor.ptr()) : reader.Read(tensor.ptr());
  if (seen.problem != nullptr) return nb::str(seen.problem);
  nb::list shape, strides;
  for (int i = 0; i < seen.view.ndim; ++i) {
    shape.append(seen.view.sizes[static_cast<size_t>(i)]);
    strides.append(seen.view.strides[static_cast<size_t>(i)]);
  }
  return nb::make_tuple(seen.view.numel, shape, strides, DTypeName(seen.view.dtype),
                        reinterpret_cast<uintptr_t>(seen.view.data));
}

void BindSession(nb::module_& m) {
  nb::class_<Session>(m, "Session", "The native monitor of this process.")
      .def("attach", &Attach, "modules"_a, "parameters"_a, "optimizers"_a, "on_swap"_a)
      .def_prop_ro("collecting", &Session::collecting)
      .def_prop_ro("wanted_modules", [](const Session& s) { return s.wanted().modules; })
      .def_prop_ro("wanted_gradients", [](const Session& s) { return s.wanted().gradients; })
      .def("before_forward", [](const Session& s, size_t i) { return BeforeForward{s.module(i)}; })
      .def("after_forward", [](const Session& s, size_t i) { return AfterForward{s.module(i)}; })
      .def("unreduced_hook", [](const Session& s, size_t i) { return UnreducedHook{s.parameter(i)}; })
      .def("before_update", [](Session& s, int i, nb::handle state) { return s.BeforeUpdate(i, state.ptr()); })
      .def("after_update", &Session::AfterUpdate)
      .def("end_step", &Session::EndStep)
      .def("begin_micro_batch", &Session::BeginMicroBatch)
      .def("publish_structure", &Session::PublishStructure)
      .def("warn", &Session::Warn)
      .def("caught", &Session::Caught)
      .def("refresh", [](Session& s, double timeout) { return NameOf(s.Refresh(Milliseconds(timeout))); })
      .def("latest", [](Session& s, const std::string& kind,
                        double timeout) { return RowsOf(s.Latest(KindFromName(kind), Milliseconds(timeout))); })
      .def("status",
           [](const Session& s) {
             const MonitorStatus status = s.GetStatus();
             nb::dict out;
             out["state"] = RunStateName(status.state);
             out["plan_id"] = status.plan_id;
             out["step"] = status.step;
             out["collected"] = status.collected;
             out["collecting_step"] = status.collecting_step;
             out["output_dir"] = status.output_dir;
             return out;
           })
      .def("close", [](Session& s, double timeout) { return s.Close(Milliseconds(timeout)).ok(); });
}

}  // namespace

Ref MakeCallable(GradientHook hook) {
  return Ref(nb::cast(std::move(hook)).release().ptr());
}

}  // namespace stepwatch::python

NB_MODULE(_core, m) {
  using namespace stepwatch::python;
  nb::set_leak_warnings(false);  // hooks live as long as the graphs of tensors, which may outlive the interpreter
  m.attr("__version__") = stepwatch::kVersion;
  BindHooks(m);
  BindSession(m);
  BindOffline(m);
  BindStore(m);
  m.def("make_session", &MakeSession, "torch"_a, "config_path"_a, "dynamic"_a = nb::none(), "output_dir"_a = "",
        "rank"_a = 0, "world_size"_a = 1, "run_id"_a = "", "grad_acc_steps"_a = 1, "start_iteration"_a = 0,
        "main_grad"_a = true, "keep_latest"_a = false, "store"_a = nb::none(), "store_prefix"_a = "stepwatch");
  m.def("view_of", &ViewOf, "torch"_a, "tensor"_a, "by_attributes"_a = false);
  m.def(
      "check_config", [](const std::string& path) { Check(stepwatch::CheckConfig(path)); }, "path"_a);
  m.def(
      "print_line",
      [](int level, int rank, const std::string& text) {
        const auto of_line = static_cast<LogLevel>(std::clamp(level, 0, 3));
        if (of_line >= LogLevelFromEnvironment()) PrintLine(of_line, rank, text);
      },
      "level"_a, "rank"_a, "text"_a);
}
