#include "controller/cli/why_layer.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "controller/cli/read_json.h"
#include "src/base/text.h"
#include "src/http/client.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

constexpr const char* kNoHooks = "no plan hooks modules; with `xy_distribution` the pulse names the current module";
constexpr const char* kNoValues =
    "the job has no values yet: collect actv and grad_unreduced with nans, and retry after a collected step";
// Kinds of sites in the order in which a step comes to them, and whether the last site comes first.
constexpr std::pair<const char*, bool> kKinds[] = {{"actv", false},          {"actv_grad", true},
                                                   {"grad_unreduced", true}, {"grad_reduced", true},
                                                   {"param_updated", false}, {"param_origin", false}};

bool IsNonfinite(const Json& values) {
  for (const auto& [name, value] : values.items()) {
    if (value.is_string()) return true;  // "NaN", "Infinity"
    if ((name == "nans" || name == "infs") && value.is_number() && value.get<double>() > 0) return true;
  }
  return false;
}

// The job of the rank that is named first, else any.
const control_socket::FoundJob& JobOf(const std::vector<control_socket::FoundJob>& jobs, const Json& incident) {
  const Json& ranks = List(incident, "ranks");
  for (const control_socket::FoundJob& job : jobs) {
    const Result<Json> status = json::Parse(job.status);
    if (!ranks.empty() && status.ok() && status.value().is_object() && ranks[0].is_number_integer() &&
        Whole(status.value(), "rank") == ranks[0].get<int64_t>())
      return job;
  }
  return jobs.front();
}

Json LatestOfJob(const control_socket::FoundJob& job, const char* kind) {
  const Result<http::Reply> reply = control_socket::ClientOf(job).Get(std::string("/v1/latest/") + kind);
  Result<Json> answer = json::Parse(reply.ok() && reply.value().status == 200 ? reply.value().body : "{}");
  return answer.ok() ? std::move(answer).value() : Json::object();
}

LayerFound InLatest(const std::vector<control_socket::FoundJob>& jobs, const Json& incident) {
  if (jobs.empty()) return {"", "no job of the run responds on this machine, and stepwatchd keeps no values of layers"};
  const control_socket::FoundJob& job = JobOf(jobs, incident);
  const bool of_numbers = Text(incident, "incident").ends_with("nonfinite");
  bool has_values = false;
  for (const auto& [kind, backwards] : kKinds) {
    const Json latest = LatestOfJob(job, kind);
    has_values = has_values || !List(latest, "values").empty();
    const std::optional<std::string> found = of_numbers ? FirstNonfinite(latest, backwards)
                                             : std::string_view(kind) == "grad_reduced" ? LargestNorm(latest)
                                                                                        : std::nullopt;
    if (found) return {*found, ""};
  }
  if (!has_values) return {"", kNoValues};
  return {"",
          of_numbers ? "all values that the job measures now are finite" : "the job measures no gradient norms now"};
}

// Where the first of the ranks was last.
std::string ModuleOf(const Json& run, const Json& incident) {
  if (const std::string module = Text(Part(incident, "evidence"), "module"); !module.empty()) return module;
  const Json& culprits = List(incident, "ranks");
  for (const Json& rank : List(run, "ranks"))
    if (!culprits.empty() && culprits[0].is_number_integer() && Whole(rank, "rank") == culprits[0].get<int64_t>())
      return Text(rank, "module");
  return "";
}

}  // namespace

std::optional<std::string> FirstNonfinite(const Json& latest, bool backwards) {
  const Json& values = List(latest, "values");
  const Json* first = nullptr;
  size_t count = 0;
  for (const Json& each : values) {
    if (!IsNonfinite(Part(each, "values"))) continue;
    ++count;
    if (first == nullptr || backwards) first = &each;
  }
  if (first == nullptr) return std::nullopt;
  return fmt::format("{} ({}, step {}): the first of {} sites with NaN or infinities among {} measured",
                     Text(*first, "name"), Text(latest, "kind"), Whole(*first, "step"), count, values.size());
}

std::optional<std::string> LargestNorm(const Json& latest) {
  const Json* largest = nullptr;
  for (const Json& each : List(latest, "values")) {
    const double norm = Number(Part(each, "values"), "norm", -1);
    if (norm >= 0 && (largest == nullptr || norm > Number(Part(*largest, "values"), "norm"))) largest = &each;
  }
  if (largest == nullptr) return std::nullopt;
  return fmt::format("{} has the largest norm of {} in step {}: {:.4g}", Text(*largest, "name"), Text(latest, "kind"),
                     Whole(*largest, "step"), Number(Part(*largest, "values"), "norm"));
}

std::string InnermostFrame(const std::string& stack) {
  const size_t at = stack.rfind("File \"");
  if (at == std::string::npos) return "";
  return base::Printable(stack.substr(at, stack.find('\n', at) - at), 200);
}

LayerFound FindLayer(const std::vector<control_socket::FoundJob>& jobs, const Json& run, const Json& incident) {
  const std::string kind = Text(incident, "incident");
  const std::string module = ModuleOf(run, incident);
  if (kind == "stuck" || kind == "process_lost" || kind == "straggler")
    if (!module.empty()) return {"last module entered: " + module, ""};
  if (kind == "exception" || kind == "out_of_memory") {
    const auto& evidence = Part(incident, "evidence");
    const auto stack = evidence.find("stack");
    const std::string frame =
        stack != evidence.end() && stack->is_string() ? InnermostFrame(stack->get<std::string>()) : "";
    if (!frame.empty()) return {frame, ""};
    if (!module.empty()) return {"last module entered: " + module, ""};
    return {"", kind == "exception" ? "the exception has no stack" : ""};
  }
  if (kind == "stuck" || kind == "process_lost") return {"", kNoHooks};
  const bool is_of_numbers = kind.starts_with("loss_") || kind.starts_with("grad_") || kind == "divergence";
  return is_of_numbers ? InLatest(jobs, incident) : LayerFound{};
}

}  // namespace stepwatch::cli
