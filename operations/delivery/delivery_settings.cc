#include "operations/delivery/delivery_settings.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "operations/intake/incident_registry.h"

namespace stepwatch::operations::delivery {
namespace {

using config::Field;
using config::KeyRule;
using config::Notes;
using config::UnknownKeys;
using Kind = config::JsonValue::Kind;

template <auto member, class T>
constexpr KeyRule<T> Texts(std::string_view key) {
  return {{.key = key}, [](const Field& field, Notes& notes, T& out) {
            return config::ReadStrings(field, notes, "a list of texts", out.*member);
          }};
}

Status ReadLanguage(const Field& field, const Notes& notes, std::string* out) {
  if (Status status = config::ReadString(field, notes, R"("en" or "zh")", *out); !status.ok()) return status;
  return *out == "en" || *out == "zh" ? Status() : notes.RefuseWord(StatusCode::kOutOfRange, field, {"en", "zh"});
}

constexpr KeyRule<ReceiverSettings> kReceiver[] = {
    {{.key = "name"},
     [](const Field& field, Notes& notes, ReceiverSettings& out) {
       // A tab divides the parts of keys in the store, and a slash those of paths of requests.
       return config::ReadName(field, notes, out.name);
     }},
    {{.key = "type"},
     [](const Field& field, Notes& notes, ReceiverSettings& out) {
       const std::vector<std::string> names = ReceiverTypeNames();
       const std::vector<std::string_view> words(names.begin(), names.end());
       std::string name;
       if (Status status = config::ReadString(field, notes, config::AcceptedWords(words), name); !status.ok())
         return status;
       const std::optional<ReceiverType> type = ReceiverTypeNamed(name);
       if (!type) return notes.RefuseWord(StatusCode::kOutOfRange, field, words);
       out.type = *type;
       return Status();
     }},
    config::Text<&ReceiverSettings::url, ReceiverSettings>("url"),
    config::Text<&ReceiverSettings::url_file, ReceiverSettings>("url_file"),
    config::Text<&ReceiverSettings::secret_file, ReceiverSettings>("secret_file"),
    config::Text<&ReceiverSettings::token_file, ReceiverSettings>("token_file"),
    config::Text<&ReceiverSettings::user, ReceiverSettings>("user"),
    config::Text<&ReceiverSettings::password_file, ReceiverSettings>("password_file"),
    config::Text<&ReceiverSettings::from, ReceiverSettings>("from"),
    Texts<&ReceiverSettings::to, ReceiverSettings>("to"),
    config::Text<&ReceiverSettings::ca_file, ReceiverSettings>("ca_file"),
    config::Bool<&ReceiverSettings::starttls, ReceiverSettings>("starttls", ""),
    {{.key = "language"},
     [](const Field& field, Notes& notes, ReceiverSettings& out) { return ReadLanguage(field, notes, &out.language); }},
    {{.key = "per_minute"},
     [](const Field& field, Notes& notes, ReceiverSettings& out) {
       double number = 0;
       Status status =
           config::ReadNumber(field, notes, {0, 6000}, "0 to 6000 messages per minute; 0 is no limit", number);
       out.per_minute = number;
       return status;
     }},
    {{.key = "lasts_seconds"},
     [](const Field& field, Notes& notes, ReceiverSettings& out) {
       return config::ReadNumber(field, notes, {30, 86400}, "a number of seconds from 30 to 86400", out.lasts_seconds);
     }},
};

constexpr KeyRule<Route> kRoute[] = {
    Texts<&Route::receivers, Route>("receivers"),
    {{.key = "severity"},
     [](const Field& field, Notes& notes, Route& out) {
       constexpr std::string_view kAccepted = R"(a list of "info", "warning" and "critical")";
       std::vector<std::string> names;
       if (Status status = config::ReadStrings(field, notes, kAccepted, names); !status.ok()) return status;
       for (size_t i = 0; i < names.size(); ++i) {
         const std::optional<Severity> severity = SeverityNamed(names[i]);
         if (!severity)
           return notes.RefuseWord(StatusCode::kOutOfRange, config::ElementOf(field, i),
                                   {"info", "warning", "critical"});
         out.severities.push_back(*severity);
       }
       return Status();
     }},
    config::Text<&Route::owner, Route>("owner"),
    config::Text<&Route::run, Route>("run"),
    config::Text<&Route::kind, Route>("kind"),
};

Status ReadReceiver(const Field& field, Notes& notes, const std::string& language, ReceiverSettings& out) {
  if (!field.value.Is(Kind::kObject))
    return notes.Refuse(StatusCode::kWrongType, field, config::ObjectWithKeys<ReceiverSettings>(kReceiver));
  out.language = language;
  Status status = config::ReadMembers<ReceiverSettings>(field, kReceiver, UnknownKeys::kRefuse, notes, out);
  if (!status.ok()) return status;
  for (const char* key : {"name", "type"})
    if (field.value.Member(key) == nullptr)
      return notes.Refuse(StatusCode::kInvalid, field, std::string("an object with the key \"") + key + "\"");
  const Status fault = Check(out);
  if (fault.ok()) return Status();
  // At the member, if it is there. An address may be a secret, which no message contains.
  const std::string& key = fault.place().key;
  const config::JsonValue* member = key == "url" ? nullptr : field.value.Member(key);
  return notes.Refuse(StatusCode::kOutOfRange, member == nullptr ? field : config::MemberOf(field, *member),
                      fault.message());
}

Status ReadReceivers(const Field& field, Notes& notes, DeliverySettings& out) {
  if (!field.value.Is(Kind::kArray)) return notes.Refuse(StatusCode::kWrongType, field, "a list of receivers");
  if (field.value.children.size() > kReceiversMax)
    return notes.Refuse(StatusCode::kOutOfRange, field, "at most " + std::to_string(kReceiversMax) + " receivers");
  std::set<std::string> names;
  for (size_t i = 0; i < field.value.children.size(); ++i) {
    const Field element = config::ElementOf(field, i);
    ReceiverSettings receiver;
    if (Status status = ReadReceiver(element, notes, out.language, receiver); !status.ok()) return status;
    if (!names.insert(receiver.name).second)
      return notes.Refuse(StatusCode::kInvalid, config::MemberOf(element, *element.value.Member("name")),
                          "a name that no other receiver has");
    out.receivers.push_back(std::move(receiver));
  }
  return Status();
}

Status ReadRoutes(const Field& field, Notes& notes, DeliverySettings& out) {
  if (!field.value.Is(Kind::kArray)) return notes.Refuse(StatusCode::kWrongType, field, "a list of routes");
  if (field.value.children.size() > kRoutesMax)
    return notes.Refuse(StatusCode::kOutOfRange, field, "at most " + std::to_string(kRoutesMax) + " routes");
  std::vector<std::string_view> names;
  for (const ReceiverSettings& each : out.receivers) names.push_back(each.name);
  for (size_t i = 0; i < field.value.children.size(); ++i) {
    const Field element = config::ElementOf(field, i);
    if (!element.value.Is(Kind::kObject))
      return notes.Refuse(StatusCode::kWrongType, element, config::ObjectWithKeys<Route>(kRoute));
    Route route;
    Status status = config::ReadMembers<Route>(element, kRoute, UnknownKeys::kRefuse, notes, route);
    if (!status.ok()) return status;
    const config::JsonValue* receivers = element.value.Member("receivers");
    if (receivers == nullptr)
      return notes.Refuse(StatusCode::kInvalid, element, "an object with the key \"receivers\"");
    const Field list = config::MemberOf(element, *receivers);
    for (size_t k = 0; k < route.receivers.size(); ++k)
      if (std::find(names.begin(), names.end(), route.receivers[k]) == names.end())
        return names.empty() ? notes.Refuse(StatusCode::kOutOfRange, config::ElementOf(list, k),
                                            "the name of a receiver of \"delivery.receivers\", which is empty")
                             : notes.RefuseWord(StatusCode::kOutOfRange, config::ElementOf(list, k), names);
    out.routes.push_back(std::move(route));
  }
  return Status();
}

bool IsWeb(const std::string& url) {
  return url.starts_with("http://") || url.starts_with("https://");
}

// Receivers need the language, and routes the receivers: their rules come later, whatever the order in the file.
constexpr KeyRule<DeliverySettings> kDelivery[] = {
    {{.key = "language"},
     [](const Field& field, Notes& notes, DeliverySettings& out) { return ReadLanguage(field, notes, &out.language); }},
    {{.key = "receivers"}, [](const Field&, Notes&, DeliverySettings&) { return Status(); }},
    {{.key = "routes"}, [](const Field&, Notes&, DeliverySettings&) { return Status(); }},
    {{.key = "watchdog_url"},
     [](const Field& field, Notes& notes, DeliverySettings& out) {
       constexpr std::string_view kAccepted = "an address that begins with http:// or https://";
       if (Status status = config::ReadString(field, notes, kAccepted, out.watchdog_url); !status.ok()) return status;
       return out.watchdog_url.empty() || IsWeb(out.watchdog_url)
                  ? Status()
                  : notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
     }},
    config::Text<&DeliverySettings::watchdog_url_file, DeliverySettings>("watchdog_url_file"),
    {{.key = "watchdog_seconds"},
     [](const Field& field, Notes& notes, DeliverySettings& out) {
       return config::ReadNumber(field, notes, {1, 86400}, "a number of seconds from 1 to 86400", out.watchdog_seconds);
     }},
    {{.key = "watchdog_expected_seconds"},
     [](const Field& field, Notes& notes, DeliverySettings& out) {
       return config::ReadNumber(field, notes, {0, 604800}, "a number of seconds up to 604800, or 0 for none",
                                 out.watchdog_expected_seconds);
     }},
};

bool IsFor(const Route& route, const Notice& notice) {
  const auto& severities = route.severities;
  return (severities.empty() || std::find(severities.begin(), severities.end(), notice.severity) != severities.end()) &&
         Matches(route.owner, notice.owner) && Matches(route.run, notice.run) && Matches(route.kind, notice.kind);
}

}  // namespace

Status ReadDelivery(const Field& field, Notes& notes, DeliverySettings& out) {
  if (!field.value.Is(Kind::kObject))
    return notes.Refuse(StatusCode::kWrongType, field, config::ObjectWithKeys<DeliverySettings>(kDelivery));
  Status status = config::ReadMembers<DeliverySettings>(field, kDelivery, UnknownKeys::kWarn, notes, out);
  if (!status.ok()) return status;
  if (const config::JsonValue* receivers = field.value.Member("receivers"))
    if (status = ReadReceivers(config::MemberOf(field, *receivers), notes, out); !status.ok()) return status;
  if (const config::JsonValue* routes = field.value.Member("routes"))
    return ReadRoutes(config::MemberOf(field, *routes), notes, out);
  return Status();
}

std::vector<size_t> ReceiversOf(const DeliverySettings& settings, const Notice& notice) {
  std::set<std::string_view> names;
  bool has_route = false;
  for (const Route& route : settings.routes)
    if (IsFor(route, notice)) {
      has_route = true;
      names.insert(route.receivers.begin(), route.receivers.end());
    }
  std::vector<size_t> indices;
  for (size_t i = 0; i < settings.receivers.size(); ++i)
    if (!has_route || names.contains(settings.receivers[i].name)) indices.push_back(i);
  return indices;
}

}  // namespace stepwatch::operations::delivery
