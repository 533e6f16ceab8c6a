#include "src/logs/progress.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "src/json/loose_json.h"
#include "src/logs/scan.h"

namespace stepwatch::logs {
namespace {

constexpr size_t kNameBytesMax = 64;
constexpr size_t kNumbersUsual = 12;
constexpr size_t kFieldBytesMax = 256;  // read of a value; keeps the work for a line linear

struct UsualKey {
  std::string_view name;  // lower case
  std::string_view key;
  double factor = 1;
};

// Longer names first where one is the start of another is not needed: names are compared as a whole.
constexpr std::array kUsualKeys = {
    UsualKey{"loss", "loss"},
    UsualKey{"lm loss", "loss"},
    UsualKey{"lm_loss", "loss"},
    UsualKey{"train_loss", "loss"},
    UsualKey{"train loss", "loss"},
    UsualKey{"loss train", "loss"},
    UsualKey{"train_loss_step", "loss"},
    UsualKey{"reduced_train_loss", "loss"},
    UsualKey{"train/ce loss", "loss"},
    UsualKey{"average_loss", "average_loss"},
    UsualKey{"avg loss", "average_loss"},
    UsualKey{"val loss", "eval_loss"},
    UsualKey{"val_loss", "eval_loss"},
    UsualKey{"eval_loss", "eval_loss"},
    UsualKey{"lm loss value", "eval_loss"},
    UsualKey{"lm loss ppl", "eval_perplexity"},
    UsualKey{"grad norm", "grad_norm"},
    UsualKey{"grad_norm", "grad_norm"},
    UsualKey{"gradient_norm", "grad_norm"},
    UsualKey{"gnorm", "grad_norm"},
    UsualKey{"norm", "grad_norm"},
    UsualKey{"optim/total grad norm", "grad_norm"},
    UsualKey{"total grad norm", "grad_norm"},
    UsualKey{"learning rate", "lr"},
    UsualKey{"learning_rate", "lr"},
    UsualKey{"lr", "lr"},
    UsualKey{"optim/lr (group 0)", "lr"},
    UsualKey{"optim/lr", "lr"},
    UsualKey{"elapsed time per iteration (ms)", "step_seconds", 1e-3},
    UsualKey{"elapsed_time_per_iteration", "step_seconds", 1e-3},
    UsualKey{"train_step_timing in s", "step_seconds"},
    UsualKey{"iter time (s)", "step_seconds"},
    UsualKey{"iter time", "step_seconds"},
    UsualKey{"step time", "step_seconds"},
    UsualKey{"step_time", "step_seconds"},
    UsualKey{"step_seconds", "step_seconds"},
    UsualKey{"time", "step_seconds"},
    UsualKey{"loss scale", "loss_scale"},
    UsualKey{"loss_scale", "loss_scale"},
    UsualKey{"global batch size", "samples"},
    UsualKey{"global_batch_size", "samples"},
    UsualKey{"samples", "samples"},
    UsualKey{"tokens", "tokens"},
    UsualKey{"consumed samples", "consumed_samples"},
    UsualKey{"consumed tokens", "consumed_tokens"},
    UsualKey{"num_consumed_tokens", "consumed_tokens"},
    UsualKey{"samples per second", "samples_per_second"},
    UsualKey{"samples/sec", "samples_per_second"},
    UsualKey{"currsamplespersec", "samples_per_second"},
    UsualKey{"train_samples_per_second", "samples_per_second"},
    UsualKey{"throughput", "samples_per_second"},
    UsualKey{"tps", "tokens_per_second"},
    UsualKey{"wps", "tokens_per_second"},
    UsualKey{"tok/s", "tokens_per_second"},
    UsualKey{"tokens_per_second", "tokens_per_second"},
    UsualKey{"tgs (tokens/gpu/second)", "tokens_per_second"},
    UsualKey{"tgs", "tokens_per_second"},
    UsualKey{"tokens per gpu per second (tgs)", "tokens_per_second"},
    UsualKey{"throughput/device/tps", "tokens_per_second"},
    UsualKey{"throughput per gpu (tflop/s/gpu)", "tflops"},
    UsualKey{"tflops", "tflops"},
    UsualKey{"number of nan iterations", "nan_iterations"},
    UsualKey{"number of skipped iterations", "skipped_iterations"},
    UsualKey{"skipped", "skipped_iterations"},
    UsualKey{"inf_nan_skip_batches", "skipped_iterations"},
};

// Positions in kUsualKeys by a hash of the name, or of the next one that was free; 0xff: none.
constexpr size_t kUsualSlots = 256;

constexpr size_t SlotOf(std::string_view name) {
  const auto byte = [name](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(name[i])); };
  return (name.size() * 31 + byte(0) * 7 + byte(name.size() / 2) * 131 + byte(name.size() - 1) * 17) % kUsualSlots;
}

constexpr std::array<uint8_t, kUsualSlots> SlotsOfUsualKeys() {
  static_assert(kUsualKeys.size() < kUsualSlots / 2);
  std::array<uint8_t, kUsualSlots> slots{};
  slots.fill(0xff);
  for (size_t i = 0; i < kUsualKeys.size(); ++i) {
    size_t slot = SlotOf(kUsualKeys[i].name);
    while (slots[slot] != 0xff) slot = (slot + 1) % kUsualSlots;
    slots[slot] = static_cast<uint8_t>(i);
  }
  return slots;
}
constexpr std::array<uint8_t, kUsualSlots> kSlotsOfUsualKeys = SlotsOfUsualKeys();

// `lower` is not empty.
const UsualKey* FindUsualKey(std::string_view lower) {
  for (size_t slot = SlotOf(lower); kSlotsOfUsualKeys[slot] != 0xff; slot = (slot + 1) % kUsualSlots)
    if (const UsualKey& usual = kUsualKeys[kSlotsOfUsualKeys[slot]]; usual.name == lower) return &usual;
  return nullptr;
}

// Letters in lower case; what is neither letter nor digit becomes one underscore.
std::string PlainKey(std::string_view lower) {
  std::string key;
  for (const char c : lower) {
    if (scan::IsWordByte(c))
      key += c;
    else if (!key.empty() && key.back() != '_')
      key += '_';
  }
  while (!key.empty() && key.back() == '_') key.pop_back();
  return key;
}

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The unit directly after a number: "ms", "s", "%", ...
std::string_view UnitOf(std::string_view rest) {
  rest = scan::WithoutBlanksBefore(rest);
  size_t size = 0;
  while (size < rest.size() && (scan::IsAlpha(rest[size]) || rest[size] == '%' || rest[size] == '/')) ++size;
  return rest.substr(0, size);
}

// Reads `text`, the value of `name`, and adds it. A list in brackets counts with its first number.
void AddField(std::string_view name, std::string_view value, Progress* progress) {
  name = scan::Trimmed(name);
  if (name.empty() || name.size() > kNameBytesMax) return;
  value = scan::WithoutBlanksBefore(value.substr(0, kFieldBytesMax));
  if (scan::Take(&value, "[(") || scan::Take(&value, "[")) value = scan::WithoutBlanksBefore(value);
  if (value.starts_with('{')) {  // InternEvo: one norm for each group; the first group is the default one
    const size_t colon = value.find(':');
    if (colon == std::string_view::npos) return;
    value.remove_prefix(colon + 1);
  }
  const auto number = scan::TakeNumber(&value);
  if (!number) return;
  AddNumber(name, *number, UnitOf(value), progress);
}

std::optional<double> Value(const Progress& progress, std::string_view key) {
  for (const auto& [name, value] : progress.numbers)
    if (name == key) return value;
  return std::nullopt;
}

void Remove(std::string_view key, Progress* progress) {
  std::erase_if(progress->numbers, [key](const auto& entry) { return entry.first == key; });
}

// Moves a number that is the step.
void TakeStep(std::string_view key, Progress* progress) {
  const auto step = Value(*progress, key);
  if (!step) return;
  Remove(key, progress);
  if (std::isfinite(*step) && *step >= 0 && *step < 9e15) progress->step = static_cast<int64_t>(*step);
}

// "name: value | name: value".
void AddPiped(std::string_view text, Progress* progress) {
  while (!text.empty()) {
    const size_t bar = text.find('|');
    const std::string_view field = text.substr(0, bar);
    const size_t colon = field.find(':');
    if (colon != std::string_view::npos) AddField(field.substr(0, colon), field.substr(colon + 1), progress);
    if (bar == std::string_view::npos) return;
    text.remove_prefix(bar + 1);
  }
}

// "name=value, name=value" or "name: value  name: value". A name begins after a comma, a bar, a bracket that closed or
// two blanks, with `by_blanks` after one; it may contain single blanks otherwise.
void AddListed(std::string_view text, char between, bool by_blanks, Progress* progress) {
  size_t begin = 0;  // of the name
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '[' || c == '{' || c == '(') ++depth;
    if ((c == ']' || c == '}' || c == ')') && depth > 0) --depth;
    if (depth > 0) continue;
    if (c == ',' || c == '|' || c == '/' || (by_blanks && c == ' ') ||
        (c == ' ' && i + 1 < text.size() && text[i + 1] == ' ')) {
      const bool in_name = c == '/' && i > begin;  // loss/en
      if (!in_name) begin = i + 1;
      continue;
    }
    if (c != between) continue;
    std::string_view name = text.substr(begin, i - begin);
    AddField(name, text.substr(i + 1), progress);
    begin = i + 1;
  }
}

// Megatron's "iteration 10/ 100 | consumed samples: 640 | ...".
std::optional<Progress> MegatronIteration(std::string_view text) {
  Progress progress;
  text = scan::WithoutBlanksBefore(text);
  progress.step = scan::TakeWhole(&text);
  const size_t bar = text.find('|');
  if (!progress.step || bar == std::string_view::npos || !Has(text, "elapsed time per iteration")) return std::nullopt;
  AddPiped(text.substr(bar + 1), &progress);
  return progress;
}

// " validation loss at iteration 100 | lm loss value: 2.9E+00 | lm loss PPL: 18 |".
std::optional<Progress> MegatronValidation(std::string_view text) {
  Progress progress;
  progress.is_evaluation = true;
  text = scan::WithoutBlanksBefore(text);
  progress.step = scan::TakeWhole(&text);
  const size_t bar = text.find('|');
  if (!progress.step || bar == std::string_view::npos) return std::nullopt;
  Progress found;
  AddPiped(text.substr(bar + 1), &found);
  for (const auto& [key, value] : found.numbers)
    progress.numbers.emplace_back(key.starts_with("eval_") ? key : "eval_" + key, value);
  return progress;
}

// "iter 100: loss 2.3, time 12.3ms, mfu 4.5%" of nanoGPT: names and values with a blank between them.
std::optional<Progress> WordList(std::string_view text, Progress progress) {
  while (!text.empty()) {
    const size_t comma = text.find(", ");
    const std::string_view field = scan::Trimmed(text.substr(0, comma));
    const size_t blank = field.rfind(' ');
    if (blank != std::string_view::npos) AddField(field.substr(0, blank), field.substr(blank + 1), &progress);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 2);
  }
  if (progress.numbers.empty()) return std::nullopt;
  return progress;
}

std::optional<Progress> IterColon(std::string_view text) {
  Progress progress;
  progress.step = scan::TakeWhole(&text);
  if (!progress.step || !scan::Take(&text, ": ") || !text.starts_with("loss")) return std::nullopt;
  return WordList(text, std::move(progress));
}

// "step 1/19560 | loss 10.95 (+1.2z)| norm 15.3 (+1z)| lr 1.0e-06 | 1000.1 ms | 55.1% bf16 MFU | 52000 tok/s" of llm.c.
std::optional<Progress> BarredWords(std::string_view text, Progress progress) {
  while (!text.empty()) {
    const size_t bar = text.find('|');
    std::string_view field = scan::Trimmed(text.substr(0, bar));
    std::string_view value = field;
    if (const auto number = scan::TakeNumber(&value)) {
      const std::string_view unit = UnitOf(value);
      if (unit == "ms") AddNumber("step time", *number, unit, &progress);
      if (unit == "tok/s") AddNumber(unit, *number, {}, &progress);
      if (Has(value, "MFU")) AddNumber("mfu", *number, "%", &progress);
    } else if (const size_t blank = field.find(' '); blank != std::string_view::npos) {
      AddField(field.substr(0, blank), field.substr(blank + 1), &progress);
    }
    if (bar == std::string_view::npos) break;
    text.remove_prefix(bar + 1);
  }
  if (!Value(progress, "loss")) return std::nullopt;
  return progress;
}

// After "step" with a blank: nanoGPT's evaluation, or llm.c.
std::optional<Progress> StepAndBlank(std::string_view text) {
  Progress progress;
  text = scan::WithoutBlanksBefore(text);
  progress.step = scan::TakeWhole(&text);
  if (!progress.step) return std::nullopt;
  if (scan::Take(&text, ": train loss ")) {
    Progress found;
    const auto train = scan::TakeNumber(&text);
    if (!train || !scan::Take(&text, ", val loss ")) return std::nullopt;
    const auto validation = scan::TakeNumber(&text);
    if (!validation) return std::nullopt;
    progress.is_evaluation = true;
    progress.numbers = {{"eval_train_loss", *train}, {"eval_loss", *validation}};
    return progress;
  }
  if (scan::Take(&text, "/") && scan::TakeWhole(&text) && scan::Take(&text, " | ")) return BarredWords(text, progress);
  return std::nullopt;
}

// torchtitan's "step: 10  loss: 3.2  grad_norm: 1.2  memory: 10.5GiB(13.2%)  tps: 12,345".
std::optional<Progress> Titan(std::string_view text, bool is_evaluation) {
  Progress found;
  text = scan::WithoutBlanksBefore(text);
  found.step = scan::TakeWhole(&text);
  if (!found.step) return std::nullopt;
  AddListed(text, ':', false, &found);
  const auto loss = Value(found, "loss");
  if (!loss) return std::nullopt;
  if (!is_evaluation) return found;
  Progress progress{found.step, true, {}};
  for (const auto& [key, value] : found.numbers) progress.numbers.emplace_back("eval_" + key, value);
  return progress;
}

// "Step 100: loss=1.234, lr=1e-4, time=0.5s".
std::optional<Progress> StepColon(std::string_view text) {
  Progress progress;
  progress.step = scan::TakeWhole(&text);
  if (!progress.step || !scan::Take(&text, ": ")) return std::nullopt;
  AddListed(text, '=', false, &progress);
  if (progress.numbers.empty()) return std::nullopt;
  return progress;
}

// "step=10, skipped=0, lr=[0.0001], mom=[(0.9, 0.999)]" of DeepSpeed, and any other list that begins with the step.
std::optional<Progress> StepEquals(std::string_view text) {
  Progress progress;
  progress.step = scan::TakeWhole(&text);
  if (!progress.step) return std::nullopt;
  AddListed(text, '=', !Has(text, ", "), &progress);
  Remove("mom", &progress);
  const bool is_known = Value(progress, "loss") || Value(progress, "lr") || Value(progress, "grad_norm");
  if (!is_known) return std::nullopt;
  return progress;
}

// "steps: 10 loss: 2.3456 iter time (s): 0.512 samples/sec: 31.25" of DeepSpeed's pipelines.
std::optional<Progress> Pipeline(std::string_view text) {
  Progress progress;
  text = scan::WithoutBlanksBefore(text);
  progress.step = scan::TakeWhole(&text);
  if (!progress.step || !scan::Take(&text, " loss: ")) return std::nullopt;
  AddField("loss", text, &progress);
  for (const std::string_view name : {"iter time (s)", "samples/sec"}) {
    const size_t place = text.find(name);
    if (place == std::string_view::npos) continue;
    std::string_view value = text.substr(place + name.size());
    if (scan::Take(&value, ":")) AddField(name, value, &progress);
  }
  return progress;
}

// InternEvo's "tflops=63.2 step=0 loss=11.6 tgs (tokens/gpu/second)=1424.64 ...", with blanks or commas between fields.
std::optional<Progress> InternEvo(std::string_view text) {
  if (!Has(text, "step=")) return std::nullopt;
  Progress progress;
  const bool by_commas = Has(text.substr(0, 64), ",");
  // With blanks, this name has one inside.
  constexpr std::string_view kRate = "tgs (tokens/gpu/second)=";
  const size_t rate = text.find(kRate);
  if (!by_commas && rate != std::string_view::npos) {
    AddListed(text.substr(0, rate), '=', true, &progress);
    AddField("tgs", text.substr(rate + kRate.size()), &progress);
    AddListed(text.substr(rate + kRate.size()), '=', true, &progress);
  } else {
    AddListed(text, '=', !by_commas, &progress);
  }
  TakeStep("step", &progress);
  if (!progress.step || progress.numbers.size() < 2) return std::nullopt;
  return progress;
}

// "epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=220.7, CurrSamplesPerSec=222.9, ..." of DeepSpeed.
std::optional<Progress> DeepSpeedTimer(std::string_view text) {
  constexpr std::string_view kStep = "/global_step=";
  const size_t place = text.find(kStep);
  if (place == std::string_view::npos || !Has(text, "SamplesPerSec=")) return std::nullopt;
  Progress progress;
  text.remove_prefix(place + kStep.size());
  progress.step = scan::TakeWhole(&text);
  if (!progress.step) return std::nullopt;
  AddListed(text, '=', false, &progress);
  return progress;
}

// "Training epoch 0, iteration 9/99 | lr: 3e-05 | global_step: 9 | reduced_train_loss: 1.2 | ..." of NeMo.
std::optional<Progress> Nemo(std::string_view text) {
  Progress progress;
  const size_t bar = text.find('|');
  if (bar == std::string_view::npos) return std::nullopt;
  AddPiped(text.substr(bar + 1), &progress);
  Remove("eval_loss", &progress);  // repeated from the last evaluation
  TakeStep("global_step", &progress);
  if (!progress.step || progress.numbers.empty()) return std::nullopt;
  return progress;
}

// "Epoch 4 | iter 961 step 961 | loss train: 1.062, val: 1.057 | iter time: 529.46 ms (step)" of litgpt.
std::optional<Progress> LitGpt(std::string_view text) {
  const size_t place = text.find(" step ");
  if (place == std::string_view::npos) return std::nullopt;
  Progress progress;
  text.remove_prefix(place + 6);
  progress.step = scan::TakeWhole(&text);
  const size_t bar = text.find('|');
  if (!progress.step || bar == std::string_view::npos) return std::nullopt;
  AddPiped(text.substr(bar + 1), &progress);
  if (!Value(progress, "loss")) return std::nullopt;
  return progress;
}

// The forms that begin with an epoch, after "Epoch" with a colon: a batch has no step of the run, so none is set.
std::optional<Progress> EpochColon(std::string_view text) {
  Progress progress;
  text = scan::WithoutBlanksBefore(text);
  const auto epoch = scan::TakeWhole(&text);
  if (!epoch || !scan::Take(&text, ",")) return std::nullopt;
  progress.numbers.emplace_back("epoch", static_cast<double>(*epoch));
  AddListed(text, ':', false, &progress);
  if (!Value(progress, "loss")) return std::nullopt;
  return progress;
}

// "Epoch 1 completed: Avg Loss: 2.3450, Time: 12.30s".
std::optional<Progress> EpochCompleted(int64_t epoch, std::string_view text) {
  Progress progress;
  AddListed(text, ':', false, &progress);
  const auto loss = Value(progress, "average_loss");
  const auto seconds = Value(progress, "step_seconds");
  if (!loss) return std::nullopt;
  progress.numbers = {{"epoch", static_cast<double>(epoch)}, {"average_loss", *loss}};
  if (seconds) progress.numbers.emplace_back("epoch_seconds", *seconds);
  return progress;
}

std::optional<Progress> Epoch(std::string_view text) {
  if (scan::Take(&text, ":")) return EpochColon(text);
  if (!scan::Take(&text, " ")) return std::nullopt;
  const auto epoch = scan::TakeWhole(&text);
  if (!epoch) return std::nullopt;
  if (scan::Take(&text, " completed: ")) return EpochCompleted(*epoch, text);
  if (scan::Take(&text, " | iter ")) return LitGpt(text);
  return std::nullopt;
}

// The dictionary of the Hugging Face Trainer: {'loss': 1.52, 'grad_norm': 82.9, 'learning_rate': 1.4e-06, 'epoch':
// 0.01}; transformers 5 quotes the numbers. It has no step.
std::optional<Progress> HuggingFace(std::string_view text) {
  Progress progress;
  bool has_evaluation = false;
  while (!text.empty() && text.front() != '}') {
    text = scan::WithoutBlanksBefore(text);
    if (!scan::Take(&text, "'")) break;
    const size_t quote = text.find('\'');
    if (quote == std::string_view::npos) break;
    const std::string_view name = text.substr(0, quote);
    text.remove_prefix(quote + 1);
    if (!scan::Take(&text, ":")) break;
    has_evaluation = has_evaluation || name.starts_with("eval_");
    if (name == "train_runtime") return std::nullopt;  // the summary of the whole run
    // An evaluation keeps its own names.
    const size_t comma = text.find(',');
    AddField(name, text.substr(0, comma), &progress);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  progress.is_evaluation = has_evaluation;
  TakeStep("step", &progress);
  const bool is_known = Value(progress, "loss") || has_evaluation || Value(progress, "grad_norm");
  if (!is_known) return std::nullopt;
  return progress;
}

// OLMo-core's "[step=10/1000,epoch=1,eta=1:02:03]" and the lines "    name=number" after it.
std::optional<Progress> Olmo(std::string_view text) {
  Progress progress;
  progress.step = scan::TakeWhole(&text);
  if (!progress.step || !scan::Take(&text, "/") || !Has(text.substr(0, 64), ",epoch=")) return std::nullopt;
  while (true) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
    const std::string_view field = text.substr(0, text.find('\n'));
    const size_t equals = field.rfind('=');
    if (equals != std::string_view::npos) AddField(field.substr(0, equals), field.substr(equals + 1), &progress);
  }
  return progress;
}

void AddJsonNumbers(const Json& object, Progress* progress) {
  for (const auto& [name, value] : object.items()) {
    if (progress->numbers.size() >= kNumbersMax) return;
    if (name.size() > kNameBytesMax || name == "rank" || name == "local_rank" || name == "timestamp") continue;
    if (name.find('.') != std::string::npos) continue;  // event.severity and the like
    if (!value.is_number() && !value.is_string()) continue;
    if (const auto number = json::LooseNumber(value)) AddNumber(name, *number, {}, progress);
  }
}

}  // namespace

void AddNumber(std::string_view name, double number, std::string_view unit, Progress* progress) {
  if (name.empty() || name.size() > kNameBytesMax || progress->numbers.size() >= kNumbersMax) return;
  char lower[kNameBytesMax];
  std::transform(name.begin(), name.end(), lower, scan::Lower);
  const std::string_view plain(lower, name.size());
  const UsualKey* usual = FindUsualKey(plain);
  if (usual == nullptr && !std::isfinite(number)) return;
  double factor = usual == nullptr ? 1 : usual->factor;
  if (unit == "ms" && usual != nullptr && usual->key == "step_seconds" && factor == 1) factor = 1e-3;
  std::string key(usual == nullptr ? PlainKey(plain) : std::string(usual->key));
  if (key == "mfu") {
    key = "mfu_ratio";
    if (unit.starts_with('%')) factor = 0.01;
  }
  if (key.empty() || Value(*progress, key)) return;
  if (progress->numbers.empty()) progress->numbers.reserve(kNumbersUsual);
  progress->numbers.emplace_back(std::move(key), number * factor);
}

std::optional<Progress> FindProgress(std::string_view message) {
  std::string_view text = scan::WithoutBlanksBefore(message);
  if (text.size() < 8) return std::nullopt;
  switch (text.front()) {
    case 'i':
      if (scan::Take(&text, "iteration ")) {
        std::optional<Progress> megatron = MegatronIteration(text);
        return megatron ? megatron : IterColon(text);
      }
      return scan::Take(&text, "iter ") ? IterColon(text) : std::nullopt;
    case 's':
      if (scan::Take(&text, "step: ")) return Titan(text, false);
      if (scan::Take(&text, "step=")) return StepEquals(text);
      if (scan::Take(&text, "steps: ")) return Pipeline(text);
      if (scan::Take(&text, "step ")) return StepAndBlank(text);
      return std::nullopt;
    case 'S': return scan::Take(&text, "Step ") ? StepColon(text) : std::nullopt;
    case 't': return text.starts_with("tflops=") ? InternEvo(text) : std::nullopt;
    case 'T': return scan::Take(&text, "Training epoch ") ? Nemo(text) : std::nullopt;
    case 'e': return text.starts_with("epoch=") ? DeepSpeedTimer(text) : std::nullopt;
    case 'E': return scan::Take(&text, "Epoch") ? Epoch(text) : std::nullopt;
    case '{': return text.starts_with("{'") ? HuggingFace(text.substr(1)) : std::nullopt;
    case '[': return scan::Take(&text, "[step=") ? Olmo(text) : std::nullopt;
    case 'v':
      if (scan::Take(&text, "validation loss at iteration ")) return MegatronValidation(text);
      if (scan::Take(&text, "validate step: ")) return Titan(text, true);
      return std::nullopt;
    default: return std::nullopt;
  }
}

std::optional<Progress> FindJsonProgress(const Json& object) {
  if (!object.is_object()) return std::nullopt;
  Progress progress;
  AddJsonNumbers(object, &progress);
  for (const char* name : {"metrics", "progress"})
    if (const auto part = object.find(name); part != object.end() && part->is_object())
      AddJsonNumbers(*part, &progress);
  for (const char* key : {"total_steps", "iteration", "global_step", "step"}) TakeStep(key, &progress);
  const bool has_evaluation = Value(progress, "eval_loss").has_value();
  const bool is_known =
      has_evaluation || Value(progress, "loss") || Value(progress, "average_loss") || Value(progress, "grad_norm");
  if (!is_known) return std::nullopt;
  const auto stated = object.find("is_evaluation");
  progress.is_evaluation = has_evaluation || (stated != object.end() && *stated == true);
  return progress;
}

std::optional<ProgressBar> FindProgressBar(std::string_view line) {
  constexpr size_t kLabelBytesMax = 80;
  const size_t percent = line.substr(0, kLabelBytesMax).find("%|");
  if (percent == std::string_view::npos || percent == 0 || !scan::IsDigit(line[percent - 1])) return std::nullopt;
  size_t number = percent;
  while (number > 0 && scan::IsDigit(line[number - 1])) --number;
  ProgressBar bar;
  bar.label = scan::Trimmed(line.substr(0, number));
  if (bar.label.ends_with(':')) bar.label.remove_suffix(1);
  std::string_view text = line.substr(percent + 2);
  const size_t end = text.find("| ");
  if (end == std::string_view::npos) return std::nullopt;
  text = scan::WithoutBlanksBefore(text.substr(end + 2));
  const auto done = scan::TakeWhole(&text);
  if (!done) return std::nullopt;
  bar.done = *done;
  if (scan::Take(&text, "/")) bar.total = scan::TakeWhole(&text).value_or(0);
  const size_t open = text.find('[');
  if (open == std::string_view::npos || open > 4) return std::nullopt;
  const size_t close = text.find(']', open);
  const std::string_view inside = text.substr(open + 1, close == std::string_view::npos ? close : close - open - 1);
  // "00:10<03:20, 4.73it/s, loss=3.1": the list begins after the second comma.
  if (const size_t first = inside.find(", "); first != std::string_view::npos)
    if (const size_t second = inside.find(", ", first + 2); second != std::string_view::npos)
      bar.postfix = inside.substr(second + 2);
  if (close != std::string_view::npos) bar.rest = text.substr(close + 1);
  return bar;
}

std::optional<Progress> ProgressOfBar(const ProgressBar& bar) {
  std::string_view label = bar.label;
  if (!scan::Take(&label, "Epoch ")) return std::nullopt;
  const auto epoch = scan::TakeWhole(&label);
  if (!epoch) return std::nullopt;
  Progress progress;
  AddListed(bar.postfix, '=', false, &progress);
  Remove("v_num", &progress);
  TakeStep("global_step", &progress);
  if (progress.numbers.empty()) return std::nullopt;
  if (!progress.step && bar.total > 0 && *epoch < 1000000 && bar.done > 0 && bar.total < 1000000000000)
    progress.step = *epoch * bar.total + bar.done - 1;
  return progress;
}

}  // namespace stepwatch::logs
