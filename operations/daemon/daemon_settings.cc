#include "operations/daemon/daemon_settings.h"

#include <array>
#include <cmath>

#include "operations/daemon/detector_rules.h"
#include "src/config/config_text.h"
#include "src/config/field.h"

namespace stepwatch::operations {
namespace {

using config::Field;
using config::KeyRule;
using config::Notes;
using config::UnknownKeys;
using Kind = config::JsonValue::Kind;

template <auto member, class T>
constexpr KeyRule<T> Whole(std::string_view key) {
  return {{.key = key}, [](const Field& field, Notes& notes, T& out) {
            return config::ReadInteger(field, notes, {1, 1 << 20}, out.*member);
          }};
}

// An object whose keys are `rules`.
template <class T>
Status ReadObject(const Field& field, std::span<const KeyRule<T>> rules, Notes& notes, T& out) {
  if (!field.value.Is(Kind::kObject))
    return notes.Refuse(StatusCode::kWrongType, field, config::ObjectWithKeys<T>(rules));
  return config::ReadMembers<T>(field, rules, UnknownKeys::kWarn, notes, out);
}

Status ReadWebAddress(const Field& field, const Notes& notes, std::string* out) {
  constexpr std::string_view kAccepted = "an address that begins with http:// or https://, or \"\" for none";
  if (Status status = config::ReadString(field, notes, kAccepted, *out); !status.ok()) return status;
  const bool is_usable = out->empty() || out->starts_with("http://") || out->starts_with("https://");
  return is_usable ? Status() : notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
}

constexpr KeyRule<ListenSettings> kListen[] = {
    config::Text<&ListenSettings::tcp, ListenSettings>("tcp"),
    config::Text<&ListenSettings::token_file, ListenSettings>("token_file"),
    config::Text<&ListenSettings::name, ListenSettings>("name"),
    config::Text<&ListenSettings::readers, ListenSettings>("readers"),
    {{.key = "public_url"},
     [](const Field& field, Notes& notes, ListenSettings& out) {
       return ReadWebAddress(field, notes, &out.public_url);
     }},
};

constexpr KeyRule<StoreSettings> kStore[] = {
    Whole<&StoreSettings::lines_minutes, StoreSettings>("lines_minutes"),
    Whole<&StoreSettings::lines_mib, StoreSettings>("lines_mib"),
    Whole<&StoreSettings::mib, StoreSettings>("mib"),
    Whole<&StoreSettings::ended_days, StoreSettings>("ended_days"),
};

constexpr KeyRule<DiscoverySettings> kDiscovery[] = {
    config::Bool<&DiscoverySettings::enabled, DiscoverySettings>("enabled", ""),
    {{.key = "directories"},
     [](const Field& field, Notes& notes, DiscoverySettings& out) {
       return config::ReadStrings(field, notes, "a list of absolute paths", out.directories);
     }},
};

// Reads the member `url`.
template <class T>
constexpr KeyRule<T> PlainUrl() {
  return {{.key = "url"}, [](const Field& field, Notes& notes, T& out) {
            constexpr std::string_view kAccepted = "\"http://HOST:PORT\", or \"\" for none; for TLS use a proxy";
            if (Status status = config::ReadString(field, notes, kAccepted, out.url); !status.ok()) return status;
            const bool usable = out.url.empty() || (out.url.starts_with("http://") && out.url.size() > 7);
            return usable ? Status() : notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
          }};
}

constexpr KeyRule<UpstreamSettings> kUpstream[] = {
    PlainUrl<UpstreamSettings>(),
    config::Text<&UpstreamSettings::token_file, UpstreamSettings>("token_file"),
    Whole<&UpstreamSettings::spool_mib, UpstreamSettings>("spool_mib"),
};

constexpr KeyRule<GpuSettings> kGpu[] = {
    {{.key = "source"},
     [](const Field& field, Notes& notes, GpuSettings& out) {
       constexpr std::string_view kAccepted = R"("nvml", "dcgm" or "none")";
       if (Status status = config::ReadString(field, notes, kAccepted, out.source); !status.ok()) return status;
       const bool usable = out.source == "nvml" || out.source == "dcgm" || out.source == "none";
       return usable ? Status() : notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
     }},
    {{.key = "peak_flops"}, ReadPositive<&GpuSettings::peak_flops, GpuSettings>},
};

constexpr KeyRule<HostSettings> kHost[] = {
    {{.key = "directories"},
     [](const Field& field, Notes& notes, HostSettings& out) {
       constexpr std::string_view kAccepted = "a list of at most 16 absolute paths";
       if (Status status = config::ReadStrings(field, notes, kAccepted, out.directories); !status.ok()) return status;
       bool usable = out.directories.size() <= 16;
       for (const std::string& each : out.directories) usable = usable && each.starts_with('/');
       return usable ? Status() : notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
     }},
};

constexpr KeyRule<MetricsSettings> kMetrics[] = {
    config::Text<&MetricsSettings::directory, MetricsSettings>("directory"),
    Whole<&MetricsSettings::file_seconds, MetricsSettings>("file_seconds"),
    config::Text<&MetricsSettings::targets_file, MetricsSettings>("targets_file"),
};

constexpr KeyRule<OtlpSettings> kOtlp[] = {
    PlainUrl<OtlpSettings>(),
    config::Text<&OtlpSettings::headers_file, OtlpSettings>("headers_file"),
    Whole<&OtlpSettings::seconds, OtlpSettings>("seconds"),
};

// Reads the absolute path of a file.
template <auto member, class T>
constexpr KeyRule<T> Path(std::string_view key) {
  return {{.key = key}, [](const Field& field, Notes& notes, T& out) {
            constexpr std::string_view kAccepted = "an absolute path, or \"\" for none";
            if (Status status = config::ReadString(field, notes, kAccepted, out.*member); !status.ok()) return status;
            const bool usable = (out.*member).empty() || (out.*member).starts_with('/');
            return usable ? Status() : notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
          }};
}

constexpr KeyRule<MaintenanceSettings> kMaintenance[] = {
    Path<&MaintenanceSettings::scontrol, MaintenanceSettings>("scontrol"),
    Path<&MaintenanceSettings::labels_file, MaintenanceSettings>("labels_file"),
    Whole<&MaintenanceSettings::seconds, MaintenanceSettings>("seconds"),
};

template <auto member, const auto& rules, class T = DaemonSettings>
constexpr KeyRule<T> Object(std::string_view key) {
  return {{.key = key}, [](const Field& field, Notes& notes, T& out) {
            auto& inside = out.*member;
            return ReadObject<std::remove_reference_t<decltype(inside)>>(field, rules, notes, inside);
          }};
}

constexpr KeyRule<Settings> kDetectors[] = {
    Object<&Settings::stuck, kStuckRules, Settings>("stuck"),
    Object<&Settings::numerics, kNumericsRules, Settings>("numerics"),
    Object<&Settings::pace, kPaceRules, Settings>("pace"),
};

constexpr KeyRule<delivery::DeliverySettings> kLinks[] = {
    {{.key = "incident"},
     [](const Field& field, Notes& notes, delivery::DeliverySettings& out) {
       return ReadWebAddress(field, notes, &out.link);
     }},
};

constexpr KeyRule<DaemonSettings> kAll[] = {
    Object<&DaemonSettings::listen, kListen>("listen"),
    Object<&DaemonSettings::store, kStore>("store"),
    Object<&DaemonSettings::discovery, kDiscovery>("discovery"),
    Object<&DaemonSettings::upstream, kUpstream>("upstream"),
    Object<&DaemonSettings::gpu, kGpu>("gpu"),
    Object<&DaemonSettings::host, kHost>("host"),
    Object<&DaemonSettings::metrics, kMetrics>("metrics"),
    Object<&DaemonSettings::otlp, kOtlp>("otlp"),
    Object<&DaemonSettings::maintenance, kMaintenance>("maintenance"),
    {{.key = "logs"},
     [](const Field& field, Notes& notes, DaemonSettings& out) { return ReadLogs(field, notes, out.logs); }},
    Object<&DaemonSettings::detectors, kDetectors>("detectors"),
    {{.key = "delivery"},
     [](const Field& field, Notes& notes, DaemonSettings& out) {
       return delivery::ReadDelivery(field, notes, out.delivery);
     }},
    Object<&DaemonSettings::delivery, kLinks>("links"),
};

}  // namespace

Result<ParsedDaemonSettings> ParseDaemonSettings(std::string_view text_untrusted) {
  Result<config::JsonDocument> document = config::ReadConfigText(text_untrusted);
  if (!document.ok()) return document.status();
  Notes notes(document.value());
  ParsedDaemonSettings parsed;
  const Field top{document.value().root, ""};
  Status status = config::ReadMembers<DaemonSettings>(top, kAll, UnknownKeys::kWarn, notes, parsed.settings);
  if (!status.ok()) return status;
  const ListenSettings& listen = parsed.settings.listen;
  if (!listen.tcp.empty() && listen.token_file.empty()) {
    const config::JsonValue* object = top.value.Member("listen");
    const Field field = config::MemberOf({*object, "listen"}, *object->Member("tcp"));
    return notes.Refuse(StatusCode::kOutOfRange, field,
                        "an address together with \"token_file\", the path of a token file");
  }
  parsed.warnings = notes.TakeWarnings();
  return parsed;
}

}  // namespace stepwatch::operations
