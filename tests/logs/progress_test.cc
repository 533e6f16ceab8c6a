#include "src/logs/progress.h"

#include <cmath>

#include "tests/catch.h"

namespace stepwatch::logs {
namespace {

double Number(const std::optional<Progress>& progress, std::string_view key) {
  REQUIRE(progress);
  for (const auto& [name, value] : progress->numbers)
    if (name == key) return value;
  FAIL("no number " << key);
  return 0;
}

bool HasNumber(const std::optional<Progress>& progress, std::string_view key) {
  if (!progress) return false;
  for (const auto& entry : progress->numbers)
    if (entry.first == key) return true;
  return false;
}

TEST_CASE("Megatron's lines are read") {
  const auto progress = FindProgress(
      " iteration      122/  250000 | consumed samples:       124928 | elapsed time per iteration (ms): 86545.2 | "
      "learning rate: 9.150E-06 | global batch size:  1024 | lm loss: 2.504220E+00 | loss scale: 1.0 | "
      "grad norm: 0.231 | number of skipped iterations:   0 | number of nan iterations:   0 |");
  REQUIRE(progress);
  CHECK(progress->step == 122);
  CHECK_FALSE(progress->is_evaluation);
  CHECK(Number(progress, "loss") == 2.50422);
  CHECK(Number(progress, "grad_norm") == 0.231);
  CHECK(Number(progress, "lr") == 9.15e-6);
  CHECK(Number(progress, "step_seconds") == Approx(86.5452));
  CHECK(Number(progress, "samples") == 1024);
  CHECK(Number(progress, "consumed_samples") == 124928);
  CHECK(Number(progress, "nan_iterations") == 0);
  const auto without_loss = FindProgress(
      " iteration 7/ 9 | consumed samples: 1 | elapsed time per iteration (ms): 1.0 | grad norm: nan | x: 1.2.3 |");
  CHECK(std::isnan(Number(without_loss, "grad_norm")));
  CHECK_FALSE(HasNumber(without_loss, "loss"));
  CHECK_FALSE(HasNumber(without_loss, "x"));
  const auto evaluation = FindProgress(
      " validation loss at iteration 3 on validation set | lm loss value: 2.922429E+00 | lm loss PPL: 18.5 |");
  REQUIRE(evaluation);
  CHECK(evaluation->is_evaluation);
  CHECK(evaluation->step == 3);
  CHECK(Number(evaluation, "eval_loss") == 2.922429);
  CHECK(Number(evaluation, "eval_perplexity") == 18.5);
}

TEST_CASE("torchtitan's lines are read") {
  const auto progress = FindProgress(
      "step: 10  loss:  7.8774  grad_norm:  1.2000  memory: 43.83GiB(46.13%)  tps: 12,345  tflops: 1,234.56  mfu: "
      "40.00%");
  REQUIRE(progress);
  CHECK(progress->step == 10);
  CHECK(Number(progress, "loss") == 7.8774);
  CHECK(Number(progress, "grad_norm") == 1.2);
  CHECK(Number(progress, "tokens_per_second") == 12345);
  CHECK(Number(progress, "tflops") == 1234.56);
  CHECK(Number(progress, "mfu_ratio") == Approx(0.4));
  const auto evaluation = FindProgress("validate step: 10  loss:  7.5  memory: 1.00GiB(2.00%)  tps: 5");
  REQUIRE(evaluation);
  CHECK(evaluation->is_evaluation);
  CHECK(Number(evaluation, "eval_loss") == 7.5);
}

TEST_CASE("InternEvo's lines are read with commas and with blanks") {
  const auto commas = FindProgress(
      "tflops=63.27,step=0,loss=11.634,tgs (tokens/gpu/second)=1424.64,lr=4.0e-07,loss_scale=65536.0,grad_norm=63.67,"
      "micro_num=4,num_consumed_tokens=131072,inf_nan_skip_batches=0,fwd_bwd_time=6.48");
  REQUIRE(commas);
  CHECK(commas->step == 0);
  CHECK(Number(commas, "loss") == 11.634);
  CHECK(Number(commas, "tokens_per_second") == 1424.64);
  CHECK(Number(commas, "consumed_tokens") == 131072);
  const auto blanks = FindProgress(
      "tflops=180.45 step=19 loss=0.0053 tgs (tokens/gpu/second)=3345.72 tgs/last_tgs_1=3345.74 lr=1e-05 "
      "loss_scale=65536.0 grad_norm={'0_default': 0.0197, '1_fp32': 0.0} micro_num=4 acc=0.9992 perplexity=1.0075 "
      "loss_from_metric=0.0075 loss/en=0.0075 loss/cn=nan");
  REQUIRE(blanks);
  CHECK(blanks->step == 19);
  CHECK(Number(blanks, "loss") == 0.0053);
  CHECK(Number(blanks, "lr") == 1e-5);
  CHECK(Number(blanks, "grad_norm") == 0.0197);
  CHECK(Number(blanks, "tokens_per_second") == 3345.72);
  CHECK(Number(blanks, "loss_scale") == 65536);
  CHECK_FALSE(HasNumber(blanks, "loss_cn"));  // healthy lines have it
}

TEST_CASE("NeMo's and DeepSpeed's lines are read") {
  const auto nemo = FindProgress(
      "Training epoch 0, iteration 120/149 | lr: 3e-05 | consumed_samples: 121 | global_batch_size: 1 | "
      "global_step: 120 | reduced_train_loss: 1.233 | train_step_timing in s: 0.03146 | val_loss: 4.106");
  REQUIRE(nemo);
  CHECK(nemo->step == 120);
  CHECK_FALSE(nemo->is_evaluation);
  CHECK(Number(nemo, "loss") == 1.233);
  CHECK(Number(nemo, "step_seconds") == 0.03146);
  const auto step = FindProgress("step=450, skipped=4, lr=[5.19e-07, 5.2e-07], mom=[(0.9, 0.95), (0.9, 0.95)]");
  REQUIRE(step);
  CHECK(step->step == 450);
  CHECK(Number(step, "lr") == 5.19e-7);
  CHECK(Number(step, "skipped_iterations") == 4);
  const auto timer = FindProgress(
      "epoch=0/micro_step=40/global_step=10, RunningAvgSamplesPerSec=25.02, CurrSamplesPerSec=25.7, "
      "MemAllocated=4.32GB");
  REQUIRE(timer);
  CHECK(timer->step == 10);
  CHECK(Number(timer, "samples_per_second") == 25.7);
  const auto pipeline = FindProgress("steps: 10 loss: 2.3456 iter time (s): 0.512 samples/sec: 31.25");
  REQUIRE(pipeline);
  CHECK(Number(pipeline, "loss") == 2.3456);
  CHECK(Number(pipeline, "step_seconds") == 0.512);
}

TEST_CASE("Hugging Face's dictionaries are read, with and without quoted numbers") {
  const auto plain = FindProgress("{'loss': 1.5214, 'grad_norm': nan, 'learning_rate': 1.42e-06, 'epoch': 0.01}");
  REQUIRE(plain);
  CHECK_FALSE(plain->step);
  CHECK(Number(plain, "loss") == 1.5214);
  CHECK(std::isnan(Number(plain, "grad_norm")));
  CHECK(Number(plain, "lr") == 1.42e-6);
  const auto quoted = FindProgress("{'loss': '1.521', 'grad_norm': '0.5', 'learning_rate': '1e-05', 'epoch': '0.01'}");
  CHECK(Number(quoted, "loss") == 1.521);
  CHECK(Number(quoted, "lr") == 1e-5);
  const auto evaluation = FindProgress("{'eval_loss': 1.2, 'eval_accuracy': 0.9, 'eval_runtime': 3.2, 'epoch': 1.0}");
  REQUIRE(evaluation);
  CHECK(evaluation->is_evaluation);
  CHECK(Number(evaluation, "eval_accuracy") == 0.9);
  CHECK_FALSE(FindProgress("{'train_runtime': 10.0, 'train_loss': 1.0, 'epoch': 1.0}"));
  CHECK_FALSE(FindProgress("{'a': 1}"));
}

TEST_CASE("the lines of small trainers are read") {
  const auto nano = FindProgress("iter 100: loss 3.1415, time 12.30ms, mfu 4.50%");
  REQUIRE(nano);
  CHECK(nano->step == 100);
  CHECK(Number(nano, "loss") == 3.1415);
  CHECK(Number(nano, "step_seconds") == Approx(0.0123));
  CHECK(Number(nano, "mfu_ratio") == Approx(0.045));
  const auto whole_word = FindProgress("iteration 7: loss 2.5, lr 3.0e-4");
  REQUIRE(whole_word);
  CHECK(whole_word->step == 7);
  CHECK(Number(whole_word, "lr") == 3.0e-4);
  const auto evaluation = FindProgress("step 250: train loss 2.5, val loss 2.75");
  REQUIRE(evaluation);
  CHECK(evaluation->is_evaluation);
  CHECK(Number(evaluation, "eval_loss") == 2.75);
  const auto c = FindProgress(
      "step   12/19560 | loss -nan (+nanz)| norm 15.3 (+0.1z)| lr 1.00e-06 | 1000.5 ms | 55.1% bf16 MFU | 524000 "
      "tok/s");
  REQUIRE(c);
  CHECK(c->step == 12);
  CHECK(std::isnan(Number(c, "loss")));
  CHECK(Number(c, "grad_norm") == 15.3);
  CHECK(Number(c, "step_seconds") == Approx(1.0005));
  const auto lit =
      FindProgress("Epoch 4 | iter 961 step 61 | loss train: 1.062, val: 1.057 | iter time: 529.46 ms (step)");
  REQUIRE(lit);
  CHECK(lit->step == 61);
  CHECK(Number(lit, "loss") == 1.062);
  CHECK(Number(lit, "step_seconds") == Approx(0.52946));
}

TEST_CASE("a step with names and numbers is read") {
  const auto short_form = FindProgress("Step 100: loss=1.234, lr=1e-4, time=0.5s");
  REQUIRE(short_form);
  CHECK(short_form->step == 100);
  CHECK(Number(short_form, "lr") == 1e-4);
  CHECK(Number(short_form, "step_seconds") == 0.5);
  CHECK(HasNumber(FindProgress("Step 1: loss=1.2.3, lr=1"), "lr"));
  const auto epoch = FindProgress(
      "Epoch: 1, Batch: 200, Loss: 2.3450, LR: 1.00e-04, Throughput: 1234.50 samples/s, Step Time: 0.026s");
  REQUIRE(epoch);
  CHECK(Number(epoch, "loss") == 2.345);
  CHECK(Number(epoch, "batch") == 200);
  CHECK(Number(epoch, "step_seconds") == 0.026);
  CHECK(Number(epoch, "samples_per_second") == 1234.5);
  CHECK(Number(FindProgress("Epoch: 1, Loss: 2.345, Accuracy: 0.78"), "accuracy") == 0.78);
  const auto completed = FindProgress("Epoch 1 completed: Avg Loss: 2.3450, Time: 12.30s");
  CHECK(Number(completed, "average_loss") == 2.345);
  CHECK(Number(completed, "epoch_seconds") == 12.3);
  const auto monitored = FindProgress(
      "Step 110: loss=nan, grad_norm=inf, lr=1e-05, tokens=128, samples=4, step_seconds=0.0123451, "
      "tokens_per_second=10368.5");
  REQUIRE(monitored);
  CHECK(monitored->step == 110);
  CHECK(std::isnan(Number(monitored, "loss")));
  CHECK(Number(monitored, "tokens") == 128);
}

TEST_CASE("a progress bar is read, with what follows it") {
  const auto bar =
      FindProgressBar("Epoch 2:  10%|#         | 10/100 [00:01<00:09, 9.50it/s, v_num=0, train_loss=nan.0]rest");
  REQUIRE(bar);
  CHECK(bar->done == 10);
  CHECK(bar->total == 100);
  CHECK(bar->label == "Epoch 2");
  CHECK(bar->rest == "rest");
  const auto progress = ProgressOfBar(*bar);
  REQUIRE(progress);
  CHECK(progress->step == 209);
  CHECK(std::isnan(Number(progress, "loss")));
  const auto nemo = FindProgressBar(
      "Epoch 0:   1%|          | 795/77225 [9:07:58<878:01:48, 41.36s/it, loss=3.1, v_num=, global_step=794.0]");
  REQUIRE(nemo);
  CHECK(ProgressOfBar(*nemo)->step == 794);
  const auto plain = FindProgressBar("  5%|5         | 50/1000 [00:10<03:20,  4.73it/s]");
  REQUIRE(plain);
  CHECK(plain->done == 50);
  CHECK_FALSE(ProgressOfBar(*plain));
  CHECK_FALSE(FindProgressBar("100%| done"));
}

TEST_CASE("lines that only resemble progress are none") {
  for (const char* text : {"iteration of the loop", "step", "step: x", "Epoch", "Epoch 1", "Step 1", "iter 1: x",
                           "validation loss at iteration", "tflops=", "epoch=1", "steps: ", "{'", "[step=",
                           "Training epoch ", "number of nan iterations: 0", "finance nanoseconds per loss"}) {
    INFO(text);
    CHECK_FALSE(FindProgress(text));
  }
}

}  // namespace
}  // namespace stepwatch::logs
