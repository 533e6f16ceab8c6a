#include "operations/store/process_text.h"

#include <nlohmann/json.hpp>

#include "src/json/parse_json.h"

namespace stepwatch::operations {
namespace {

using Json = nlohmann::ordered_json;

Json IdentityJson(const base::ProcessIdentity& process) {
  return {{"host", process.host},
          {"boot_id", process.boot_id},
          {"pid_namespace", process.pid_namespace},
          {"pid", process.pid},
          {"started", process.started}};
}

base::ProcessIdentity IdentityOf(const Json& json) {
  return {json.at("host").get<std::string>(), json.at("boot_id").get<std::string>(),
          json.at("pid_namespace").get<std::string>(), json.at("pid").get<int>(), json.at("started").get<uint64_t>()};
}

}  // namespace

std::string ProcessText(const KnownProcess& process) {
  Json json = {{"run", process.run},
               {"rank", process.rank},
               {"process", IdentityJson(process.process)},
               {"own", IdentityJson(process.own)},
               {"seen_t", process.seen_t}};
  if (process.uid) json["uid"] = *process.uid;
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

Result<KnownProcess> ParseProcess(std::string_view text) {
  const Result<Json> parsed = bounded::ParseJson<Json>(text);
  if (!parsed.ok()) return parsed.status();
  const Json& json = parsed.value();
  try {
    const auto uid = json.find("uid");
    return KnownProcess{json.at("run").get<std::string>(),
                        json.at("rank").get<int64_t>(),
                        IdentityOf(json.at("process")),
                        IdentityOf(json.at("own")),
                        json.at("seen_t").get<double>(),
                        0,
                        uid == json.end() ? std::nullopt : std::optional(uid->get<uid_t>())};
  } catch (const Json::exception&) {
    return Status(StatusCode::kInvalid, "the store contains an invalid process");
  }
}

}  // namespace stepwatch::operations
