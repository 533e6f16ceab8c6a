// The native monitor as a Python class, and its results as Python values.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <tuple>

#include "front_ends/python/native/hook_callables.h"
#include "front_ends/python/native/log_lines.h"
#include "front_ends/python/native/model_walk.h"
#include "front_ends/python/native/raise_status.h"
#include "front_ends/python/native/session.h"
#include "front_ends/python/native/torch_parallel_for.h"
#include "stepwatch/peak_flops.h"
#include "stepwatch/stores.h"
#include "stepwatch/tag.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stepwatch::python {
namespace {

std::chrono::milliseconds Milliseconds(double seconds) {
  constexpr double kDay = 86400;
  if (!(seconds >= 0)) throw nb::value_error("a timeout must be a number of seconds, 0 or more");
  return std::chrono::milliseconds(static_cast<int64_t>(std::min(seconds, kDay) * 1000));
}

const char* RefreshOutcomeName(RefreshOutcome outcome) {
  static constexpr const char* kNames[] = {"unchanged", "armed",     "stopping", "refused",
                                           "missing",   "timed_out", "failed"};
  return kNames[static_cast<int>(outcome)];
}

SiteKind KindFromName(const std::string& name) {
  for (int i = 0; i < kSiteKindCount; ++i)
    if (name == SiteKindName(static_cast<SiteKind>(i))) return static_cast<SiteKind>(i);
  throw nb::value_error(("unknown kind \"" + name + "\"").c_str());
}

Phase PhaseFromName(const std::string& name) {
  for (int i = 0; i < kPhaseCount; ++i)
    if (name == PhaseName(static_cast<Phase>(i))) return static_cast<Phase>(i);
  throw nb::value_error(
      ("unknown phase \"" + name + "\"; the phases are init, train, eval, checkpoint, paused").c_str());
}

nb::dict ValuesOf(SiteKind kind, const Record& record) {
  nb::dict values;
  for (size_t i = 0; i < record.value_count; ++i) {
    const StatValue& value = record.values[i];
    if (value.is_integer) {
      values[StatName(value.stat)] = value.i64;
    } else {
      values[StatName(value.stat)] = value.f64;
    }
  }
  if (record.missing() || IsFeature(kind)) return values;
  nb::list shape;
  for (int i = 0; i < record.ndim; ++i) shape.append(record.dims[static_cast<size_t>(i)]);
  values["shape"] = record.mixed_shape() ? nb::object(nb::float_(std::nan(""))) : nb::object(shape);
  values["dtype"] = record.mixed_dtype() ? nb::object(nb::float_(std::nan(""))) : nb::str(DTypeName(record.dtype));
  return values;
}

// (tag, chunk, name with element and call, micro-step, {statistic: value}).
nb::list RowsOf(SiteKind kind, const std::vector<LatestValue>& latest) {
  nb::list rows;
  for (const LatestValue& value : latest) {
    PlannedSite site;
    site.kind = kind;
    site.name = value.name;
    rows.append(nb::make_tuple(value.tag, value.chunk, RecordName(site, value.record), value.record.micro_step,
                               ValuesOf(kind, value.record)));
  }
  return rows;
}

nb::dict RequestsOf(const Session& session) {
  const FrontEndRequests& requests = session.requests();
  nb::dict out;
  out["structure"] = requests.structure;
  out["exit_after_structure"] = requests.exit_after_structure;
  out["stacks"] = requests.stacks;
  out["module_names"] = nb::cast(requests.module_names);
  out["communication"] = requests.communication;
  out["communication_log_only"] = requests.communication_log_only;
  out["communication_codeline"] = nb::cast(requests.communication_codeline);
  out["batch_first_attention"] = requests.batch_first_attention;
  return out;
}

PyObject* OrNull(nb::handle source) {
  return source.is_none() ? nullptr : source.ptr();
}

// [(kind, seen, empty, silent)], the last three by the parameters' numbers.
nb::list YieldOf(const Session& session) {
  nb::list out;
  for (const KindYield& kind : session.Yield())
    out.append(nb::make_tuple(SiteKindName(kind.kind), kind.seen, kind.empty, kind.silent));
  return out;
}

// [(kind, module)].
nb::list FeaturesOf(Session& session) {
  nb::list out;
  for (const auto& [kind, module] : session.extras().features()) out.append(nb::make_tuple(SiteKindName(kind), module));
  return out;
}

// (micro-step, call), or None if the call is to be skipped.
nb::object NextFeatureCall(Session& session, const std::string& kind, size_t module) {
  const auto at = session.extras().NextCall({KindFromName(kind), module});
  if (!at) return nb::none();
  return nb::make_tuple(at->micro_step, at->call);
}

using UpdateTuple = std::tuple<size_t, AuxiliaryCapture::Counts, AuxiliaryCapture::Counts>;

void ObserveUpdates(Session& session, const std::vector<UpdateTuple>& counted) {
  std::vector<AuxiliaryCapture::CountedUpdate> updates;
  for (const auto& [parameter, update, ratio] : counted) updates.push_back({parameter, update, ratio});
  session.extras().ObserveUpdates(updates);
}

// With the name in the user's code, or None.
using ModuleTuple = std::tuple<int, std::string, std::string, bool, std::optional<std::string>>;
using ParameterTuple = std::tuple<int, std::string, nb::object, bool, bool, int, std::optional<std::string>>;

void Attach(Session& session, const std::vector<ModuleTuple>& modules, const std::vector<ParameterTuple>& parameters,
            int optimizers, std::vector<std::string> operators, nb::callable on_swap) {
  std::vector<ModuleEntry> entries;
  for (const auto& [chunk, name, type, watchable, as_written] : modules)
    entries.push_back({chunk, name, type, watchable, as_written});
  std::vector<FoundParameter> found;
  for (const auto& [chunk, name, tensor, requires_grad, counts_reduced, optimizer, as_written] : parameters)
    found.push_back({chunk, name, tensor.ptr(), requires_grad, counts_reduced, optimizer, as_written});
  Check(session.Attach(std::move(entries), found, optimizers, std::move(operators),
                       [on_swap = std::move(on_swap)] { on_swap(); }));
}

std::unique_ptr<Session> MakeSession(nb::module_ torch, const nb::bytes& config_path, std::optional<bool> dynamic,
                                     const nb::bytes& output_dir, int rank, int world_size, const std::string& run_id,
                                     int grad_acc_steps, int64_t start_iteration, bool main_grad, bool keep_latest,
                                     int pp_stage, std::vector<int> group_mates, std::shared_ptr<StoreQueue> store,
                                     const std::string& store_prefix) {
  Options options;
  options.config_path = PathBytes(config_path);
  options.dynamic = dynamic;
  options.output_dir = PathBytes(output_dir);
  options.rank = rank;
  options.world_size = world_size;
  options.run_id = run_id;
  options.grad_acc_steps = grad_acc_steps;
  options.start_iteration = start_iteration;
  options.keep_latest = keep_latest;
  options.pp_stage = pp_stage;
  options.group_mates = std::move(group_mates);
  options.store = std::move(store);
  options.store_prefix = store_prefix;
  options.parallel_for = TrainersThreads();
  auto printer = MakeEventPrinter(LogLevelHere(), world_size > 1 ? rank : -1);
  auto session = std::make_unique<Session>(torch.ptr(), std::move(options), main_grad, std::move(printer));
  Check(session->Start());
  return session;
}

// (numel, shape, strides, dtype, address), or the reason why it cannot be measured.
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

// For the garbage collector: a monitor that is never closed is freed with its model and optimizer.
int Traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<Session>(self)->kept());
  return 0;
}

int Clear(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<Session>(self)->DetachParameters();
  return 0;
}

PyType_Slot session_slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(&Traverse)}, {Py_tp_clear, reinterpret_cast<void*>(&Clear)}, {0, nullptr}};

// Accepts any text, even lone surrogates, which no file can hold.
std::string Printable(const nb::str& text) {
  const Ref bytes(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  if (!bytes) throw nb::python_error();
  return {PyBytes_AsString(bytes.ptr()), static_cast<size_t>(PyBytes_Size(bytes.ptr()))};
}

}  // namespace

void BindSession(nb::module_& m) {
  nb::class_<Session>(m, "Session", nb::type_slots(session_slots), "The native monitor of this process.")
      .def("attach", &Attach, "modules"_a, "parameters"_a, "optimizers"_a, "operators"_a, "on_swap"_a)
      .def(
          "is_model_as",
          [](const Session& s, const nb::list& modules, const nb::list& children, const nb::list& optimizers,
             const nb::list& grouped, const nb::list& parameters, const nb::list& places, const nb::list& frozen) {
            return ModelIsAs(s.context().names, modules, children, optimizers, grouped, parameters, places, frozen);
          },
          "modules"_a, "children"_a, "optimizers"_a, "grouped"_a, "parameters"_a, "places"_a, "frozen"_a)
      .def_prop_ro("collecting", &Session::collecting)
      .def_prop_ro("wanted_modules", [](const Session& s) { return s.wanted().modules; })
      .def_prop_ro("wanted_gradients", [](const Session& s) { return s.wanted().gradients; })
      .def(
          "wants_gradients_of",
          [](const Session& s, size_t i) {
            return s.module(i)->sites().any_grad() || s.context().structure != nullptr;
          },
          "module"_a, "Return whether the gradients of this module's inputs or outputs are wanted.")
      .def("before_forward", [](const Session& s, size_t i) { return BeforeForward{s.module(i)}; })
      .def("after_forward", [](const Session& s, size_t i) { return AfterForward{s.module(i)}; })
      .def("reads_incoming", [](const Session& s, size_t i) { return s.parameter(i)->ReadsIncoming(); })
      .def("incoming_hook", [](const Session& s, size_t i) { return IncomingHook{s.parameter(i)}; })
      .def("accumulated", [](const Session& s, size_t i) { s.parameter(i)->OnAccumulated(); })
      .def("take_off_late_hook", [](const Session& s, size_t i) { s.parameter(i)->TakeOffLateHook(); })
      .def("unreduced_hook", [](const Session& s, size_t i) { return UnreducedHook{s.parameter(i)}; })
      .def(
          "before_reduction",
          [](const Session& s, size_t i, nb::handle gradient, bool is_last) {
            s.parameter(i)->OnReduction(gradient.ptr(), is_last);
          },
          "parameter"_a, "gradient"_a, "is_last"_a = false)
      .def(
          "before_update",
          [](Session& s, int i, nb::handle state, nb::handle reduced, nb::handle weights, bool is_reduced,
             bool continues) {
            return s.group(i).BeforeUpdate({state.ptr(), OrNull(reduced), OrNull(weights), is_reduced, continues});
          },
          "optimizer"_a, "state"_a, "reduced"_a = nb::none(), "weights"_a = nb::none(), "is_reduced"_a = true,
          "continues"_a = false)
      .def(
          "abandon_update", [](const Session& s, int i) { s.group(i).AbandonUpdate(); }, "optimizer"_a,
          "Mark the update in progress as failed: the next update repeats it.")
      .def(
          "after_update",
          [](Session& s, int i, nb::handle weights) {
            ParameterSources sources;
            sources.weights = OrNull(weights);
            s.group(i).AfterUpdate(sources);
          },
          "optimizer"_a, "weights"_a = nb::none())
      .def("yield_of_kinds", &YieldOf)
      .def_prop_ro("called_and_uncalled", &Session::CalledAndUncalled)
      .def(
          "pause", [](const Session& s, bool paused) { s.context().is_paused = paused; }, "paused"_a)
      .def(
          "repeat_closure", [](const Session& s, bool repeats) { s.context().repeats_closure = repeats; }, "repeats"_a)
      .def("end_step", &Session::EndStep)
      .def("pass_step", &Session::PassStep)
      .def("begin_micro_batch", [](const Session& s) { s.context().marks.Add(s.context().step); })
      .def("publish_structure", &Session::PublishStructure)
      .def_prop_ro("requests", &RequestsOf)
      .def_prop_ro("step", [](const Session& s) { return s.monitor().step(); })
      .def_prop_ro("wanted_features", &FeaturesOf)
      .def_prop_ro("watches_before_operators", [](Session& s) { return s.extras().watches_before_operators(); })
      .def("next_feature_call", &NextFeatureCall)
      .def("observe_feature",
           [](Session& s, const std::string& kind, size_t module, int32_t micro_step, uint16_t call,
              const std::vector<double>& values) {
             s.extras().ObserveFeature({KindFromName(kind), module}, {micro_step, call}, values);
           })
      .def("observe_communication",
           [](Session& s, size_t which, bool is_after, uint16_t position, nb::handle tensor) {
             s.extras().ObserveOperator(which, is_after, position, tensor.ptr());
           })
      .def_prop_ro("wanted_updates", [](Session& s) { return s.extras().updates(); })
      .def("observe_updates", &ObserveUpdates)
      .def("publish_stacks",
           [](const Session& s, std::vector<std::pair<std::string, std::string>> rows) {
             s.monitor().PublishStacks(std::move(rows));
           })
      .def("amend",
           [](Session& s, std::optional<std::vector<std::string>> ops, std::optional<bool> xy_distribution) {
             Check(s.Amend({std::move(ops), xy_distribution}));
           })
      .def("warn", [](const Session& s, const nb::str& text) { s.context().reporter.Warn(Printable(text)); })
      .def("caught",
           [](const Session& s, const nb::str& where, const nb::str& what) {
             s.context().reporter.Caught(Printable(where).c_str(), Printable(what).c_str());
           })
      .def(
          "report",
          [](const Session& s, const std::vector<std::pair<std::string, double>>& numbers, int64_t step) {
            std::vector<ReportedNumber> reported;
            for (const auto& [name, value] : numbers) reported.push_back({name, value});
            s.monitor().Report(reported.data(), reported.size(), step);
          },
          "numbers"_a, "step"_a = kStepInProgress)
      .def(
          "report_measured",
          [](const Session& s, const std::vector<std::pair<std::string, double>>& numbers, int64_t step) {
            std::vector<ReportedNumber> reported;
            for (const auto& [name, value] : numbers) reported.push_back({name, value});
            s.monitor().ReportMeasured(reported.data(), reported.size(), step);
          },
          "numbers"_a, "step"_a, "As `report`, for parts of a step; a number of the program replaces them.")
      // (phase, expiry) before, for restore_phase.
      .def(
          "set_phase",
          [](const Session& s, const std::string& name, double expires) {
            const PhaseMark before = s.monitor().SetPhase(PhaseFromName(name), Milliseconds(expires));
            return nb::make_tuple(static_cast<int>(before.phase), before.expires_ms);
          },
          "phase"_a, "expires"_a = 0.0)
      .def("restore_phase",
           [](const Session& s, const std::pair<int, int64_t>& before) {
             if (before.first < 0 || before.first >= kPhaseCount) throw nb::value_error("unknown phase");
             s.monitor().RestorePhase({static_cast<Phase>(before.first), before.second});
           })
      // The number of the part before, for another call.
      .def(
          "enter_part",
          [](const Session& s, uint8_t part) {
            if (part >= kStepPartCount) throw nb::value_error("unknown part");
            return static_cast<uint8_t>(s.monitor().EnterPart(static_cast<StepPart>(part)));
          },
          "part"_a)
      .def(
          "report_checkpoint", [](const Session& s, int64_t step) { s.monitor().ReportCheckpoint(step); }, "step"_a)
      .def(
          "report_signal", [](const Session& s, int number) { s.monitor().ReportSignal(number); }, "number"_a)
      // The next two wait for a lock that the control socket may hold briefly.
      .def(
          "report_exception",
          [](const Session& s, const nb::str& type, const nb::str& message, const nb::str& stack,
             const std::string& fingerprint, bool ends_run) {
            const ExceptionReport report{Printable(type), Printable(message), Printable(stack), fingerprint, ends_run};
            const nb::gil_scoped_release released;
            s.monitor().ReportException(report);
          },
          "type"_a, "message"_a, "stack"_a, "fingerprint"_a, "ends_run"_a)
      .def("report_end",
           [](const Session& s, bool by_signal) {
             const nb::gil_scoped_release released;
             s.monitor().ReportEnd(by_signal ? RunEnd::kSignal : RunEnd::kError);
           })
      .def("refresh", [](Session& s, double timeout) { return RefreshOutcomeName(s.Refresh(Milliseconds(timeout))); })
      .def("flush", [](Session& s, double timeout) { return s.Flush(Milliseconds(timeout)); })
      .def("latest",
           [](Session& s, const std::string& name, double timeout) {
             const SiteKind kind = KindFromName(name);
             return RowsOf(kind, s.Latest(kind, Milliseconds(timeout)));
           })
      .def("status",
           [](const Session& s) {
             const MonitorStatus status = s.monitor().GetStatus();
             nb::dict out;
             out["state"] = RunStateName(status.state);
             out["plan_id"] = status.plan_id;
             out["step"] = status.step;
             out["collected"] = status.collected;
             out["collecting_step"] = status.collecting_step;
             out["output_dir"] = PathText(status.output_dir);
             out["fault"] = status.fault;
             out["ops"] = nb::cast(s.ops());
             return out;
           })
      .def("close", [](Session& s, double timeout) { return s.Close(Milliseconds(timeout)).ok(); });
  m.def("make_session", &MakeSession, "torch"_a, "config_path"_a, "dynamic"_a = nb::none(), "output_dir"_a = "",
        "rank"_a = 0, "world_size"_a = 1, "run_id"_a = "", "grad_acc_steps"_a = 1, "start_iteration"_a = 0,
        "main_grad"_a = true, "keep_latest"_a = false, "pp_stage"_a = 0, "group_mates"_a = std::vector<int>(),
        "store"_a = nb::none(), "store_prefix"_a = "stepwatch");
  // (bfloat16, float16), each a number or None.
  m.def(
      "peak_flops",
      [](const std::string& device) {
        return std::make_tuple(PeakFlops(device, DType::kBFloat16), PeakFlops(device, DType::kFloat16));
      },
      "device"_a);
  m.def("view_of", &ViewOf, "torch"_a, "tensor"_a, "by_attributes"_a = false);
}

}  // namespace stepwatch::python
