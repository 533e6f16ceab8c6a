// Sites of some front ends only: L2 features, communication operators, call stacks, heat maps.
#include "tests/api/job.h"
#include "tests/sinks/event_reader.h"

namespace stepwatch::testing {
namespace {

// A front end that can do all of it.
class AbleFrontEnd final : public HookTable {
 public:
  static SiteIndex Sites() {
    SiteIndex sites;
    sites.modules = {{0, "attn", "Attention", true}, {0, "fc", "Linear", true}};
    sites.parameters = {{0, "fc.weight", DType::kFloat32, {2}, true}};
    sites.operators = {"all_reduce"};
    sites.features = sites.stacks = sites.heatmaps = true;
    return sites;
  }
  void Swap(const RecordLayout* layout, const FrontEndRequests& its_requests) noexcept override {
    sites.clear();
    if (layout != nullptr) sites = layout->sites;
    requests = its_requests;
  }
  SiteId Find(SiteKind kind, Port port = Port::kNone) const {
    for (size_t i = 0; i < sites.size(); ++i)
      if (sites[i].kind == kind && sites[i].port == port) return static_cast<SiteId>(i);
    FAIL("the plan has no such site");
    return 0;
  }

  std::vector<PlannedSite> sites;
  FrontEndRequests requests;
};

class AbleJob : public Job {
 public:
  explicit AbleJob(const std::string& more) : Job("{\"ops\": [\"norm\", \"max\"], \"collect_times\": 2" + more + "}") {
    options.dynamic = false;
    REQUIRE(Create().ok());
    REQUIRE(monitor->Attach(AbleFrontEnd::Sites(), &front_end).ok());
  }
  ~AbleJob() { Close(); }

  void Show(const Observation& at, float value) {
    monitor->recorder().Observe(at, DenseView(&value, DType::kFloat32, nullptr, 0));
  }
  std::string File(const std::string& name) const { return Contents(output_dir + "/" + name); }

  AbleFrontEnd front_end;
};

TEST_CASE("features that the front end computes are rows of their own files, and the latest values of their kinds") {
  AbleJob job(R"(, "recording_l2_features": true, "l2_targets": {"attention_hook": ["attn"], "linear_hook": ["fc"]})");
  for (int step = 0; step < 2; ++step) {
    const double linear[] = {1.5, 2};
    for (int32_t micro_step : {0, 1}) {
      const double attention[] = {0.5 + step, 0.25 * micro_step};
      job.monitor->recorder().ObserveValues({job.front_end.Find(SiteKind::kAttention), micro_step}, attention, 2);
    }
    job.monitor->recorder().ObserveValues({job.front_end.Find(SiteKind::kLinear)}, linear, 2);
    if (step == 1) {
      const std::vector<LatestValue> latest = job.monitor->Latest(SiteKind::kLinear);
      REQUIRE(latest.size() == 1);
      CHECK(latest[0].name == "fc.linear");
      CHECK(latest[0].record.values[1].stat == Stat::kKernelNorm);
    }
    job.monitor->EndStep();
  }
  job.Close();
  CHECK(job.File("attention_hook_0-0.csv") ==
        "vpp_stage,name,step,micro_step,entropy,softmax_max\n0,attn.attention,0,0,0.5,0.0\n"
        "0,attn.attention,0,1,0.5,0.25\n");
  CHECK(job.File("linear_hook_1-1.csv") == "vpp_stage,name,step,sr,kernel_norm\n0,fc.linear,1,1.5,2.0\n");
  CHECK(job.CsvFiles().size() == 4);
}

TEST_CASE(
    "the calls of an operator in one step are one row beside those of mg_direction, and an alarm names their tag") {
  AbleJob job(R"(, "cc_distribution": {"enable": true, "cc_pre_hook": true}, "mg_direction": true,
                 "alert": {"rules": [{"rule_name": "AnomalyNan", "args": {"threshold": 4.5}}]})");
  const SiteId after = job.front_end.Find(SiteKind::kCommunication, Port::kOutput);
  job.Show({after, 0, 0}, 3);
  job.Show({job.front_end.Find(SiteKind::kCommunication, Port::kInput), 0, 0}, 1);
  job.Show({after, 1, 0}, 4);
  job.Show({after, 1, 1}, 2);
  job.Show({job.front_end.Find(SiteKind::kMgDirection)}, 1);
  job.monitor->EndStep();
  job.Close();
  CHECK(job.File("other_0-0.csv") ==
        "vpp_stage,name,step,norm,max,shape,dtype\n0,all_reduce.post_0,0,5.0,4.0,[],torch.float32\n"
        "0,all_reduce.pre_0,0,1.0,1.0,[],torch.float32\n0,all_reduce.post_1,0,2.0,2.0,[],torch.float32\n"
        "0,fc.weight,0,1.0,1.0,[],torch.float32\n");
  const auto alarms = job.Events(EventKind::kAlarm);
  REQUIRE(alarms.size() == 1);
  CHECK(Has(alarms[0].message, "('all_reduce/rank0/post_0', 'norm') at step 0, current value 5.0"));
}

TEST_CASE("columns of heat maps are in the event file at each step, and no rows") {
  AbleJob job(R"(, "ur_distribution": true, "format": "tensorboard")");
  job.counts_rows = false;
  HeatmapColumn update, ratio;
  update.site = job.front_end.Find(SiteKind::kAdamUpdate);
  ratio.site = job.front_end.Find(SiteKind::kAdamRatio);
  for (int step = 0; step < 3; ++step) {
    job.monitor->recorder().ObserveHeatmaps({update, ratio});
    job.monitor->EndStep();
  }
  job.Close();
  std::string seen;
  for (const auto& entry : std::filesystem::directory_iterator(job.output_dir))
    if (entry.path().filename().string().find("tfevents") != std::string::npos)
      for (const auto& image : sinks::test::ReadImages(entry.path().string()))
        seen += std::to_string(image.step) + " " + image.tag + "\n";
  CHECK(seen ==
        "0 0:fc.weight/rank0/adam_update\n0 0:fc.weight/rank0/adam_ratio\n"
        "1 0:fc.weight/rank0/adam_update\n1 0:fc.weight/rank0/adam_ratio\n");
  const auto drained = job.Events(EventKind::kDrained);
  REQUIRE(drained.size() == 1);
  CHECK(drained[0].ledger.produced == 0);
}

TEST_CASE("call stacks are written once, and never over a file that is there") {
  AbleJob job(R"(, "stack_info": true)");
  job.counts_rows = false;
  REQUIRE(job.front_end.requests.stacks);
  job.monitor->PublishStacks({{"0:fc", "File a.py, line 3, in f, \n x = \"1\" \n"}, {"0:", "File b.py"}});
  job.monitor->PublishStacks({{"0:fc", "another"}});
  REQUIRE(job.WaitFor(EventKind::kNote, 2));
  job.Close();
  CHECK(job.File("stack_info.csv") ==
        "module_name,stack_info\n0:fc,\"File a.py, line 3, in f, \n x = \"\"1\"\" \n\"\n0:,File b.py\n");
  const auto notes = job.Events(EventKind::kNote);
  CHECK(notes[0].message == "stack_info: the call stacks are in " + job.output_dir + "/stack_info.csv");
  CHECK(Has(notes[1].message, "already exists and is not changed"));
}

TEST_CASE("call stacks that cannot be written are reported, and a run without files keeps none") {
  AbleJob job(R"(, "stack_info": true, "format": "api")");
  job.monitor->PublishStacks({{"0:fc", "File a.py"}});
  REQUIRE(job.WaitFor(EventKind::kNote));
  CHECK(job.Events(EventKind::kNote)[0].message.find("stack_info: the format of this run has no files") == 0);
  job.Close();

  Job blocked(R"({"stack_info": true})");
  blocked.options.dynamic = false;
  WriteInPlace(blocked.options.output_dir, "a file where the directory should be");
  REQUIRE(blocked.Create().ok());
  AbleFrontEnd front_end;
  REQUIRE(blocked.monitor->Attach(AbleFrontEnd::Sites(), &front_end).ok());
  blocked.monitor->PublishStacks({{"0:fc", "File a.py"}});
  CHECK(Eventually([&] {
    const auto diagnostics = blocked.Events(EventKind::kDegraded);
    return std::any_of(diagnostics.begin(), diagnostics.end(),
                       [](const Event& event) { return event.message.rfind("stack_info: ", 0) == 0; });
  }));
  blocked.Close();
}

TEST_CASE("a key that the front end cannot serve gives one warning a run, whatever is edited") {
  const std::string more = R"(, "cc_distribution": {"enable": true}, "stack_info": true)";
  StartedJob job(ConfigText({.collect_times = 1}, more));
  job.TrainSteps(3);
  job.Settle();
  job.Edit(ConfigText({.collect_times = 2}, more + R"(, "recording_l2_features": true)"));
  job.TrainSteps(4);
  job.Close();
  std::vector<std::string> keys;
  for (const Event& event : job.Events(EventKind::kWarning)) keys.push_back(event.place.key);
  CHECK(keys == std::vector<std::string>{"cc_distribution.enable", "stack_info", "recording_l2_features"});
}

}  // namespace
}  // namespace stepwatch::testing
