// The table of all classes, in the order of the documentation (docs/formats/log_anomalies.md).
#include <algorithm>
#include <span>
#include <string_view>

#include "src/logs/anomalies.h"
#include "src/vocabulary/incident_kinds.h"

namespace stepwatch::logs {
namespace {

constexpr auto kInfo = vocabulary::Severity::kInfo;
constexpr auto kWarning = vocabulary::Severity::kWarning;
constexpr auto kCritical = vocabulary::Severity::kCritical;
using enum Role;
using enum Origin;

constexpr AnomalyClass kClasses[] = {
    // Devices and hosts.
    {"gpu_hw_fault", kCritical, kRoot, kHost, "a GPU reported a fault of its hardware or firmware",
     "GPU 硬件或固件故障", "Drain the node, reset the GPU, run its diagnostics; restart elsewhere.",
     "隔离节点,复位 GPU 并运行诊断;在其他节点上重启训练。"},
    {"gpu_lost", kCritical, kRoot, kHost, "a GPU has disappeared from the bus", "GPU 从总线上掉线",
     "Only a reboot brings it back; check power, temperature and seating before the node is used again.",
     "通常只有重启节点才能恢复;再次使用前检查供电、温度和插槽。"},
    {"ecc_uncorrectable", kCritical, kRoot, kHost, "uncorrectable memory error of a GPU", "GPU 显存出现不可纠正的错误",
     "Reset the GPU so that the row is remapped. A GPU that repeats it needs replacement.",
     "复位 GPU 以触发行重映射;若反复出现则更换 GPU。"},
    {"ecc_repaired", kInfo, kNotice, kHost, "a GPU repaired its memory", "GPU 已自行修复显存",
     "The job goes on. Reset the GPU at the next opportunity; watch for repetition.",
     "任务可继续;择机复位 GPU,留意是否重复。"},
    {"row_remap_fail", kCritical, kRoot, kHost, "a GPU failed to remap a row of its memory", "GPU 显存行重映射失败",
     "Replace the GPU: it has no spare rows.", "备用行已用尽,更换 GPU。"},
    {"nvlink_error", kCritical, kRoot, kHost, "fault of a link between GPUs", "GPU 间链路(NVLink)故障",
     "Check the named link and the fabric manager; reset all GPUs of the node.",
     "检查对应链路与 fabric manager,复位该节点所有 GPU。"},
    {"xid_app", kWarning, kRoot, kHost, "the driver stopped a program on a GPU", "驱动终止了 GPU 上的程序",
     "Usually a fault of the program: read its error first. The GPU is suspect if several programs fail on it.",
     "多为程序自身错误:先看程序报错;若同一 GPU 上多个程序失败则怀疑硬件。"},
    {"thermal_throttle", kWarning, kSymptom, kHost, "a device is hot and slowed down", "设备过热降频",
     "Check cooling and power of the node. One throttled GPU slows all ranks.",
     "检查节点散热与供电;一块降频的 GPU 会拖慢所有 rank。"},
    {"pcie_aer", kCritical, kRoot, kHost, "uncorrectable error of PCIe", "PCIe 不可纠正错误",
     "Identify the device by its address; reseat or replace it.", "按地址确认设备,重新插拔或更换。"},
    {"host_memory_error", kWarning, kRoot, kHost, "memory error of the host", "主机内存错误",
     "Read the machine check records; replace the named module when errors repeat.",
     "查看 MCE/EDAC 记录;若重复出现则更换对应内存条。"},
    {"node_fail", kCritical, kRoot, kHost, "a node failed", "节点故障",
     "Look at the node's console and the scheduler's record; restart without it.",
     "查看节点控制台与调度器记录;排除该节点后重启。"},
    {"host_stall", kWarning, kSymptom, kHost, "a processor of the host is stuck", "主机 CPU 卡死",
     "Read the kernel's stack beside the message: often a driver or an overloaded host.",
     "查看消息附近的内核栈:多为驱动问题或主机过载。"},
    {"clock_skew", kWarning, kNotice, kHost, "the clock of a host jumped or differs", "主机时钟跳变或不同步",
     "Repair time synchronisation: the order of lines across hosts is not reliable.",
     "修复时间同步;跨主机的日志顺序不可靠。"},
    {"link_down", kCritical, kRoot, kHost, "a network link went down", "网络链路断开",
     "Check cable, transceiver and switch port of the named interface.", "检查该网口的线缆、光模块与交换机端口。"},
    {"device_unavailable", kCritical, kRoot, kTraining, "the program finds no usable device", "程序找不到可用设备",
     "Compare driver, toolkit and visible devices of that node with a healthy one.",
     "与正常节点比较驱动、CUDA 版本及可见设备。"},
    // Memory.
    {"device_oom", kCritical, kRoot, kTraining, "out of device memory", "设备显存不足",
     "Compare requested with free bytes. Smaller micro-batch or recomputation; if much is reserved but unused, the "
     "allocator is fragmented.",
     "比较申请量与剩余量;减小 micro-batch 或启用重计算;若保留多而未用,则是显存碎片。"},
    {"host_oom_kill", kCritical, kRoot, kHost, "the kernel killed a process: the host is out of memory",
     "主机内存不足,内核杀死进程", "Find the growth: data loader workers, checkpoints on the host, other jobs.",
     "排查内存增长:数据加载进程、主机侧检查点、其他任务。"},
    {"cgroup_oom", kCritical, kRoot, kHost, "a process was killed at the memory limit of its job", "任务内存超限被杀",
     "Raise the job's memory limit, or reduce workers and prefetching.", "提高任务内存上限,或减少加载进程与预取。"},
    {"host_alloc_fail", kCritical, kRoot, kTraining, "an allocation of host memory failed", "主机内存分配失败",
     "Check limits (ulimit, cgroup, shared memory) and the size of the request.",
     "检查限制(ulimit、cgroup、共享内存)与申请大小。"},
    {"pinned_alloc_fail", kCritical, kRoot, kTraining, "pinned host memory could not be allocated", "锁页内存分配失败",
     "Check the limit of locked memory (ulimit -l) and the use of pinned buffers.",
     "检查锁定内存限制(ulimit -l)与锁页缓冲的用量。"},
    {"too_many_files", kCritical, kRoot, kTraining, "the process has too many open files", "打开的文件过多",
     "Raise ulimit -n, or share tensors through the file system.", "提高 ulimit -n,或改用文件系统共享张量。"},
    // Communication.
    {"nccl_timeout", kCritical, kSymptom, kTraining, "a collective timed out", "集合通信超时",
     "The rank with the smallest sequence number, or without such a message, is the one to look at.",
     "序列号最小的 rank,或没有该消息的 rank,才是要查的对象。"},
    {"nccl_cascade", kWarning, kCascade, kTraining, "communication ended because a peer was gone",
     "对端退出导致通信中断", "A consequence: look for the first failure of another rank.",
     "这是后果:请查其他 rank 的首个故障。"},
    {"nccl_net_error", kCritical, kRoot, kTraining, "NCCL's network failed", "NCCL 网络故障",
     "Check the named peer and device: link counters, cables, firewall, interface selection.",
     "检查对端与网卡:链路计数、线缆、防火墙、网口选择。"},
    {"nccl_error", kCritical, kSymptom, kTraining, "NCCL reported an error", "NCCL 报错",
     "Read the last NCCL WARN of each rank; it names the call that failed.",
     "查看各 rank 最后一条 NCCL WARN,它指出失败的调用。"},
    {"hccl_error", kCritical, kSymptom, kTraining, "HCCL or an NPU reported an error", "HCCL 或 NPU 报错",
     "Look up the code, and compare the device logs of all ranks.", "查询错误码,并比较各 rank 的设备日志。"},
    {"rendezvous_fail", kCritical, kRoot, kTraining, "ranks failed to meet at the start", "各 rank 启动会合失败",
     "Count the ranks that joined; check address, port and the start of the missing ones.",
     "核对已加入的 rank 数;检查地址、端口及缺席 rank 的启动情况。"},
    {"store_lost", kWarning, kCascade, kTraining, "the store of the ranks is gone", "rank 间的 store 已断开",
     "A consequence: the process with the store (rank 0 or agent) ended first.",
     "这是后果:持有 store 的进程(rank 0 或 agent)先退出。"},
    {"watchdog_stuck", kCritical, kSymptom, kTraining, "a watchdog made no progress", "watchdog 长时间无进展",
     "Take stacks of the process: a call of CUDA or a lock of Python blocks it.",
     "抓取该进程的栈:通常卡在 CUDA 调用或 Python 锁上。"},
    {"slow_rank", kWarning, kSymptom, kTraining, "the trainer reported a slow rank", "训练程序报告慢 rank",
     "Compare clocks, temperature, data loading and network of that rank with its peers.",
     "与其他 rank 比较频率、温度、数据加载与网络。"},
    // Kernels and programs.
    {"cuda_illegal_access", kCritical, kRoot, kTraining, "a kernel accessed memory illegally", "核函数非法访问内存",
     "Repeat with CUDA_LAUNCH_BLOCKING=1 or the sanitizer; suspect custom kernels first.",
     "用 CUDA_LAUNCH_BLOCKING=1 或 compute-sanitizer 复现;先怀疑自定义核函数。"},
    {"cuda_prior_error_cascade", kWarning, kCascade, kTraining, "a call failed because of an earlier device error",
     "先前的设备错误导致调用失败", "A consequence: find the first device error of that rank.",
     "这是后果:查该 rank 的首个设备错误。"},
    {"device_assert", kCritical, kRoot, kTraining, "an assertion failed on the device", "设备端断言失败",
     "Often an index out of range: check labels, token ids against the vocabulary size.",
     "多为索引越界:检查标签、token id 与词表大小。"},
    {"python_exception", kCritical, kRoot, kTraining, "an exception ended the program", "程序因异常退出",
     "Read the end of the stack.", "查看异常栈末尾。"},
    {"config_invalid", kCritical, kRoot, kTraining, "the configuration is invalid", "配置无效",
     "Correct the named option.", "修正所指出的选项。"},
    {"shape_mismatch", kCritical, kRoot, kTraining, "shapes or types of tensors do not fit", "张量形状或类型不匹配",
     "Compare the shapes in the message with model and batch.", "将消息中的形状与模型和批次比较。"},
    {"module_missing", kCritical, kRoot, kTraining, "a Python module or library is missing", "缺少 Python 模块或库",
     "Compare the environment of that node with a healthy one.", "与正常节点比较运行环境。"},
    {"segfault", kCritical, kRoot, kHost, "a process crashed", "进程崩溃",
     "Read the native stack; suspect the library that it names.", "查看本地栈,怀疑其中的库。"},
    {"killed_unknown", kCritical, kSymptom, kTraining, "a process was killed, the cause is unknown",
     "进程被杀,原因未知", "Look at dmesg for the OOM killer, and at the scheduler's record.",
     "查看 dmesg 中的 OOM 记录及调度器记录。"},
    {"teardown", kInfo, kCascade, kTraining, "noise of the end of the job", "任务结束时的噪声",
     "A consequence: look for what came before it.", "这是后果:请查此前的故障。"},
    // Files and data.
    {"checkpoint_mismatch", kCritical, kRoot, kTraining, "a checkpoint does not fit the model", "检查点与模型不匹配",
     "Compare the configuration of the checkpoint with the current one.", "比较检查点与当前的配置。"},
    {"checkpoint_corrupt", kCritical, kRoot, kTraining, "a checkpoint is corrupted", "检查点文件损坏",
     "Load the previous checkpoint; check whether its writer was killed or the disk was full.",
     "改用上一个检查点;检查写入时是否被杀或磁盘已满。"},
    {"checkpoint_write_fail", kCritical, kRoot, kTraining, "a checkpoint could not be written", "检查点写入失败",
     "Check space, quota and state of the file system.", "检查空间、配额与文件系统状态。"},
    {"path_missing", kCritical, kRoot, kTraining, "a file is missing", "文件不存在",
     "Check the path on the node of that rank, and its mounts.", "在该 rank 的节点上检查路径与挂载。"},
    {"permission_denied", kCritical, kRoot, kTraining, "access to a file was denied", "文件访问被拒绝",
     "Check owner and mode of the path, and the user of the job.", "检查路径的属主与权限,以及任务的用户。"},
    {"disk_full", kCritical, kRoot, kHost, "no space left, or the quota is used up", "磁盘已满或配额用尽",
     "Free space, or move checkpoints; a part-written checkpoint is not usable.",
     "释放空间或迁移检查点;写了一半的检查点不可用。"},
    {"io_error", kCritical, kRoot, kHost, "an I/O error of a disk or file system", "磁盘或文件系统 I/O 错误",
     "Read the kernel log of that node; do not trust files written meanwhile.",
     "查看该节点内核日志;不要信任其间写入的文件。"},
    {"fs_stall", kWarning, kSymptom, kHost, "a file system does not answer", "文件系统无响应",
     "Check the server of the file system and the network to it.", "检查文件系统服务器及其网络。"},
    {"object_store_error", kWarning, kRoot, kTraining, "the object store failed", "对象存储请求失败",
     "Check whether the client tried again; lower the request rate.", "确认客户端是否已重试;降低请求速率。"},
    {"dataloader_dead", kCritical, kRoot, kTraining, "a worker of the data loader died or hangs",
     "数据加载进程死亡或卡住", "Check host memory, shared memory (/dev/shm) and the samples of that worker.",
     "检查主机内存、共享内存(/dev/shm)及该进程的样本。"},
    {"bad_sample", kWarning, kRoot, kTraining, "a sample could not be read", "样本无法读取",
     "Find the named file or shard; skip or repair it.", "定位对应文件或分片,跳过或修复。"},
    // Numbers.
    {"loss_nonfinite", kCritical, kRoot, kTraining, "the loss is NaN or infinite", "loss 为 NaN 或无穷",
     "Go back to a checkpoint before it; check data of that step, learning rate, loss scale.",
     "回到此前的检查点;检查该步数据、学习率与 loss scale。"},
    {"grad_nonfinite", kWarning, kRoot, kTraining, "gradients are NaN or infinite", "梯度为 NaN 或无穷",
     "Harmless once with a loss scale. Otherwise find the first layer or rank with it.",
     "使用 loss scale 时偶发无害;否则找出最先出现的层或 rank。"},
    {"grad_spike", kWarning, kSymptom, kTraining, "gradients exploded", "梯度爆炸",
     "Check clipping, learning rate and the batch of that step.", "检查梯度裁剪、学习率与该步的批次。"},
    {"loss_spike", kWarning, kSymptom, kTraining, "the loss jumped", "loss 突增",
     "Watch whether it recovers; otherwise go back and skip that data.", "观察是否恢复;否则回退并跳过该段数据。"},
    {"loss_scale_floor", kCritical, kRoot, kTraining, "the loss scale is at its minimum", "loss scale 已到下限",
     "Gradients overflow at any scale: the training has diverged.", "任何缩放下梯度均溢出:训练已发散。"},
    {"step_skipped", kInfo, kNotice, kTraining, "a step was skipped for an overflow", "梯度溢出,跳过一步",
     "Normal now and then; a fault if most steps are skipped.", "偶发正常;若多数步被跳过则为故障。"},
    // Decisions of people and schedulers.
    {"preempted", kWarning, kRoot, kHost, "the job was preempted", "任务被抢占",
     "Restart from the last checkpoint when resources are back.", "资源恢复后从最近检查点重启。"},
    {"time_limit", kWarning, kRoot, kHost, "the job reached its time limit", "任务达到时间上限",
     "Submit it again, with checkpoints before the limit.", "重新提交,并在到时前保存检查点。"},
    {"user_cancel", kInfo, kRoot, kTraining, "somebody cancelled the job", "任务被人取消",
     "No fault: ask the owner of the job.", "并非故障:请询问任务所有者。"},
};

}  // namespace

std::span<const AnomalyClass> AnomalyClasses() {
  return kClasses;
}

const AnomalyClass* AnomalyClassNamed(std::string_view name) {
  const auto* found = std::find_if(std::begin(kClasses), std::end(kClasses),
                                   [&](const AnomalyClass& each) { return each.name == name; });
  return found == std::end(kClasses) ? nullptr : found;
}

std::string_view NameOf(Role role) {
  switch (role) {
    case kRoot: return "root";
    case kCascade: return "cascade";
    case kSymptom: return "symptom";
    case kNotice: return "notice";
  }
  return "";
}

std::string_view AnomalyTitle(std::string_view name, bool in_chinese) {
  const AnomalyClass* found = AnomalyClassNamed(name);
  if (found == nullptr) return {};
  return in_chinese ? found->title_zh : found->title;
}

std::string_view AnomalyAdvice(std::string_view name, bool in_chinese) {
  const AnomalyClass* found = AnomalyClassNamed(name);
  if (found == nullptr) return {};
  return in_chinese ? found->advice_zh : found->advice;
}

}  // namespace stepwatch::logs
