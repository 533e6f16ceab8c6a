// Every field: accepted and refused values, and the code and place of each refusal.

#include <functional>

#include "tests/config/config_cases.h"

namespace stepwatch::config {
namespace {

struct RefusedCase {
  const char* marked;  // '^' before the offending value or key
  StatusCode code;
  const char* key;
};

void CheckRefused(const RefusedCase& refused) {
  const Status status = RefusalAtMark(refused.marked);
  INFO(status.ToString());
  CHECK(status.code() == refused.code);
  CHECK(status.place().key == refused.key);
  CHECK(Has(status.message(), "found "));
  CHECK(Has(status.message(), "; accepted: "));
}

struct BoolField {
  const char* key;
  bool Config::*member;
};

constexpr BoolField kBoolFields[] = {
    {"dynamic_on", &Config::dynamic_on},
    {"print_struct", &Config::print_struct},
    {"ur_distribution", &Config::ur_distribution},
    {"xy_distribution", &Config::xy_distribution},
    {"all_xy", &Config::all_xy},
    {"forward_only", &Config::forward_only},
    {"backward_only", &Config::backward_only},
    {"mv_distribution", &Config::mv_distribution},
    {"wg_distribution", &Config::wg_distribution},
    {"param_distribution", &Config::param_distribution},
    {"mg_direction", &Config::mg_direction},
    {"squash_name", &Config::squash_name},
    {"stack_info", &Config::stack_info},
    {"recording_l2_features", &Config::recording_l2_features},
};

constexpr RefusedCase kRefused[] = {
    // The whole text.
    {"^[]", kType, ""},
    {"\n  ^\"dynamic_on\"", kType, ""},
    {"^1", kType, ""},
    {"^null", kType, ""},
    // targets
    {"{\"targets\": ^[]}", kType, "targets"},
    {"{\"targets\": ^\"layers.0\"}", kType, "targets"},
    {"{\"targets\": ^null}", kType, "targets"},
    {"{\"targets\": {\"a\": {},\n \"b.c\": ^1}}", kType, "targets.b.c"},
    {"{\"targets\": {\"\": ^[]}}", kType, "targets."},
    // module_ranks
    {"{\"module_ranks\": ^0}", kType, "module_ranks"},
    {"{\"module_ranks\": ^{}}", kType, "module_ranks"},
    {"{\"module_ranks\": [0, ^true]}", kType, "module_ranks[1]"},
    {"{\"module_ranks\": [^1.0]}", kType, "module_ranks[0]"},
    {"{\"module_ranks\": [^\"0\"]}", kType, "module_ranks[0]"},
    {"{\"module_ranks\": [0, 1, ^-1]}", kRange, "module_ranks[2]"},
    {"{\"module_ranks\": [^9223372036854775808]}", kRange, "module_ranks[0]"},
    // cc_distribution
    {"{\"cc_distribution\": ^true}", kType, "cc_distribution"},
    {"{\"cc_distribution\": {^\"enabled\": true}}", kType, "cc_distribution.enabled"},
    {"{\"cc_distribution\": {\"enable\": ^1}}", kType, "cc_distribution.enable"},
    {"{\"cc_distribution\": {\"cc_codeline\": ^\"a\"}}", kType, "cc_distribution.cc_codeline"},
    {"{\"cc_distribution\": {\"cc_codeline\": [\"a\", ^1]}}", kType, "cc_distribution.cc_codeline[1]"},
    {"{\"cc_distribution\": {\"cc_pre_hook\": ^null}}", kType, "cc_distribution.cc_pre_hook"},
    {"{\"cc_distribution\": {\"cc_log_only\": ^\"no\"}}", kType, "cc_distribution.cc_log_only"},
    // alert
    {"{\"alert\": ^[]}", kType, "alert"},
    {"{\"alert\": ^{}}", kType, "alert"},
    {"{\"alert\": ^{\"dump\": true}}", kType, "alert"},
    {"{\"alert\": {\"rules\": ^{}}}", kType, "alert.rules"},
    {"{\"alert\": {\"rules\": [], \"dump\": ^0}}", kType, "alert.dump"},
    {"{\"alert\": {\"rules\": [^\"AnomalyNan\"]}}", kType, "alert.rules[0]"},
    {"{\"alert\": {\"rules\": [^{}]}}", kType, "alert.rules[0]"},
    {"{\"alert\": {\"rules\": [{\"rule_name\": ^1}]}}", kType, "alert.rules[0].rule_name"},
    {"{\"alert\": {\"rules\": [{\"rule_name\": \"AnomalyNan\"}, {\"rule_name\": ^\"Nan\"}]}}", kType,
     "alert.rules[1].rule_name"},
    {"{\"alert\": {\"rules\": [{\"rule_name\": \"AnomalyNan\", \"args\": ^[1]}]}}", kType, "alert.rules[0].args"},
    {"{\"alert\": {\"rules\": [{\"rule_name\": \"AnomalyNan\", \"args\": ^null}]}}", kType, "alert.rules[0].args"},
    {"{\"alert\": {\"rules\": [{\"rule_name\": \"AnomalyNan\", \"args\": {^\"limit\": 1}}]}}", kType,
     "alert.rules[0].args.limit"},
    {"{\"alert\": {\"rules\": [{\"rule_name\": \"AnomalyNan\", \"args\": {\"threshold\": ^true}}]}}", kType,
     "alert.rules[0].args.threshold"},
    {"{\"alert\": {\"rules\": [{\"rule_name\": \"AnomalyNan\", \"args\": {\"threshold\": ^\"1\"}}]}}", kType,
     "alert.rules[0].args.threshold"},
    {"{\"alert\": {\"rules\": [{\"rule_name\": \"AnomalyNan\", \"args\": {\"threshold\": ^-0.1}}]}}", kRange,
     "alert.rules[0].args.threshold"},
    {"{\"alert\": {\"rules\": [{\"rule_name\": \"AnomalyNan\", \"args\": {\"threshold\": ^-1}}]}}", kRange,
     "alert.rules[0].args.threshold"},
    // ops
    {"{\"ops\": ^\"norm\"}", kType, "ops"},
    {"{\"ops\": ^{}}", kType, "ops"},
    {"{\"ops\": ^null}", kType, "ops"},
    // eps: an integer is another type than a number with a point or an exponent
    {"{\"eps\": ^0}", kType, "eps"},
    {"{\"eps\": ^1}", kType, "eps"},
    {"{\"eps\": ^-1}", kType, "eps"},
    {"{\"eps\": ^\"1e-8\"}", kType, "eps"},
    {"{\"eps\": ^true}", kType, "eps"},
    {"{\"eps\": ^null}", kType, "eps"},
    {"{\"eps\": ^-1e-8}", kRange, "eps"},
    {"{\"eps\": ^1e999}", kRange, "eps"},
    {"{\"eps\": ^-1e999}", kRange, "eps"},
    // ndigits
    {"{\"ndigits\": ^null}", kRange, "ndigits"},
    {"{\"ndigits\": ^1.5}", kRange, "ndigits"},
    {"{\"ndigits\": ^6.0}", kRange, "ndigits"},
    {"{\"ndigits\": ^true}", kRange, "ndigits"},
    {"{\"ndigits\": ^\"6\"}", kRange, "ndigits"},
    {"{\"ndigits\": ^[]}", kRange, "ndigits"},
    {"{\"ndigits\": ^21}", kRange, "ndigits"},
    {"{\"ndigits\": ^-1}", kRange, "ndigits"},
    {"{\"ndigits\": ^18446744073709551616}", kRange, "ndigits"},
    // step_count_per_record
    {"{\"step_count_per_record\": ^\"1\"}", kType, "step_count_per_record"},
    {"{\"step_count_per_record\": ^true}", kType, "step_count_per_record"},
    {"{\"step_count_per_record\": ^1.0}", kType, "step_count_per_record"},
    {"{\"step_count_per_record\": ^0}", kRange, "step_count_per_record"},
    {"{\"step_count_per_record\": ^1000001}", kRange, "step_count_per_record"},
    {"{\"step_count_per_record\": ^-9223372036854775809}", kRange, "step_count_per_record"},
    // append_output
    {"{\"append_output\": ^\"Dec03_21-34-40\"}", kType, "append_output"},
    {"{\"append_output\": [^1, 2]}", kType, "append_output[0]"},
    {"{\"append_output\": [\"Dec03_21-34-40\", ^null]}", kType, "append_output[1]"},
    {"{\"append_output\": ^[\"Dec03_21-34-40\"]}", kRange, "append_output"},
    {"{\"append_output\": ^[\"Dec03_21-34-40\", \"Dec03_21-34-40\", \"Dec03_21-34-40\"]}", kRange, "append_output"},
    {"{\"append_output\": [^\"Dez03_21-34-40\", \"Dec03_21-34-40\"]}", kRange, "append_output[0]"},
    {"{\"append_output\": [^\"ecJ03_21-34-40\", \"Dec03_21-34-40\"]}", kRange, "append_output[0]"},
    {"{\"append_output\": [\"Dec03_21-34-40\", ^\"Dec32_21-34-40\"]}", kRange, "append_output[1]"},
    {"{\"append_output\": [\"Dec03_21-34-40\", ^\"Dec03_21-60-40\"]}", kRange, "append_output[1]"},
    {"{\"append_output\": [\"Dec03_21-34-40\", ^\"Dec03_21-34-4\"]}", kRange, "append_output[1]"},
    {"{\"append_output\": [\"Dec03_21-34-40\", ^\"Dec03 21:34:40\"]}", kRange, "append_output[1]"},
    // l2_targets, sa_order
    {"{\"l2_targets\": ^[]}", kType, "l2_targets"},
    {"{\"l2_targets\": {^\"linear\": []}}", kType, "l2_targets.linear"},
    {"{\"l2_targets\": {\"linear_hook\": ^\"a\"}}", kType, "l2_targets.linear_hook"},
    {"{\"l2_targets\": {\"linear_hook\": [], \"attention_hook\": [^{}]}}", kType, "l2_targets.attention_hook[0]"},
    {"{\"sa_order\": ^[\"s\"]}", kType, "sa_order"},
    {"{\"sa_order\": ^null}", kType, "sa_order"},
    {"{\"sa_order\": ^\"s,b,d,h\"}", kRange, "sa_order"},
    {"{\"sa_order\": ^\"\"}", kRange, "sa_order"},
    {"{\"sa_order\": ^\"s,\\tb,h,d\"}", kRange, "sa_order"},
    // stepwatch
    {"{\"stepwatch\": ^[]}", kType, "stepwatch"},
    {"{\"stepwatch\": {\"columns\": ^\"plan_id\"}}", kType, "stepwatch.columns"},
    {"{\"stepwatch\": {\"columns\": [^1]}}", kType, "stepwatch.columns[0]"},
    {"{\"stepwatch\": {\"columns\": [\"plan_id\", ^\"plan_ids\"]}}", kRange, "stepwatch.columns[1]"},
    {"{\"stepwatch\": {\"eps_mode\": ^0}}", kType, "stepwatch.eps_mode"},
    {"{\"stepwatch\": {\"eps_mode\": ^\"strict\"}}", kRange, "stepwatch.eps_mode"},
    {"{\"stepwatch\": {\"exit_after_struct\": ^1}}", kType, "stepwatch.exit_after_struct"},
    // The first refusal is the first in the file, whatever the order of the fields in the documentation.
    {"{\"sa_order\": ^1,\n \"targets\": 1}", kType, "sa_order"},
};

TEST_CASE("every unusable value is refused with its code, key, line and column") {
  for (const RefusedCase& refused : kRefused) CheckRefused(refused);
}

TEST_CASE("every boolean takes true and false and nothing else") {
  for (const BoolField& field : kBoolFields) {
    const std::string begin = std::string("{\"") + field.key + "\": ";
    CHECK(Accepted(begin + "true}").config.*field.member);
    CHECK_FALSE(Accepted(begin + "false}").config.*field.member);
    CHECK_FALSE(Accepted("{}").config.*field.member);
    for (const char* other : {"\"false\"", "\"yes\"", "0", "1", "1.0", "null", "[]", "{}"})
      CheckRefused({(begin + "\n\t^" + other + "}").c_str(), kType, field.key});
  }
}

struct AcceptedCase {
  const char* text;
  std::function<void(Config&)> expected;  // what differs from the defaults
};

const AcceptedCase kAccepted[] = {
    {"{}", [](Config&) {}},
    {R"({"targets": {"b": {}, "a": {"input": "tuple[2]:0"}, "": {}}})",
     [](Config& c) {
       c.targets = {"b", "a", ""};
     }},
    {R"({"start_step": 3, "collect_times": 0, "step_interval": 9223372036854775807})",
     [](Config& c) {
       c.start_step = 3;
       c.collect_times = 0;
       c.step_interval = 9223372036854775807;
     }},
    {R"({"start_step": -0})", [](Config& c) { c.start_step = 0; }},
    {R"({"module_ranks": [8, 0, 8]})",
     [](Config& c) {
       c.module_ranks = {8, 0, 8};
     }},
    {R"({"monitor_mbs_grad": true})", [](Config& c) { c.monitor_mbs_grad = true; }},
    {R"({"cc_distribution": {"enable": true, "cc_codeline": ["x\\[1\\]"], "cc_pre_hook": true, "cc_log_only": true}})",
     [](Config& c) {
       c.cc_distribution = {true, {"x\\[1\\]"}, true, true};
     }},
    {R"({"alert": {"rules": [{"rule_name": "AnomalyTurbulence", "args": {"threshold": 0.5}},
                             {"rule_name": "AnomalyNan", "args": {"threshold": 10}},
                             {"rule_name": "AnomalyNan", "args": {}}, {"rule_name": "AnomalyNan"}], "dump": true}})",
     [](Config& c) {
       c.alert.rules = {{"AnomalyTurbulence", 0.5}, {"AnomalyNan", 10.0}, {"AnomalyNan", {}}, {"AnomalyNan", {}}};
       c.alert.dump = true;
     }},
    {R"({"alert": {"dump": true, "rules": [{"args": {"threshold": 0}, "rule_name": "AnomalyTurbulence"}]}})",
     [](Config& c) {
       c.alert.rules = {{"AnomalyTurbulence", 0.0}};
       c.alert.dump = true;
     }},
    {R"({"format": "csv"})", [](Config&) {}},
    {R"({"format": "tensorboard"})", [](Config& c) { c.format = OutputFormat::kTensorBoard; }},
    {R"({"format": "api"})", [](Config& c) { c.format = OutputFormat::kApi; }},
    {R"({"ops": ["max", "mean"]})",
     [](Config& c) {
       c.ops = {Stat::kMax, Stat::kMean, Stat::kShape, Stat::kDtype};
     }},
    {R"({"ops": ["dtype", "norm"]})",
     [](Config& c) {
       c.ops = {Stat::kDtype, Stat::kNorm, Stat::kShape};
     }},
    {R"({"ops": ["shape"]})",
     [](Config& c) {
       c.ops = {Stat::kShape, Stat::kDtype};
     }},
    {R"({"ops": ["infs", "std", "abs_max", "id", "nans", "zeros", "min"]})",
     [](Config& c) {
       c.ops = {Stat::kInfs,  Stat::kStd, Stat::kAbsMax, Stat::kId,   Stat::kNans,
                Stat::kZeros, Stat::kMin, Stat::kShape,  Stat::kDtype};
     }},
    {R"({"eps": 1.0})", [](Config& c) { c.eps = 1.0; }},
    {R"({"eps": 1E-8})", [](Config&) {}},
    {R"({"eps": 0.0})", [](Config& c) { c.eps = 0.0; }},
    {R"({"eps": 2.2250738585072011e-308})", [](Config& c) { c.eps = 2.2250738585072011e-308; }},
    {R"({"eps": 1e-999})", [](Config& c) { c.eps = 0.0; }},
    {R"({"ndigits": 0})", [](Config& c) { c.ndigits = 0; }},
    {R"({"ndigits": 20})", [](Config& c) { c.ndigits = 20; }},
    {R"({"step_count_per_record": 1000000})", [](Config& c) { c.step_count_per_record = 1000000; }},
    {R"({"append_output": ["Jan01_00-00-00", "Dec31_23-59-59"]})",
     [](Config& c) {
       c.append_output = {"Jan01_00-00-00", "Dec31_23-59-59"};
     }},
    {R"({"l2_targets": {"linear_hook": [], "moe_router_logit_hook": ["a", "b"]}})",
     [](Config& c) {
       c.l2_targets = {{"linear_hook", {}}, {"moe_router_logit_hook", {"a", "b"}}};
     }},
    {R"({"sa_order": " b, s,h , d "})", [](Config& c) { c.sa_order = "b,s,h,d"; }},
    {R"({"stepwatch": {"columns": ["plan_id"], "eps_mode": "exact"}})",
     [](Config& c) {
       c.own.plan_id_column = true;
       c.own.eps_mode = EpsMode::kExact;
     }},
    {R"({"stepwatch": {"columns": [], "eps_mode": "parity", "coordination": "strict"}})", [](Config&) {}},
    {R"({"stepwatch": {"coordination": "besteffort"}})",
     [](Config& c) { c.own.coordination = Coordination::kBestEffort; }},
    {R"({"stepwatch": {"coordination": "local"}})", [](Config& c) { c.own.coordination = Coordination::kLocal; }},
    {R"({"stepwatch": {"on_restart": "start"}})", [](Config&) {}},
    {R"({"stepwatch": {"on_restart": "once"}})", [](Config& c) { c.own.on_restart = OnRestart::kOnce; }},
    {R"({"stepwatch": {"names": "model"}})", [](Config&) {}},
    {R"({"stepwatch": {"names": "torch"}})", [](Config& c) { c.own.names = NameSource::kTorch; }},
    {R"({"stepwatch": {"exit_after_struct": false}})", [](Config& c) { c.own.exit_after_struct = false; }},
    // Values that several fields decide together.
    {R"({"xy_distribution": true})", [](Config& c) { c.xy_distribution = c.all_xy = true; }},
    {R"({"xy_distribution": true, "all_xy": false, "targets": {}})",
     [](Config& c) { c.xy_distribution = c.all_xy = true; }},
    {R"({"xy_distribution": true, "targets": {"": {}}})",
     [](Config& c) {
       c.xy_distribution = true;
       c.targets = {""};
     }},
};

TEST_CASE("every usable value lands in its field and changes no other") {
  for (const AcceptedCase& accepted : kAccepted) {
    Config expected;
    expected.ops = {Stat::kNorm, Stat::kShape, Stat::kDtype};
    accepted.expected(expected);
    INFO(accepted.text);
    CHECK(Accepted(accepted.text).config == expected);
  }
}

TEST_CASE("the defaults are those of TrainerMon") {
  const Config config = Accepted("{}").config;
  CHECK(config.collect_times == 100000000);
  CHECK(config.step_interval == 1);
  CHECK(config.eps == 1e-8);
  CHECK_FALSE(config.ndigits.has_value());
  CHECK(config.step_count_per_record == 1);
  CHECK_FALSE(config.squash_name);
  CHECK(config.format == OutputFormat::kCsv);
  CHECK(config.sa_order == "s,b,h,d");
  CHECK(config.own.exit_after_struct);
  CHECK(config.ops == std::vector<Stat>{Stat::kNorm, Stat::kShape, Stat::kDtype});
}

TEST_CASE("a refusal reads as a sentence with its place in front") {
  CHECK(RefusalOf("{\n  \"ops\": [],\n  \"all_xy\": \"yes\"\n}").ToString() ==
        "line 3, column 13, \"all_xy\": found \"yes\" (a string); accepted: true or false");
  CHECK(RefusalOf(R"({"eps": 1})").ToString() ==
        "line 1, column 9, \"eps\": found 1 (an integer); accepted: a number of at least 0, written with a point or an "
        "exponent, such as 1.0 or 1e-8");
  CHECK(RefusalOf(R"({"cc_distribution": {"enabled": true}})").message() ==
        "found the key \"enabled\"; accepted: \"enable\", \"cc_codeline\", \"cc_pre_hook\" or \"cc_log_only\" (did you "
        "mean \"enable\"?)");
  CHECK(RefusalOf(R"({"stepwatch": {"eps_mode": "exactly"}})").message() ==
        "found \"exactly\" (a string); accepted: \"parity\" or \"exact\" (did you mean \"exact\"?)");
}

TEST_CASE("what a message quotes is short and cannot steer a terminal") {
  const std::string long_text(5000, 'x');
  CHECK(RefusalOf("{\"all_xy\": \"" + long_text + "\"}").message().size() < 200);
  CHECK(RefusalOf("{\"targets\": {\"" + long_text + "\": 1}}").ToString().size() < 300);
  const Status status = RefusalOf("{\"targets\": {\"a\\u001b[2J\\n\": 1}}");
  CHECK(status.place().key == "targets.a\\x1b[2J\\x0a");
}

}  // namespace
}  // namespace stepwatch::config
