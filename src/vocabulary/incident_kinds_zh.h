// The texts of incident_kinds.h in Chinese.
#pragma once

#include <iterator>
#include <string_view>

#include "src/vocabulary/incident_kinds.h"

namespace stepwatch::vocabulary {

struct IncidentKindTextZh {
  std::string_view name;
  std::string_view meaning;
  std::string_view advice;
};

// In the order of kIncidentKindTexts.
inline constexpr IncidentKindTextZh kIncidentKindTextsZh[] = {
    {"stuck", "训练没有进展",
     "查看堆栈（--stacks）：主线程不在集合通信中的 rank 阻塞了其他 rank。状态为 T 的进程已被暂停：kill -CONT PID。"
     "若没有这样的 rank：检查网络、文件系统以及所指 rank 的设备。"},
    {"process_lost", "进程未报告结束就消失了",
     "查看该 rank 输出的末尾、dmesg（OOM 终止、设备故障）以及调度器中的作业记录。从检查点重新启动训练。"},
    {"loss_nonfinite", "loss 为 NaN 或无穷大",
     "回到该 step 之前的检查点，从那里开始用 `nans` 采集 `actv` 和 `grad_unreduced`：最先出现 NaN 的模块就是原因。"
     "检查该 step 的数据和 loss scale。"},
    {"loss_spike", "loss 突增",
     "如果几百个 step 内没有恢复，回到检查点并跳过这段数据，或降低学习率。逐层比较梯度：stepwatch top --kind "
     "grad_reduced --sort norm。"},
    {"divergence", "loss 持续上升", "检查最近的改动、学习率，以及各层梯度和权重的范数；回到上升之前的检查点。"},
    {"grad_nonfinite", "梯度范数为 NaN 或无穷大",
     "有 loss scale 时检查它是否持续下降；没有时用 `nans` 采集 `grad_unreduced`，按反向顺序最先出现 NaN "
     "的模块就是原因。若只有一个 rank 受影响：检查它的数据或设备。"},
    {"grad_explosion", "梯度爆炸",
     "找出是哪一层：stepwatch top --kind grad_reduced --sort norm。是否启用了梯度裁剪？那个 batch 里有什么数据？"},
    {"grad_collapse", "梯度消失",
     "loss 是否被完全屏蔽，参数是否被冻结，学习率是否为 0？找出从哪一层开始：stepwatch top --kind grad_reduced --sort "
     "norm --reverse。"},
    {"throughput_drop", "训练变慢",
     "序列或 batch 是否变大？评估、检查点或数据加载是否更久？比较各设备的温度和频率，以及各 rank 的单步时间。"},
    {"straggler", "有 rank 比其他 rank 慢",
     "检查该 rank 的设备（温度、频率、错误）、所在主机上的其他进程以及数据加载。其他 rank 每一步都在等它。"},
    {"rank_disagreement", "各 rank 的数值不一致",
     "权重可能已经不同：用统计量 `id` 比较各 rank 的 `param_origin`。检查是否有显存出错的设备、配置不同的 "
     "rank，或切分错误的数据。"},
    {"checkpoint_overdue", "检查点逾期",
     "文件系统是否已满或变慢？写入进程是否卡住？在下一个检查点之前重新启动，会丢失此后的所有 step。"},
    {"exception", "有 rank 抛出异常", "查看最先失败的 rank 的堆栈（--stacks）；其他 rank 关于连接关闭的错误由它引起。"},
    {"out_of_memory", "内存或显存不足",
     "主机：数据加载进程、锁页内存、每一步都保留下来的张量；dmesg 会给出被终止的进程。设备：batch "
     "大小、序列长度、碎片（PYTORCH_CUDA_ALLOC_CONF）。"},
    {"gpu_fault", "设备报告故障",
     "查看 nvidia-smi -q -i UUID，以及 dmesg 中的 Xid。如果再次出现，重启训练前把该主机移出作业。"},
};
static_assert(std::size(kIncidentKindTextsZh) == std::size(kIncidentKindTexts));

}  // namespace stepwatch::vocabulary
