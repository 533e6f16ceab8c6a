#include "src/logs/anomaly_patterns.h"

namespace stepwatch::logs {
namespace {

using enum Effect;

// A size as torch prints it.
#define SIZE R"([\d.]+ ?(?:bytes|[KMGT]i?B)\b)"
// A value that is not finite, with the quotes that some trainers print.
#define NONFINITE R"(['"]?[-+]?(?:nan(?:\.0)?|inf(?:inity)?)\b)"

// Words that end in a number other than zero, padded with at most three blanks.
#define DIGITS(word) word "1|" word "2|" word "3|" word "4|" word "5|" word "6|" word "7|" word "8|" word "9"
#define NONZERO(word) DIGITS(word " ") "|" DIGITS(word "  ") "|" DIGITS(word "   ")

constexpr Pattern kPatterns[] = {
    // Devices and hosts.
    {"", R"(NVRM: Xid \((?:PCI:)?(?P<device>[0-9A-Fa-f:.]+)\): (?P<xid>\d+))", "NVRM: Xid", kFindsXid},
    {"", R"((?i)\bgpu\b.{0,60}\bxid[ :=#(]\D{0,12}(?P<xid>\d{1,3})\b)", "xid |xid:|xid=|xid#|xid(", kFindsXid},
    {"", R"((?i)\bxid[ :=#(](?:error|event|code)?s?\W{0,3}(?P<xid>\d{1,3})\b.{0,60}\bgpu\b)",
     "xid |xid:|xid=|xid#|xid(", kFindsXid},
    {"nvlink_error", R"(SXid \(PCI:(?P<device>[0-9A-Fa-f:.]+)\): (?P<sxid>\d+), Fatal)", "SXid (PCI"},
    {"nvlink_error", R"(SXid \(PCI:(?P<device>[0-9A-Fa-f:.]+)\): (?P<sxid>\d+), Non-?fatal)", "SXid (PCI",
     kFindsNotice},
    {"nvlink_error", R"((?i)\bnvlink\b.{0,60}\b(?:error|fail(?:ed|ure)|fatal|down|inactive)\b)", "nvlink$"},
    {"nvlink_error", R"((?i)\b(?:fatal|failed)\b.{0,60}\bnvlink\b)", "nvlink$"},
    {"nvlink_error", R"((?i)\bsystem (?:is )?not yet initialized\b|cudaErrorSystemNotReady)",
     "not yet initialized|cudaErrorSystemNotReady"},
    {"gpu_lost", R"((?i)\bgpu\b.{0,60}\bfallen off the bus\b)", "fallen off the bus"},
    {"gpu_lost", R"((?i)\bgpu is lost\b|\bGPU_IS_LOST\b|\bNVML_ERROR_GPU_IS_LOST\b)", "gpu is lost|gpu_is_lost"},
    {"gpu_lost", R"(Unable to determine the device handle for (?:GPU|gpu))", "device handle for gpu"},
    {"gpu_hw_fault", R"(RmInitAdapter failed)", "RmInitAdapter failed"},
    {"gpu_hw_fault", R"((?i)\bGSP\b.{0,40}\b(?:timeout|rpc|crash|error))",
     "GSP timeout|GSP RPC|GSP crash|GSP error|from GSP|GSP firmware|of GSP|GSP task"},
    {"gpu_hw_fault", R"(amdgpu.{0,80}(?:GPU reset begin|ring \S+ timeout|GPU hang|RAS: uncorrectable))", "amdgpu"},
    {"gpu_hw_fault",
     R"(CUDA error: (?:an )?(?:hardware stack error|unknown hardware)|cudaErrorHardwareStackError)"
     R"(|CUDA_ERROR_HARDWARE_STACK_ERROR)",
     "hardware stack error|ErrorHardwareStack|ERROR_HARDWARE_STACK"},
    {"ecc_uncorrectable", R"((?i)\buncorrectable ECC error|cudaErrorECCUncorrectable|CUDA_ERROR_ECC_UNCORRECTABLE)",
     "uncorrectable ECC|ECCUncorrectable|ECC_UNCORRECTABLE"},
    {"ecc_uncorrectable", R"((?i)\bdouble[ -]bit (?:ecc|error))", "double bit|double-bit"},
    {"ecc_uncorrectable",
     R"((?i)\b(?:dbe|uncorrected ecc|volatile uncorrect\w+)\b.{0,40}\bgpu\b|\bgpu\b.{0,60}\b(?:uncorrect(?:ed)"
     R"(|able) (?:ecc|memory|dram|sram)|dbe\b))",
     "uncorrected|uncorrectable|volatile uncorr| dbe$"},
    {"row_remap_fail", R"((?i)\brow[ -]remap(?:p(?:ing|er))?\b.{0,40}\bfail)", "row remap|row-remap|row_remap"},
    {"row_remap_fail", R"((?i)\bremapp?ing failure (?:has )?occurred|\bfailed to remap (?:the )?row)",
     "remapping failure|remaping failure|failed to remap"},
    {"thermal_throttle",
     R"((?i)\b(?:hw|sw|hardware|software)[ _](?:thermal|power brake)?[ _]?slowdown\b.{0,24}\b(?:active|engaged)"
     R"(|detected|true|asserted)\b)",
     "slowdown"},
    {"thermal_throttle", R"((?i)\b(?:temperature|thermal)\b.{0,40}\bthrottl)", "throttl"},
    {"thermal_throttle",
     R"((?i)\bthrottl(?:ed|ing)\b.{0,60}\b(?:temperature|thermal|overheat)|temperature above threshold)",
     "throttl|temperature above threshold"},
    {"thermal_throttle", R"((?i)\bgpu\b.{0,60}\bthermal (?:violation|shutdown|trip|limit))", "thermal "},
    {"pcie_aer", R"((?i)\bAER: .{0,24}Uncorrect(?:ed|able)\b.{0,24}(?:error received|error message received))",
     "AER: "},
    {"pcie_aer", R"((?i)PCIe Bus Error: severity=Uncorrect(?:ed|able))", "PCIe Bus Error: sev"},
    {"host_memory_error", R"(EDAC .{0,40}\b(?:\d+ )?(?:UE|CE)\b)", "EDAC "},
    {"host_memory_error",
     R"((?i)\[Hardware Error\]: .{0,60}(?:uncorrected|machine check|memory error|fatal|MC\d|bank))",
     "[Hardware Error]"},
    {"host_memory_error",
     R"(\bmce: .{0,40}(?:Uncorrected|Machine check|hardware memory error)|Memory failure: 0x[0-9a-f]+)",
     "mce: |Memory failure: 0x"},
    {"node_fail", R"((?i)DUE TO NODE FAIL|\bNODE_FAIL\b)", "due to node fail|NODE_FAIL"},
    {"node_fail", R"((?i)\bnode failure on (?P<node>[\w.-]+))", "node failure on"},
    {"node_fail", R"(Kernel panic - not syncing)", "Kernel panic"},
    {"node_fail", R"((?i)\bnodes? (?P<node>\S+) not responding, setting DOWN)", "not responding, setting"},
    {"node_fail",
     R"((?i)\bnode (?:\S+ )?(?:status is now: )?(?:NodeNotReady|is not ready\b.{0,40}(?:unreachable|kubelet)))",
     "NodeNotReady|is not ready"},
    {"node_fail",
     R"((?i)\b(?:raylet|node) with (?:ip|id|node)\b.{0,120}\b(?:marked dead|has died|is dead|died unexpectedly))",
     "marked dead|has died|is dead|died unexpectedly"},
    {"host_stall",
     R"(BUG: soft lockup|hard LOCKUP|rcu: INFO: \w+ (?:self-)?detected (?:expedited )?stall)"
     R"(|NMI watchdog: Watchdog detected hard)",
     "soft lockup|hard LOCKUP|detected stall|detected expedited stall"},
    {"clock_skew",
     R"((?i)\bclock skew\b.{0,40}\b(?:detected|of|is|too|exceed|between)|\b(?:system )?(?:clock|time) (?:jumped)"
     R"(|went|moved|stepped|was stepped) (?:back|forward|by)|clock wrong by|\btime reset [-+]\d)",
     "clock skew|jumped|went back|moved back|stepped|wrong by|time reset |clock moved|clock went|time went|time moved"},
    {"link_down", R"((?i)\bmlx[45]_\w+\b.{0,60}\b(?:port:? ?\d*:?|link:?) (?:is )?(?:link )?down\b)", " down$"},
    {"link_down", R"((?i)\b(?:nic )?link is (?:not ready|down)\b)", "link is down|link is not ready"},
    {"link_down",
     R"((?i)link status definitely down for (?:interface|slave)|\b(?:interface)"
     R"(|carrier) (?:\S+ )?(?:lost carrier|carrier lost)|\blost carrier\b)",
     "definitely down|lost carrier|carrier lost"},
    {"link_down", R"((?i)\bNET/IB : \S+ Got async event : port error|\bIBV_EVENT_PORT_ERR)",
     "Got async event|IBV_EVENT_PORT_ERR"},
    {"device_unavailable",
     R"((?i)no CUDA-capable device is detected|\bno CUDA GPUs are available|cudaErrorNoDevice)"
     R"(|CUDA_ERROR_NO_DEVICE|No HIP GPUs are available)",
     "no CUDA-capable|no CUDA GPUs|cudaErrorNoDevice|ERROR_NO_DEVICE|no HIP GPUs"},
    {"device_unavailable",
     R"((?i)CUDA error: invalid device ordinal|CUDA driver version is insufficient)"
     R"(|NVIDIA driver on your system is too old|Driver/library version mismatch|Found no NVIDIA driver)"
     R"(|devices? (?:are|is|\(s\) is/are) busy or unavailable)",
     "invalid device ordinal|version is insufficient|system is too old|library version mismatch|found no nvidia "
     "driver|busy or unavailable"},
    // Memory.
    {"device_oom",
     R"((?i)\b(?:CUDA|HIP|XPU|NPU|MPS backend) out of memory\b(?:\. Tried to allocate (?P<bytes_requested>)" SIZE
     R"())?)",
     "out of memory"},
    {"device_oom", R"((?i)\b(?:OutOfMemoryError|AcceleratorError)\b.{0,40}out of memory)", "out of memory"},
    {"device_oom",
     R"(Tried to allocate (?P<bytes_requested>)" SIZE
     R"()(?:\.| \().{0,200}?(?:capac(?:i)?ty|GPU|NPU|HIP|XPU)(?:.{0,300}?(?P<bytes_free>)" SIZE R"() (?:is )?free)?)",
     "Tried to allocate"},
    {"device_oom", R"(of which (?P<bytes_free>)" SIZE R"() is free)", "is free"},
    {"device_oom",
     R"((?i)\b(?:CUDA|HIP|cuda ?runtime|cuda driver) (?:error|failure)\b.{0,20}\bout of memory\b)"
     R"(|Cuda failure.{0,12}'out of memory')",
     "out of memory"},
    {"device_oom",
     R"(CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY)"
     R"(|hipErrorOutOfMemory|HIPBLAS_STATUS_ALLOC_FAILED)",
     "STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation|ERROR_OUT_OF_MEMORY|hipErrorOutOfMemory"},
    {"device_oom",
     R"(RESOURCE_EXHAUSTED: .{0,40}[Oo]ut of memory.{0,60}?(?:allocat\w+ (?P<bytes_requested>\d+(?:\.\d+)?[KMGT])"
     R"(?i?B?(?: bytes)?))?|OOM when allocating tensor)",
     "RESOURCE_EXHAUSTED|OOM when allocating"},
    {"device_oom",
     R"((?i)\b(?:gpu|device|hbm|npu)\b.{0,40}\b(?:ran|is|went) out of (?:memory|hbm)\b|\bout of (?:gpu|device)"
     R"(|hbm) memory\b|\binsufficient (?:gpu|device) memory\b)",
     "out of memory|out of hbm|out of gpu|out of device|insufficient gpu|insufficient device"},
    {"host_oom_kill",
     R"(\bOut of memory: Kill(?:ed)? process (?P<pid>\d+) \((?P<process>[^)]*)\)(?:.{0,60}anon-rss:(?P<bytes_res)"
     R"(ident>\d+kB))?)",
     "Out of memory: Kill"},
    {"host_oom_kill", R"(invoked oom-killer)", "invoked oom-killer", kFindsSymptom},
    {"host_oom_kill", R"(oom-kill:constraint=CONSTRAINT_NONE)", "oom-kill:constraint"},
    {"host_oom_kill", R"(oom_reaper: reaped process (?P<pid>\d+))", "oom_reaper", kFindsSymptom},
    {"host_oom_kill",
     R"((?i)\bkilled by (?:the )?(?:kernel )?OOM[ -]killer|systemd-oomd.{0,60}Killed )"
     R"(|due to the node running low on memory|\bowing to memory pressure)"
     R"(|workers? .{0,40}killed due to (?:node )?memory pressure)",
     "OOM killer|OOM-killer|systemd-oomd|running low on memory|memory pressure"},
    {"cgroup_oom",
     R"(Memory cgroup out of memory: Kill(?:ed)? process (?P<pid>\d+) \((?P<process>[^)]*)\)(?:.{0,60}anon-rss:()"
     R"(?P<bytes_resident>\d+kB))?)",
     "Memory cgroup out of"},
    {"cgroup_oom", R"(oom-kill:constraint=CONSTRAINT_MEMCG)", "oom-kill:constraint"},
    {"cgroup_oom",
     R"((?i)Detected \d+ oom[_-]kill event|\bOOM Killed\b|\bOOMKilled\b|\bOUT_OF_MEMORY\b.{0,30}\b(?:job|step)"
     R"(|state)|\b(?:job|step|state)\b.{0,30}\bOUT_OF_MEMORY\b)",
     "oom_kill event|oom-kill event|OOM Killed|OOMKilled|OUT_OF_MEMORY"},
    {"cgroup_oom",
     R"((?i)\bexceed(?:ed|s)? (?:its |the )?(?:job |step |task |container )?memory (?:limit|allocation))"
     R"(|TERM_MEMLIMIT|memory limit .{0,30}exceeded)",
     "memory limit|memory allocation|TERM_MEMLIMIT"},
    {"host_alloc_fail",
     R"(DefaultCPUAllocator: (?:can't allocate memory)"
     R"(|not enough memory)(?:: you tried to allocate (?P<bytes_requested>\d+ bytes))?)",
     "DefaultCPUAllocator"},
    {"host_alloc_fail", R"(\bstd::bad_alloc\b|\[Errno 12\]|\bENOMEM\b)", "bad_alloc|[Errno 12]|ENOMEM"},
    {"host_alloc_fail",
     R"(\bMemoryError\b(?:: Unable to allocate (?P<bytes_requested>)" SIZE
     R"())?|numpy\.core\._exceptions\._ArrayMemoryError)",
     "MemoryError"},
    {"host_alloc_fail", R"((?:mmap|fork|malloc|clone|shm_open|posix_memalign)\b.{0,60}Cannot allocate memory)",
     "Cannot allocate memory"},
    {"pinned_alloc_fail",
     R"((?i)cudaHostAlloc|cudaMallocHost|cudaHostRegister|cudaErrorHostMemory|hipHostMalloc|hipHostRegister)",
     "cudaHostAlloc|cudaMallocHost|cudaHostRegister|cudaErrorHostMemory|hipHostMalloc|hipHostRegister"},
    {"pinned_alloc_fail",
     R"((?i)\b(?:fail\w*|unable|cannot|could not)\b.{0,30}\b(?:pin|page-?lock)"
     R"(|register)\w*\b.{0,30}\b(?:host )?memory\b|\b(?:pinned|page-locked)\b.{0,30}\b(?:alloc\w*)"
     R"(|memory)\b.{0,20}\b(?:fail|exhaust|out of))",
     "pinned|page-lock|pagelock|to pin|register memory|register host|unable to register|cannot pin|not pin"},
    {"too_many_files", R"((?i)\[Errno 24\]|\btoo many open files\b|\bEMFILE\b|received 0 items of ancdata)",
     "[Errno 24]|too many open files|EMFILE$|of ancdata"},
    // Communication.
    {"nccl_timeout",
     R"(Watchdog caught collective operation timeout: WorkNCCL\((?:SeqNum=(?P<sequence>\d+))?(?:, ?OpType=(?P<co)"
     R"(llective>\w+))?)",
     "caught collective operation timeout"},
    {"nccl_timeout",
     R"((?:work|Timeout at NCCL work): (?P<sequence>\d+), last enqueued NCCL work: (?P<enqueued>\d+), last compl)"
     R"(eted NCCL work: (?P<completed>\d+))",
     "last enqueued NCCL work"},
    {"nccl_timeout",
     R"((?i)Watchdog caught collective operation timeout|\bcollective (?:operation )?(?:has )?timed out\b)"
     R"(|(?:allreduce|all_reduce|broadcast|allgather|barrier|all_gather|reduce_scatter)\b.{0,40}\btimed out\b)",
     "collective operation timeout|timed out"},
    {"nccl_timeout", R"(Timed out waiting (?P<timeout_ms>\d+)ms for (?:recv|send) operation)", "Timed out waiting"},
    {"nccl_timeout", R"(Rank (?P<culprit>\d+)(?:, \d+)* failed to pass monitoredBarrier)", "monitoredBarrier"},
    {"nccl_timeout", R"(\bmonitoredBarrier\b.{0,80}\btimed? ?out|failed to pass monitoredBarrier)", "monitoredBarrier"},
    {"nccl_cascade", R"((?i)remote error detected from rank:? ?(?P<culprit>\d+))", "remote error detected"},
    {
        "nccl_cascade",
        R"((?:dump signal due to a collective timeout|timeout signal) from (?: ?rank |this )?(?P<culprit>\d+)?)",
        "dump signal|timeout signal",
    },
    {"nccl_cascade", R"(Observed flight recorder dump signal from another rank)", "flight recorder dump signal"},
    {"nccl_cascade",
     R"(Some NCCL operations have failed or timed out)"
     R"(|To avoid data inconsistency, we are taking the entire process down|NCCL communicator was aborted)"
     R"(|Process group watchdog thread terminated with exception)",
     "Some NCCL operations|avoid data inconsistency|communicator was aborted|watchdog thread terminated"},
    {"nccl_cascade",
     R"(ncclRemoteError|remote process exiting prematurely|remote process exited or there was a network error)",
     "ncclRemoteError|remote process exit"},
    {"nccl_cascade",
     R"((?i)\b(?:gloo|nccl|ucx|socketProgress\w*|unbound_buffer|pair\.cc)"
     R"(|c10d)\b.{0,160}(?:Connection closed by (?:remote )?peer|Connection reset by peer|Broken pipe)"
     R"(|Connection closed by local ?Rank))",
     "closed by peer|closed by remote peer|reset by peer|broken pipe|closed by localrank|closed by local rank"},
    {"nccl_cascade",
     R"((?i)(?:aborted|aborting|terminated) (?:by|due to|because of) (?:a |an |the )?(?:failure (?:of|on)"
     R"(|in) )?(?:other|another|remote|peer) (?:rank|worker|process))",
     "other rank|another rank|remote rank|peer rank|other worker|another worker|peer worker|other process|another "
     "process|peer process|remote process|remote worker"},
    {"nccl_net_error",
     R"(NET/IB ?: .{0,60}Got completion (?:from peer (?P<peer>\S+) )?with (?:status=|error )(?P<status>\d+))",
     "Got completion"},
    {"nccl_net_error",
     R"(NCCL WARN .{0,60}Call to (?P<call>ibv_\w+|connect|bind|socket|accept|poll|recv|send)\S* (?:failed)"
     R"(|returned|timeout|timed out))",
     "NCCL WARN"},
    {"nccl_net_error",
     R"((?i)NCCL WARN .{0,80}(?:Connection refused|Connection timed out|No route to host|Network is unreachable)"
     R"(|Software caused connection abort))",
     "NCCL WARN"},
    {"nccl_net_error",
     R"((?:socketStartConnect|ncclSocketConnect|socketPollConnect|socketTryAccept)\b.{0,100}(?:failed|refused)"
     R"(|timed out|exceeded))",
     "socketStartConnect|ncclSocketConnect|socketPollConnect|socketTryAccept"},
    {"nccl_net_error",
     R"(IBV_WC_(?:RETRY_EXC|RNR_RETRY_EXC|REM_\w+|LOC_\w+)_ERR|transport retry counter exceeded)"
     R"(|No socket interface found|no (?:usable|suitable) (?:network )?interfaces?\b)",
     "IBV_WC_|transport retry counter|No socket interface|usable interface|suitable interface|usable network|suitable "
     "network"},
    {"nccl_error",
     R"(NCCL error in: |ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclInvalidUsage)"
     R"(|ncclInvalidArgument|unhandled (?:cuda|system) error|Duplicate GPU detected)",
     "NCCL error "
     "in|ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclInvalidUsage|ncclInvalidArgument|unhandled "
     "cuda|unhandled system|Duplicate GPU detected"},
    {"nccl_error", R"((?i)\b(?:NCCL|RCCL)\b.{0,60}\b(?:internal error|invalid usage|system error|abort(?:ed)?:))",
     "internal error|invalid usage|system error|aborted:|abort:"},
    {"hccl_error", R"(\b(?:E[E-LZ]99|EI00|EJ00|EZ30|EE10|EE88|EL00|EK00|EF00|EG00)\d\d: |\bERR0[0-4]\d{3} )",
     "EE99|EF99|EG99|EH99|EI99|EJ99|EK99|EL99|EZ99|EI00|EJ00|EZ30|EE10|EE88|EL00|EK00|EF00|EG00|ERR00|ERR01|ERR02|"
     "ERR03|ERR04"},
    {"hccl_error",
     R"((?i)\bhccl\w*\b.{0,80}\b(?:error|fail(?:ed|ure)?|time(?:d ?)?out)\b|\bACL_ERROR_\w+)"
     R"(|\baclrt\w+,? (?:error|failed)|\bhcom\w+ (?:error|failed)|\bNPU (?:function )?error\b)",
     "hccl|ACL_ERROR|aclrt|hcom_|hcomm|hcom |NPU error|NPU function"},
    {"rendezvous_fail", R"(\bRendezvous(?:Timeout|Connection|Closed|State|Graceful\w+)?Error\b)", "Rendezvous"},
    {"rendezvous_fail",
     R"(client socket has timed out after (?P<timeout>\d+\w*) while trying to connect to \(?(?P<address>[\w.:-]+)"
     R"()|(?:server|client) socket has failed to (?:listen|bind|connect))",
     "socket has timed out|socket has failed"},
    {"rendezvous_fail", R"((?P<joined>\d+)/(?P<expected>\d+) clients joined)", "clients joined"},
    {"rendezvous_fail", R"(Timed out initializing process group in store based barrier)", "store based barrier"},
    {"rendezvous_fail", R"(DistStoreError: (?:Timed out|wait timeout)|(?i:\bwait timeout after \d+ms, keys:))",
     "DistStoreError|wait timeout after"},
    {"rendezvous_fail",
     R"((?i)\b(?:MASTER_ADDR|MASTER_PORT|rdzv|rendezvous|c10d|TCPStore)"
     R"(|init_process_group)\b.{0,100}(?:Address already in use|EADDRINUSE|Name or service not known)"
     R"(|Connection refused|No route to host|timed out\b))",
     "address already in use|EADDRINUSE|name or service not|connection refused|no route to host|timed out"},
    {"store_lost",
     R"((?i)\b(?:TCPStore|sendBytes|recvValue|recvBytes|recvVector|DistNetworkError|waitForInput)"
     R"(|SocketImpl)\b.{0,200}(?:failed to (?:recv|send)|Broken pipe|Connection reset|got 0 bytes)"
     R"(|Connection was likely closed|shut down too early|failed on))",
     "failed to recv|failed to send|broken pipe|connection reset|got 0 bytes|likely closed|shut down too early|failed "
     "on"},
    {"store_lost", R"(failed to recv, got 0 bytes|Failed to check the "should dump" flag on TCPStore)",
     "got 0 bytes|should dump"},
    {"watchdog_stuck",
     R"((?i)watchdog(?: thread)? got stuck for|heartbeat monitor timed out|ProcessGroupNCCL watchdog hang)"
     R"(|watchdog (?:thread )?(?:is |has been )?(?:stuck|hung)\b)",
     "watchdog got stuck|thread got stuck|monitor timed out|watchdog hang|watchdog is|watchdog has|watchdog "
     "stuck|watchdog hung|watchdog thread"},
    {"slow_rank",
     R"((?i)\bstraggl(?:er|ing)s?\b.{0,80}\b(?:ranks?|gpus?|nodes?)\b\D{0,12}(?P<culprit>\d+)?)"
     R"(|\bstraggler detection warning\b)",
     "straggl"},
    {"slow_rank",
     R"((?i)\branks?:? \[?(?P<culprit>\d+)\]?\b.{0,40}\b(?:is |are )?(?:a straggler|straggling|(?:much )"
     R"(|significantly )?slower than)\b)",
     "straggl|slower than"},
    // Kernels and programs.
    {"cuda_illegal_access",
     R"((?i)\ban illegal (?:memory access|instruction) was encountered|\bmisaligned address\b)"
     R"(|\bunspecified launch failure\b|\billegal address\b|cudaErrorIllegalAddress|CUDA_ERROR_ILLEGAL_ADDRESS)"
     R"(|cudaErrorLaunchFailure|CUDA_ERROR_LAUNCH_FAILED|\binvalid program counter\b)",
     "illegal memory access|illegal instruction was|misaligned address|unspecified launch failure|illegal "
     "address|IllegalAddress|ILLEGAL_ADDRESS|ErrorLaunchFailure|ERROR_LAUNCH_FAILED|invalid program counter"},
    {"cuda_illegal_access",
     R"(Memory access fault by GPU|Invalid __(?:global|shared|local)__ (?:read|write))"
     R"(|HSA_STATUS_ERROR_MEMORY_(?:FAULT|APERTURE)|hipErrorIllegalAddress|VM_L2_PROTECTION_FAULT)",
     "Memory access fault|Invalid __|HSA_STATUS_ERROR_MEM|hipErrorIllegalAddress|PROTECTION_FAULT"},
    {"cuda_prior_error_cascade",
     R"((?i)\b(?:due to|because of) (?:a |an )?(?:prior|previous|earlier) (?:cuda |device |kernel )?(?:error)"
     R"(|failure)|CUDA error: (?:driver shutting down|context is destroyed)|cudaErrorCudartUnloading)"
     R"(|CUBLAS_STATUS_EXECUTION_FAILED|CUBLAS_STATUS_NOT_INITIALIZED|CUDNN_STATUS_(?:EXECUTION_FAILED)"
     R"(|MAPPING_ERROR|NOT_INITIALIZED)|CUDA_ERROR_(?:CONTEXT_IS_DESTROYED|DEINITIALIZED))",
     "prior error|previous error|earlier error|prior cuda|previous cuda|earlier cuda|prior device|previous "
     "device|earlier device|prior kernel|previous kernel|prior failure|previous failure|driver shutting down|context "
     "is "
     "destroyed|CudartUnloading|STATUS_EXECUTION_FAILED|STATUS_NOT_INITIALIZED|STATUS_MAPPING_ERROR|CONTEXT_IS_"
     "DESTROYED|ERROR_DEINITIALIZED"},
    {"device_assert",
     R"((?i)device-side assert|cudaErrorAssert\b|CUDA_ERROR_ASSERT\b)"
     R"(|block: \[\d+,\d+,\d+\], thread: \[\d+,\d+,\d+\] Assertion|Device-side assertion)",
     "device-side assert|cudaErrorAssert|CUDA_ERROR_ASSERT|] assertion"},
    {"config_invalid",
     R"(\berror: (?:unrecognized arguments|argument \S+: (?:invalid|expected|not allowed))"
     R"(|the following arguments are required|ambiguous option)|^Usage error: )",
     "error: unrecognized arg|error: argument|arguments are required|ambiguous option|Usage error"},
    {"config_invalid",
     R"(\b(?:hydra|omegaconf)\.errors\.\w+|\bMissingMandatoryValue\b|\bConfig(?:Attribute|Key|Composition)"
     R"(|uration)\w*(?:Error|Exception)\b|\bvalidation errors? for \w+|\bValidationError\b)",
     "hydra.errors|omegaconf.errors|MissingMandatoryValue|ConfigAttribute|ConfigKey|ConfigComposition|Configuration|"
     "validation error|ValidationError"},
    {"config_invalid",
     R"((?i)\b(?:world[ _]size|batch[ _]size|num[ _]?(?:layers|heads|attention_heads)|hidden[ _]size)"
     R"(|train_batch_size)\b.{0,80}\b(?:(?:is )?not divisible|must be divisible|is not equal to)"
     R"(|should be divisible)\b|Check batch related parameters)",
     "divisible|not equal to|batch related parameters"},
    {"config_invalid",
     R"((?i)\b(?:invalid|unknown|unsupported|missing required) (?:config\w*|option|setting|hyper-?parameter)s?\b)",
     "invalid config|unknown config|unsupported config|invalid option|unknown option|unsupported option|invalid "
     "setting|unknown setting|hyperparameter|hyper-parameter|missing required"},
    {"shape_mismatch",
     R"((?i)\bshapes? cannot be multiplied\b|The (?:expanded )?size of (?:the )?tensor\b.{0,40}must match)"
     R"(|Sizes of tensors must match|is invalid for input of size|\bto match target batch_size\b)"
     R"(|expected scalar type \w+ but found|must have the same dtype|\bshape mismatch\b|size mismatch, (?:got)"
     R"(|m1)|Incompatible shapes|\bgot incompatible shapes\b|could not be broadcast together)"
     R"(|does not match the broadcast shape|The shape of the mask|stack expects each tensor to be equal size)",
     "cannot be multiplied|must match|for input of size|match target batch|expected scalar type|same dtype|shape "
     "mismatch|size mismatch|incompatible shapes|broadcast together|broadcast shape|shape of the mask|to be equal "
     "size"},
    {"module_missing",
     R"(\bModuleNotFoundError\b|No module named '?(?P<module>[\w.]+)|\bImportError: (?:cannot import name)"
     R"(|lib\S+: cannot open shared object|.{0,120}(?:undefined symbol|version `?GLIBC)))"
     R"(|error while loading shared libraries)",
     "ModuleNotFoundError|No module named|ImportError: |loading shared libraries"},
    {"segfault",
     R"((?i)\bSegmentation fault\b|\bSIGSEGV\b|\bSIGBUS\b|\bSIGILL\b|exitcode ?: -11\b)"
     R"(|\bsegfault at [0-9a-f]+ ip\b|Caught signal (?:11|7)\b|traps: \S+ general protection)"
     R"(|general protection fault ip:)",
     "segmentation fault|SIGSEGV|SIGBUS|SIGILL|exitcode: -11|exitcode : -11|segfault at|caught signal|general "
     "protection"},
    {"killed_unknown",
     R"(^Killed$|\d Killed  |: task \d+: Killed\b|: tasks? [\d,-]+: Killed\b|exit ?code ?:? -9\b)"
     R"(|return code = -9\b|Signal 9 \(SIGKILL\)|\bexit code:? 137\b|[Ss]tatus 137\b)"
     R"(|died with <Signals\.SIGKILL: 9>|exited on signal 9\b|code=killed, status=9)",
     "Killed|exitcode: -9$|exitcode : -9$|code = -9|SIGKILL|code 137|code: 137|status 137|signal 9|status=9|exit code "
     "-9|exit code: -9"},
    {"teardown",
     R"(Sending process \d+ closing signal SIG\w+|closing signal SIGTERM)"
     R"(|failed \(exitcode: -?\d+\) local_rank: \d+ \(pid: \d+\)|\bChildFailedError\b|DUE TO TASK FAILURE)"
     R"(|[Tt]asks? (?P<tasks>[\d,-]+): Exited with exit code (?P<code>\d+)|SignalException|Signals\.SIGTERM)"
     R"(|Signal 15 \(SIGTERM\)|exitcode ?: -15\b|death signal, shutting down)",
     "closing signal|failed (exitcode|ChildFailedError|DUE TO TASK FAILURE|Exited with exit "
     "code|SignalException|Signals.SIGTERM|SIGTERM|exitcode: -15|exitcode : -15|death signal"},
    {"teardown",
     R"(Root Cause \(first observed failure\)|MPI_ABORT was invoked|noticed that process rank \d+)"
     R"(|resource_tracker: There appear to be|Killing subprocess|[Kk]illing subprocess)"
     R"(|terminate called without an active exception|Exception ignored in|\bSIGABRT\b|exitcode ?: -6\b)"
     R"(|process group has NOT been destroyed|destroy_process_group\(\) was not called|Terminating worker)"
     R"(|STEP \d+\.\S+ ON \S+ CANCELLED AT \S+ \*\*\*)",
     "first observed failure|MPI_ABORT was|noticed that process|resource_tracker|killing subprocess|without an active "
     "exc|Exception ignored in|SIGABRT|exitcode: -6|exitcode : -6|NOT been destroyed|destroy_process_group|Terminating "
     "worker|CANCELLED AT"},
    // Files and data.
    {"checkpoint_mismatch",
     R"(Error\(s\) in loading state_dict|size mismatch for [\w.]+: copying|(?:Missing)"
     R"(|Unexpected) key\(s\) in state_dict|loaded state dict (?:contains a parameter group)"
     R"(|has a different number)|\bMissing key in checkpoint state_dict)"
     R"(|(?i:checkpoint\b.{0,80}\b(?:does not match|mismatch|is incompatible|incompatible with)"
     R"(|different (?:number|tensor|parallel))))",
     "loading state_dict|size mismatch for|in state_dict|loaded state dict|checkpoint~.py"},
    {"checkpoint_corrupt",
     R"(PytorchStreamReader failed|invalid header or archive is corrupted|\bUnpicklingError\b)"
     R"(|while deserializing header|HeaderTooLarge|MetadataIncompleteBuffer|InvalidHeaderDeserialization)"
     R"(|\bEOFError: Ran out of input|unexpected EOF, expected|storage has wrong (?:byte )?size|\bBadZipFile\b)"
     R"(|(?i:checkpoint\b.{0,80}\b(?:corrupt\w*|truncated|checksum|incomplete)\b|\b(?:corrupt\w*|truncated)"
     R"(|incomplete)\b.{0,40}\bcheckpoint\b))",
     "PytorchStreamReader|archive is corrupted|UnpicklingError|deserializing "
     "header|HeaderTooLarge|IncompleteBuffer|InvalidHeader|Ran out of input|unexpected EOF|wrong byte size|wrong "
     "size|BadZipFile|corrupt|truncated|checksum|incomplete"},
    {"checkpoint_write_fail",
     R"(PytorchStreamWriter failed|inline_container\.cc:\d+\] \. unexpected pos|while serializing: I/?o)"
     R"(|CheckpointException ranks|(?i:(?:fail(?:ed|ure)|error|unable|could not|cannot)\b.{0,30}\b(?:sav\w+)"
     R"(|writ\w+|stor\w+|persist\w*|commit\w*)\b.{0,30}\b(?:checkpoint|ckpt)\b|\b(?:checkpoint)"
     R"(|ckpt)\b.{0,60}\b(?:save|saving|write|writing|upload)\b.{0,30}\b(?:failed|failure|error|aborted)\b))",
     "PytorchStreamWriter|unexpected pos|while serializing|CheckpointException|checkpoint~.py|ckpt$"},
    {"path_missing",
     R"(\bFileNotFoundError\b|\[Errno 2\]|(?:python\d?|bash|sh): .{0,80}(?:can't open file|No such file))"
     R"(|\bEntryNotFoundError\b|\bLocalEntryNotFoundError\b)",
     "FileNotFoundError|[Errno 2]|can't open file|No such file|EntryNotFoundError"},
    {"permission_denied",
     R"(\bPermissionError\b|\[Errno 13\]|\[Errno 1\] Operation not permitted)"
     R"(|slurmstepd: error: execve\(\): .{0,80}Permission denied|\bbash: \S+: Permission denied)",
     "PermissionError|[Errno 13]|[Errno 1]|Permission denied"},
    {"disk_full",
     R"((?i)\bNo space left on device\b|\bDisk quota exceeded\b|\[Errno 28\]|\[Errno 122\]|\bENOSPC\b)"
     R"(|\bEDQUOT\b|\b(?:disk|file ?system|volume) (?:\S+ )?is full\b)",
     "No space left|quota exceeded|[Errno 28]|[Errno 122]|ENOSPC|EDQUOT|is full"},
    {"io_error",
     R"((?i)\[Errno (?:5|116|30|121|107)\]|Input/output error|\bStale (?:NFS )?file handle\b)"
     R"(|\bRead-only file system\b|\bBuffer I/O error\b|\bI/O error, dev\b|EXT4-fs error)"
     R"(|XFS \(\S+\): (?:metadata I/O error|Corruption|log I/O error)|BTRFS (?:error|critical))"
     R"(|nvme\S* \S*: ?I/O .{0,30}timeout|Remounting filesystem read-only|Transport endpoint is not connected)"
     R"(|\bRemote I/O error\b)",
     "[Errno 5]|[Errno 116]|[Errno 30]|[Errno 121]|[Errno 107]|Input/output error|file handle|Read-only file|I/O "
     "error|EXT4-fs error|XFS (|BTRFS |nvme|filesystem read-only|Transport endpoint"},
    {"fs_stall",
     R"((?i)\bnfs: server \S+ not responding|INFO: task \S+ blocked for more than \d+ seconds)"
     R"(|LustreError: .{0,160}(?:failed|timed out|rc = -1[01]\d)|Lustre: .{0,160}(?:timed out)"
     R"(|connection .{0,60}lost|was lost)|\bceph: .{0,60}(?:hung|timed out|session lost))"
     R"(|libceph: .{0,60}(?:socket closed|timed out)|GPFS: .{0,80}(?:long waiters?|expel))"
     R"(|beegfs.{0,80}(?:unreachable|communication error))",
     "not responding|blocked for more|LustreError|Lustre: |ceph: |GPFS: |beegfs"},
    {"object_store_error",
     R"((?i)An error occurred \((?P<code>SlowDown|InternalError|ServiceUnavailable|503|500|RequestTimeout)"
     R"(|Throttl\w*|RequestLimitExceeded|ExpiredToken)\) when calling|EndpointConnectionError)"
     R"(|ConnectTimeoutError|(?:s3|gcs?|oss|obs|blob|hub|storage|huggingface|bucket)"
     R"(|minio)\b.{0,120}\b(?:5\d\d (?:Server Error|Internal Server|Bad Gateway|Gateway Time)|HTTP 5\d\d)"
     R"(|status(?: code)?:? 5\d\d|Service ?Unavailable|SlowDown)|\b50[0234] (?:Server Error|GET|PUT)"
     R"(|POST)\b.{0,80}https?://|Max retries exceeded with url)",
     "when calling|EndpointConnectionError|ConnectTimeoutError|Server Error|Internal Server|Bad Gateway|Gateway "
     "Time|http 5|status 5|status: 5|code 5|code: 5|GET http|PUT http|POST http|Unavailable|SlowDown|Max retries "
     "exceeded"},
    {"dataloader_dead",
     R"((?i)DataLoader worker \(pid(?:\(s\))?:? (?P<pid>[\d, ]+)\) (?:exited unexpectedly|is killed by signal))"
     R"(|Pin memory thread exited unexpectedly|DataLoader timed out after|(?:data ?loader|dataset) (?:worker)"
     R"(|process|thread)\b.{0,40}\b(?:died|dead|crashed|killed|hung|exited unexpectedly|not responding))",
     "DataLoader worker|Pin memory thread|DataLoader timed out|loader worker|dataset worker|loader process|dataset "
     "process|loader thread"},
    {"bad_sample",
     R"((?i)UnidentifiedImageError|cannot identify image file|image file is truncated|\bJSONDecodeError\b)"
     R"(|codec can't decode byte|Parquet magic bytes not found|ArrowInvalid|index out of range in self)"
     R"(|\b(?:corrupt(?:ed)?|bad|broken|malformed|undecodable|unreadable) (?:sample|record|shard|image|example)"
     R"(|document|video|jpeg|tar member|jsonl? line)|(?:sample|record|shard|example)\b.{0,40}\b(?:is )"
     R"(|was )?(?:corrupt(?:ed)?|malformed|truncated|unreadable)\b|DataLossError|Invalid magic number; corrupt)",
     "UnidentifiedImage|cannot identify image|image file is trunc|JSONDecodeError|can't decode byte|Parquet "
     "magic|ArrowInvalid|out of range in self|corrupt|bad sample|bad record|bad shard|bad image|bad example|bad "
     "document|bad video|broken|malformed|undecodable|unreadable|truncated|DataLossError"},
    // Numbers.
    {"loss_nonfinite",
     R"((?i)(?:^|[\s,{\[|'"(])(?:(?:lm|train(?:ing)?|total|global|batch|avg|average|mean|reduced_train)"
     R"(|global_avg|step)[ _])*loss(?:es)?['"]?(?: value)?\s*(?:[:=|]|is|was|became|of|->|turned)?\s*)" NONFINITE,
     " nan~ iterations|:nan$|=nan$|'nan$|\"nan$|-nan$|+nan$| inf$|:inf$|=inf$|'inf$|\"inf$|-inf$|+inf$|infinity"},
    {"loss_nonfinite", R"(number of nan iterations: {1,3}(?P<iterations>[1-9]\d*))", NONZERO("nan iterations:")},
    {"loss_nonfinite",
     R"((?i)\b(?:found|detected|encountered|got|hit|saw)\b.{0,24}\b(?:nan|inf|non-?finite)\b.{0,40}\bloss\b)"
     R"(|\bnon-?finite (?:training )?loss\b|(?:^|[\s(])(?:nan|inf)(?:/inf|/nan| or inf)"
     R"(| or nan)? (?:in (?:the )?)?(?:training )?loss(?:es)?(?:[^\w/=:.]|$)|\bloss (?:is|was|became|has become)"
     R"(|went|turned) (?:not finite|non-?finite|nan|inf(?:inite)?)\b|\bunexpected result nan\b)"
     R"(|\bloss (?:diverged|exploded) to\b)",
     " nan~ iterations|nan loss|nan in|nan train|nan or|non-finite|nonfinite|not finite|infinite| inf$|inf loss|inf "
     "in|inf "
     "train|inf or|nan/|inf/|loss diverged|loss exploded"},
    {"grad_nonfinite", R"((?i)\bgrad(?:ient)?s?[ _]?(?:norm)?['"]?\s*(?:[:=|]|is|was|became|of)?\s*)" NONFINITE,
     " nan~ iterations|:nan$|=nan$|'nan$|\"nan$|-nan$|+nan$| "
     "inf$|:inf$|=inf$|'inf$|\"inf$|-inf$|+inf$|infinity|[nan|(nan"},
    {"grad_nonfinite",
     R"((?i)\b(?:found|detected|encountered|got|hit|contains?|has|have)\b.{0,30}\b(?:nan|infs?)"
     R"(|non-?finite)\b.{0,60}\bgrad(?:ient)?s?\b|\bnon-?finite grad(?:ient)?s?\b|\b(?:nan)"
     R"(|inf) grad(?:ient)?s?\b|\bgrad(?:ient)?s?\b.{0,40}\b(?:contains?|has|have|is|are)\b.{0,12}\b(?:nan)"
     R"(|infs?|non-?finite|not finite)\b|total norm .{0,60}is non-finite)",
     " nan~ iterations|nan grad|inf grad|non-finite|nonfinite|not finite| inf$| infs$"},
    {"grad_spike",
     R"((?i)\bgrad(?:ient)?s?(?:[ _-]norm)?\b.{0,24}\b(?:spik(?:e|ed|ing)|explo(?:d(?:e|ed|ing)|sion)|blew up)"
     R"(|blown up)\b|\bexploding gradients?\b)",
     "spike|spiking|explod|explosion|blew up|blown up"},
    {"loss_spike", R"((?i)\b(?:training |train |lm )?loss\b.{0,16}\b(?:spik(?:e|ed|ing)|jump(?:ed)?)\b)",
     "loss spik|loss has spik|loss jump|loss value spik|spike|jump"},
    {"loss_scale_floor",
     R"((?i)loss scale already at minimum|Minimum loss scale reached|loss[ _]scal(?:e|er)\b.{0,24}\b(?:reached)"
     R"(|hit|at|below|under)\b.{0,16}\b(?:minimum|floor|lower limit)\b)"
     R"(|\bloss[ _]scale\b.{0,30}\bcannot (?:be )?(?:decrease|reduced))",
     "minimum|floor|lower limit|cannot decrease|cannot be decrease|cannot reduced|cannot be reduced"},
    {"step_skipped",
     R"((?i)\boverflow\b.{0,60}\bskip|\bskipping\b.{0,60}\b(?:step|update|iteration)\b.{0,60}\b(?:overflow)"
     R"(|scale|inf|nan)|\bskipped (?:a |the |this )?(?:step|update)\b.{0,60}\b(?:overflow|scale|inf|nan))"
     R"(|number of skipped iterations: {1,3}[1-9]|Attempted loss scale: )",
     "overflow|skipping|skipped step|skipped update|skipped a |skipped the|skipped this|" NONZERO(
         "skipped iterations:") "|Attempted loss scale",
     kFindsNotice},
    // Decisions of people and schedulers.
    {"preempted",
     R"((?i)DUE TO PREEMPTION|\bpreempted (?:by|in order|to|for)\b|\b(?:job|pod|task|instance|node|vm)"
     R"(|spot)\b.{0,40}\b(?:has been |was |is being |will be |got )?(?:preempted|evicted|reclaimed)\b)"
     R"(|spot (?:instance )?interruption|The node was low on resource|\bpreempt(?:ion)? (?:notice|signal)"
     R"(|warning)|TerminationNotice|rebalance recommendation)",
     "preempt|evicted|reclaimed|spot interruption|instance interruption|low on resource|TerminationNotice|rebalance "
     "recommendation"},
    {"time_limit",
     R"((?i)DUE TO TIME LIMIT|\bDeadlineExceeded\b.{0,60}\b(?:job|pod)|longer than (?:the )?specified deadline)"
     R"(|TERM_RUNLIMIT|walltime \d+ exceeded limit|\b(?:wall ?time|time|run ?time) limit\b.{0,30}\b(?:reached)"
     R"(|exceeded|expired|hit)\b|\b(?:reached|exceeded|hit)\b.{0,24}\b(?:wall ?time|time|run ?time) limit\b)"
     R"(|JOB \d+ .{0,60}TIMEOUT)",
     "DUE TO TIME LIMIT|DeadlineExceeded|specified deadline|TERM_RUNLIMIT|walltime|time limit|wall time|TIMEOUT"},
    {"user_cancel",
     R"(\bKeyboardInterrupt\b|JOB \d+ ON \S+ CANCELLED AT \S+ (?:\*\*\*|by)|(?i:\b(?:job|run|training)"
     R"(|task)\b.{0,24}\bcancell?ed by (?:user|uid|\d+|operator|owner|request)|\bscancel\b.{0,40}\bjob\b)"
     R"(|terminated by (?:the )?user|interrupted by (?:the )?user|TERM_OWNER))",
     "KeyboardInterrupt|CANCELLED AT|cancelled by|canceled by|scancel|by user|by the user|TERM_OWNER"},
    // Findings that are none.
    {"*",
     R"((?i)\bno (?:errors?|anomal\w+|nan(?:s|/inf)?|inf(?:s|/nan)?|overflow|stragglers?|corrupt\w*|oom)"
     R"(|out[- ]of[- ]memory)\b.{0,30}\b(?:detected|found|seen|occurred|reported)\b)",
     "", kCancels},
    {"*",
     R"((?i)^(?:\W*)(?:hint|tip|note|advice|suggestion|help|see also|for more (?:details|information))\b\W)"
     R"(|\bto avoid (?:this|these|such|an?|the|out[- ]of[- ]memory|oom|fragmentation)\b.{0,60}\b(?:set|try|use)"
     R"(|increase|reduce|consider|pass)\b|^\W*(?:try|consider|set|use|please|if you|you (?:can|may|should)"
     R"(|could)|make sure|ensure)\b)",
     "", kCancels},
    {"*",
     R"((?i)\b(?:will|would) (?:be )?(?:detect|check|monitor|watch|guard|protect|handle)\w*\b|\b(?:enabl|disabl)"
     R"(|initializ|register|install|configur|start)(?:ed|ing|es?)\b.{0,40}\b(?:detect(?:ion|or)|check(?:s|er)"
     R"(|ing)?|handler|monitor(?:ing)?|guard|policy|support)\b)",
     "", kCancels},
    {"nccl_net_error nccl_error nccl_cascade link_down",
     R"(NCCL INFO .{0,80}(?:Failed to (?:find|open|load)|Could not (?:find|open|load)|No plugin found|not found))", "",
     kCancels},
    {"*", R"(Exception ignored in: <function _MultiProcessingDataLoaderIter|_ConnectionBase\.__del__)", "", kCancels},
    // Faults that the program handled.
    {"*", R"((?i)\b(?:retrying|trying again|will retry|reattempting|attempt \d+(?:/| of )\d+|backing off)\b)", "",
     kSoftens},
    {"device_oom host_alloc_fail",
     R"((?i)\b(?:smaller|reducing|reduced?|halv(?:e|ing)|lower(?:ing)?|decreasing|next)\b.{0,40}\b(?:batch)"
     R"(|micro[_-]?batch|sequence|candidate|trial|config)|\bauto.?tun\w*|\bbatch.?size.?finder\b|\btrial \d+)",
     "", kSoftens},
    {"bad_sample object_store_error io_error", R"((?i)\bskipp(?:ed|ing)\b)", "", kSoftens},
    {"*",
     R"((?i)\b(?:recovered|recovery (?:succeeded|complete)|succeeded after|resolved|back (?:up|online))"
     R"(|falling back to)\b)",
     "", kSoftens},
};

constexpr Precedence kPrecedences[] = {
    {"gpu_lost", "gpu_hw_fault xid_app"},
    {"ecc_uncorrectable", "cuda_illegal_access nccl_error gpu_hw_fault"},
    {"row_remap_fail", "ecc_uncorrectable gpu_hw_fault"},
    {"cgroup_oom", "host_oom_kill device_oom killed_unknown"},
    {"host_oom_kill", "killed_unknown"},
    {"device_oom", "nccl_error cuda_prior_error_cascade host_alloc_fail config_invalid"},
    {"pinned_alloc_fail", "device_oom host_alloc_fail"},
    {"host_alloc_fail", "dataloader_dead"},
    {"disk_full", "checkpoint_write_fail io_error path_missing checkpoint_corrupt"},
    {"io_error", "checkpoint_write_fail path_missing checkpoint_corrupt"},
    {"object_store_error", "checkpoint_write_fail"},
    {"checkpoint_mismatch", "shape_mismatch"},
    {"checkpoint_corrupt", "bad_sample"},
    {"module_missing", "path_missing"},
    {"permission_denied", "checkpoint_write_fail"},
    {"dataloader_dead", "killed_unknown segfault"},
    {"nccl_timeout", "nccl_cascade nccl_error"},
    {"rendezvous_fail", "store_lost nccl_cascade nccl_timeout"},
    {"nccl_net_error", "nccl_cascade nccl_error store_lost"},
    {"store_lost", "nccl_cascade"},
    {"nccl_cascade", "nccl_error"},
    {"link_down", "nccl_net_error"},
    {"cuda_illegal_access", "nccl_error cuda_prior_error_cascade"},
    {"device_assert", "nccl_error cuda_prior_error_cascade"},
    {"device_unavailable", "nccl_error"},
    {"watchdog_stuck", "teardown nccl_cascade"},
    {"segfault", "teardown"},
    {"killed_unknown", "teardown"},
    {"user_cancel", "teardown"},
    {"loss_scale_floor", "step_skipped loss_nonfinite grad_nonfinite"},
    {"node_fail preempted time_limit", "teardown user_cancel"},
};

#undef NONZERO
#undef DIGITS
#undef SIZE
#undef NONFINITE

}  // namespace

std::span<const Pattern> AnomalyPatterns() {
  return kPatterns;
}
std::span<const Precedence> AnomalyPrecedences() {
  return kPrecedences;
}

}  // namespace stepwatch::logs
