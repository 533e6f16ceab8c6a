// Measures the recognition of logs, in MB/s of one core: the search for anomalies against a loop over an RE2::Set with
// the same patterns, and the whole way from lines to records. The lines are a mix as a training prints it: mostly dull
// lines, some of the trainer, few tracebacks and faults.
#include <re2/re2.h>
#include <re2/set.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <exception>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/report.h"
#include "bench/rounds.h"
#include "src/logs/anomalies.h"
#include "src/logs/anomaly_patterns.h"
#include "src/logs/reader.h"

namespace stepwatch::bench {
namespace {

constexpr size_t kBytes = size_t{4} << 20;

// '#' stands for a digit.
constexpr std::string_view kDull[] = {
    "2026-11-28 06:1#:## INFO dataset: loaded shard ### of 4096 in 0.### s (###.# MB/s)",
    "[rank#]:[I1128 06:1#:##.### ProcessGroupNCCL.cpp:9##] ProcessGroupNCCL broadcast unique ID through store took "
    "0.### ms",
    "gpu0##:1####:1#### [#] NCCL INFO Channel ##/0 : #[#] -> #[#] via P2P/CUMEM/read",
    "gpu0##:1####:1#### [#] NCCL INFO NET/IB : Using [0]mlx5_#:1/IB/SHARP [1]mlx5_#:1/IB/SHARP [RO]; OOB "
    "eth0:10.0.0.##<0>",
    "DEBUG:urllib3.connectionpool:https://tracking.example.org:443 \"POST /api/2.0/mlflow/runs/log-batch HTTP/1.1\" "
    "200 2",
    "2026-11-28 06:1#:##,### - filelock - DEBUG - Lock 1########## acquired on /data/cache/hub/.locks/models--x.lock",
    "/usr/lib/python3/site-packages/torch/utils/checkpoint.py:4##: UserWarning: use_reentrant should be passed "
    "explicitly",
    "Nov 28 06:1#:## node## systemd[1]: Started Session 1#### of user train.",
    "  warnings.warn(",
};
constexpr std::string_view kTrainer[] = {
    " iteration    12###/  500000 | consumed samples:      12####### | elapsed time per iteration (ms): 81#.# | "
    "learning rate: "
    "1.2##E-04 | global batch size:  1024 | lm loss: 2.###E+00 | loss scale: 1.0 | grad norm: 0.### | number of "
    "skipped "
    "iterations:   0 | number of nan iterations:   0 |",
    "step: 12###  loss:  2.####  grad_norm:  0.####  memory: 61.2#GiB(77.0#%)  tps: 8,###  tflops: 41#.##  mfu: 41.##%",
    "{'loss': 1.2###, 'grad_norm': 0.4###, 'learning_rate': 1.2#e-05, 'epoch': 0.##}",
    "Epoch 0:   6%|#6        | 3####/500150 [6:28:43<94:39:17,  1.37it/s, loss=2.6#, v_num=95]",
};
constexpr std::string_view kFaults[] = {
    "Traceback (most recent call last):\n  File \"/work/train.py\", line 1##, in <module>\n    main()\n"
    "  File \"/work/train.py\", line 9#, in step\n    loss.backward()\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.## GiB. GPU # has a total capacity of 79.1# GiB "
    "of which "
    "5##.## MiB is free.",
    "[rank#]:[E1118 20:32:23.955028747 ProcessGroupNCCL.cpp:616] [Rank #] Watchdog caught collective operation "
    "timeout: "
    "WorkNCCL(SeqNum=8##, OpType=ALLREDUCE, NumelIn=9#####, NumelOut=9#####, Timeout(ms)=600000) ran for 600020 "
    "milliseconds "
    "before timing out.",
};

template <size_t kCount>
void AddLine(const std::string_view (&templates)[kCount], std::mt19937* dice, std::vector<std::string>* lines) {
  std::string text(templates[(*dice)() % kCount]);
  for (char& c : text)
    if (c == '#') c = static_cast<char>('0' + (*dice)() % 10);
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines->push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

// Lines of a failure alone: the worst case, for some minutes.
std::vector<std::string> FaultLines() {
  std::mt19937 dice(2);
  std::vector<std::string> lines;
  while (lines.size() < 4000) AddLine(kFaults, &dice, &lines);
  return lines;
}

std::vector<std::string> MixedLines() {
  std::mt19937 dice(1);
  std::vector<std::string> lines;
  for (size_t bytes = 0, counted = 0; bytes < kBytes;) {
    const auto kind = dice() % 1000;
    if (kind < 850) {
      AddLine(kDull, &dice, &lines);
    } else if (kind < 995) {
      AddLine(kTrainer, &dice, &lines);
    } else {
      AddLine(kFaults, &dice, &lines);
    }
    for (; counted < lines.size(); ++counted) bytes += lines[counted].size() + 1;
  }
  return lines;
}

// The plainest program that finds the same patterns.
class BareSet {
 public:
  BareSet() : set_(Options(), RE2::UNANCHORED) {
    std::string error;
    for (const logs::Pattern& each : logs::AnomalyPatterns())
      if (set_.Add(re2::StringPiece(each.regex.data(), each.regex.size()), &error) < 0) throw std::runtime_error(error);
    if (!set_.Compile()) throw std::runtime_error("the set of patterns has no memory");
  }
  size_t Matches(const std::vector<std::string>& lines) {
    size_t matches = 0;
    for (const std::string& line : lines) {
      set_.Match(line, &matching_);
      matches += matching_.size();
    }
    return matches;
  }

 private:
  static RE2::Options Options() {
    RE2::Options options;
    options.set_encoding(RE2::Options::EncodingLatin1);
    options.set_max_mem(int64_t{64} << 20);
    return options;
  }
  RE2::Set set_;
  std::vector<int> matching_;
};

void Measure(int rounds, Report* report) {
  const std::vector<std::string> lines = MixedLines();
  size_t bytes = 0;
  for (const std::string& line : lines) bytes += line.size() + 1;
  BareSet bare;
  const logs::AnomalySet anomalies;
  const logs::Recogniser recogniser;
  Rounds turns(Clock::kThreadCpu);
  const size_t set = turns.Add([&] { Keep(bare.Matches(lines)); }, 1);
  const size_t search = turns.Add(
      [&] {
        std::vector<logs::Anomaly> found;
        for (const std::string& line : lines) anomalies.Find(line, {}, &found);
        Keep(found);
      },
      1);
  const size_t whole = turns.Add(
      [&] {
        logs::Reader reader(recogniser);
        std::vector<logs::Record> records;
        for (const std::string& line : lines) {
          reader.Add({.text = line}, &records);
          if (records.size() > 1000) records.clear();
        }
        Keep(records);
      },
      1);
  const std::vector<std::string> faults = FaultLines();
  const size_t fault_set = turns.Add([&] { Keep(bare.Matches(faults)); }, 1);
  const size_t fault_search = turns.Add(
      [&] {
        std::vector<logs::Anomaly> found;
        for (const std::string& line : faults) anomalies.Find(line, {}, &found);
        Keep(found);
      },
      1);
  turns.Run(rounds);
  const auto rate = [&](size_t action) {
    const Spread seconds = turns.SecondsOf(action);
    const auto mb_per_second = [&](double each) { return static_cast<double>(bytes) / 1e6 / each; };
    return Spread{mb_per_second(seconds.median), mb_per_second(seconds.high), mb_per_second(seconds.low)};
  };
  report->Fact("patterns", logs::AnomalyPatterns().size());
  report->Fact("lines", lines.size());
  report->Section("lines of a training's log, mixed; one thread");
  report->Figure("bare_re2_set_mb_per_s", rate(set), "MB/s", {},
                 "a loop of RE2::Set::Match with the patterns of the catalogue");
  report->Figure("anomalies_mb_per_s", rate(search), "MB/s", AtLeast(200), "AnomalySet::Find with facts and roles");
  report->Figure("reader_mb_per_s", rate(whole), "MB/s", {},
                 "lines to records: prefixes, exceptions, progress, anomalies");
  report->Ratio("anomalies_over_bare_set", turns.Ratio(set, search), Style::kTimes, AtLeast(0.5), "speed over speed");
  report->Ratio("reader_over_bare_set", turns.Ratio(set, whole), Style::kTimes, AtLeast(0.5), "speed over speed");
  report->Section("lines of failing ranks alone; one thread");
  const double per_line = 1e6 / static_cast<double>(faults.size());
  report->Figure("fault_bare_us", Scaled(turns.SecondsOf(fault_set), per_line), "us", {}, "a line, by the bare set");
  report->Figure("fault_us", Scaled(turns.SecondsOf(fault_search), per_line), "us", {}, "a line, with facts and roles");
}

}  // namespace
}  // namespace stepwatch::bench

int main(int argc, char** argv) try {
  int rounds = 11;
  std::string json;
  CLI::App app("The speed at which lines of logs are recognised.");
  app.add_option("--rounds", rounds, "how often each is timed")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--json", json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  stepwatch::bench::Report report;
  stepwatch::bench::Measure(rounds, &report);
  return json.empty() || report.WriteJson(json) ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "logs_bench: %s\n", error.what());
  return 1;
}
