"""Wordings of each class of anomaly, by several versions of torch, NCCL, drivers, kernels and schedulers.

``KNOWN`` are wordings that the patterns were written with in mind; ``HELD_OUT`` come from other versions or programs,
and the patterns are not adapted to them: they show how far the patterns reach. ``HEALTHY`` are lines of healthy
trainings that look like faults. In braces: the values of ``filled``.
"""

from __future__ import annotations

import random
import re

KNOWN: dict[str, list[str]] = {
    "gpu_hw_fault": [
        "NVRM: Xid (PCI:{pci}): 119, pid={pid}, name=python3, Timeout after 45s of waiting for RPC response "
        "from GPU{d}",
        "NVRM: Xid (PCI:{pci}): 62, pid='<unknown>', name=<unknown>, 2027 5eb2 5ea8 5ea4",
        "[{uptime}] NVRM: Xid (PCI:{pci}): 109, pid={pid}, name=python, Ch 00000008, errorString CTX SWITCH TIMEOUT",
        "NVRM: GPU {pci}: RmInitAdapter failed! (0x62:0xffff:2477)",
        "amdgpu {pci}: amdgpu: GPU reset begin!",
    ],
    "gpu_lost": [
        "NVRM: Xid (PCI:{pci}): 79, pid={pid}, name=python, GPU has fallen off the bus.",
        "NVRM: GPU at {pci} has fallen off the bus.",
        "Unable to determine the device handle for GPU{d}: {pci}: Unknown Error",
        "pynvml.NVMLError_GpuIsLost: GPU is lost",
    ],
    "ecc_uncorrectable": [
        "NVRM: Xid (PCI:{pci}): 48, pid={pid}, name=python, DBE (double bit error) ECC Error (physical addr 0x{hex})",
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "NVRM: Xid (PCI:{pci}): 95, pid={pid}, name=python3, Uncontained: FBHUB. RST: Yes, D-RST: No",
        "NVRM: Xid (PCI:{pci}): 94, pid={pid}, name=pt_main_thread, Contained: SM (0x1). RST: No, D-RST: No",
    ],
    "ecc_repaired": [
        "NVRM: Xid (PCI:{pci}): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row (0x{hex}) marked "
        "for remapping",
        "NVRM: Xid (PCI:{pci}): 92, High single-bit ECC error rate",
    ],
    "row_remap_fail": [
        "NVRM: Xid (PCI:{pci}): 64, pid='<unknown>', name=<unknown>, Row Remapper Error: (0x{hex}) - All reserved rows",
        "GPU {d}: row remapping failure has occurred, RMA candidate",
    ],
    "nvlink_error": [
        "NVRM: Xid (PCI:{pci}): 74, pid={pid}, name=python, NVLink: fatal error detected on link {d}(0x0, "
        "0x0, 0x10000)",
        "NVRM: Xid (PCI:{pci}): 145, RLW_CTRL Fatal XC0 i0 Link 0{d} (0x00000004 0x80000000)",
        "nvidia-nvswitch{d}: SXid (PCI:{pci}): 12028, Fatal, Link {d} egress non-posted PRIV error",
    ],
    "xid_app": [
        "NVRM: Xid (PCI:{pci}): 31, pid={pid}, name=python, Ch 00000010, intr 10000000. MMU Fault: ENGINE GRAPHICS",
        "NVRM: Xid (PCI:{pci}): 13, pid={pid}, name=python, Graphics SM Warp Exception on (GPC 3, TPC 1, SM 0)",
        "NVRM: Xid (PCI:{pci}): 43, pid={pid}, name=python3, Ch 00000008",
        "NVRM: Xid (PCI:{pci}): 45, pid={pid}, name=python, Ch 0000000a, preemptive channel removal",
    ],
    "thermal_throttle": [
        "GPU {d}: HW Thermal Slowdown: Active",
        "CPU{d}: Core temperature above threshold, cpu clock throttled (total events = {int})",
        "mce: CPU{d}: Package temperature above threshold, cpu clock throttled (total events = {int})",
    ],
    "pcie_aer": [
        "pcieport {pci}: AER: Uncorrected (Fatal) error received: {pci}",
        "pcieport {pci}: AER: Uncorrectable (Non-Fatal) error message received from {pci}",
        "nvidia {pci}: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)",
    ],
    "host_memory_error": [
        "EDAC MC{d}: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x{hex})",
        "mce: [Hardware Error]: CPU {int}: Machine Check Exception: 5 Bank 7: be00000000800400",
        "{{1}}[Hardware Error]: event severity: fatal, memory error, node: {d} card: 1",
    ],
    "node_fail": [
        "slurmstepd: error: *** STEP {job}.0 ON {host} CANCELLED AT {iso} DUE TO NODE FAILURE, SEE SLURMCTLD LOG ***",
        "srun: error: Node failure on {host}",
        "Kernel panic - not syncing: Fatal exception in interrupt",
        "slurmctld: error: Nodes {host} not responding, setting DOWN",
    ],
    "host_stall": [
        "watchdog: BUG: soft lockup - CPU#{int} stuck for 22s! [python:{pid}]",
        "rcu: INFO: rcu_sched self-detected stall on CPU",
    ],
    "clock_skew": [
        "chronyd[{pid}]: System clock wrong by {float} seconds, adjustment started",
        "make: warning:  Clock skew detected.  Your build may be incomplete.",
    ],
    "link_down": [
        "mlx5_core {pci}: Port: 1 Link DOWN",
        "mlx5_core {pci} ens{d}np0: Link down",
        "ixgbe {pci} eth{d}: NIC Link is Down",
        "bond0: link status definitely down for interface eth{d}, disabling it",
        "{host}:{pid}:{pid} [{d}] NCCL WARN NET/IB : mlx5_{d}:1 Got async event : port error",
    ],
    "device_unavailable": [
        "RuntimeError: No CUDA GPUs are available",
        "RuntimeError: CUDA error: no CUDA-capable device is detected",
        "RuntimeError: CUDA error: invalid device ordinal",
        "Failed to initialize NVML: Driver/library version mismatch",
    ],
    "device_oom": [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {gib} GiB. GPU {d} has a total "
        "capacity of 79.10 GiB "
        "of which {mib} MiB is free. Process {pid} has 77.2 GiB memory in use. Of the allocated memory 70.1 GiB is "
        "allocated by PyTorch, and 5.1 GiB is reserved by PyTorch but unallocated. If reserved but "
        "unallocated memory is "
        "large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate {mib} MiB. GPU {d} has a total capacty of "
        "39.39 GiB of which {mib} MiB is free.",
        "RuntimeError: CUDA out of memory. Tried to allocate {gib} GiB (GPU {d}; 39.59 GiB total capacity; "
        "35.1 GiB already "
        "allocated; {mib} MiB free; 37.5 GiB reserved in total by PyTorch)",
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate {gib} GiB. GPU {d} has a total "
        "capacity of 191.98 GiB",
        "RuntimeError: NPU out of memory. Tried to allocate {mib} MiB (NPU {d}; 60.97 GiB total capacity; 59 "
        "GiB allocated)",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "torch.AcceleratorError: CUDA error: out of memory",
        "{host}:{pid}:{pid} [{d}] include/alloc.h:{int} NCCL WARN Cuda failure 2 'out of memory'",
    ],
    "host_oom_kill": [
        "Out of memory: Killed process {pid} (python) total-vm:{int}kB, anon-rss:{int}kB, file-rss:0kB, "
        "shmem-rss:{int}kB",
        "Out of memory: Kill process {pid} (python3) score 912 or sacrifice child",
        "python invoked oom-killer: gfp_mask=0x1100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0",
        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,"
        "task=python,pid={pid}",
    ],
    "cgroup_oom": [
        "Memory cgroup out of memory: Killed process {pid} (python) total-vm:{int}kB, anon-rss:{int}kB",
        "slurmstepd: error: Detected 1 oom_kill event in StepId={job}.0. Some of the step tasks have been OOM Killed.",
        "slurmstepd: error: Detected 3 oom-kill event(s) in step {job}.batch cgroup.",
        "pod {host} container trainer terminated: OOMKilled (exit code 137)",
        "slurmstepd: error: Step {job}.0 exceeded memory limit ({int} > {int}), being killed",
    ],
    "host_alloc_fail": [
        "RuntimeError: [enforce fail at alloc_cpu.cpp:{int}] err == 0. DefaultCPUAllocator: can't allocate "
        "memory: you tried "
        "to allocate {int} bytes. Error code 12 (Cannot allocate memory)",
        "OSError: [Errno 12] Cannot allocate memory",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "numpy.core._exceptions._ArrayMemoryError: Unable to allocate {gib} GiB for an array with shape ({int}, 2048)",
    ],
    "pinned_alloc_fail": [
        "RuntimeError: cudaHostAlloc of {int} bytes returned error 2",
        "failed to pin host memory: {int} bytes",
    ],
    "too_many_files": [
        "OSError: [Errno 24] Too many open files: '{path}'",
        "RuntimeError: unable to open shared memory object </torch_{pid}> in read-write mode: Too many open files (24)",
        "RuntimeError: received 0 items of ancdata",
    ],
    "nccl_timeout": [
        "[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={int}, OpType=ALLREDUCE, "
        "NumelIn={int}, NumelOut={int}, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.",
        "[E ProcessGroupNCCL.cpp:{int}] [Rank {rank}] Watchdog caught collective operation timeout: "
        "WorkNCCL(OpType=BROADCAST, Timeout(ms)=1800000) ran for 1803170 milliseconds before timing out.",
        "[PG ID 0 PG GUID 0(default_pg) Rank {rank}] Exception (either an error or timeout) detected by "
        "watchdog at work: "
        "{int}, last enqueued NCCL work: {int}, last completed NCCL work: {int}.",
        "[PG 1 Rank {rank}] Timeout at NCCL work: {int}, last enqueued NCCL work: {int}, last completed NCCL "
        "work: {int}.",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:{int}] Timed out waiting "
        "1800000ms for "
        "recv operation to complete",
        "RuntimeError: Rank {rank} failed to pass monitoredBarrier in 30000 ms",
        "[PG 0 Rank {rank}] Process group watchdog thread terminated with exception: [Rank {rank}] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum={int}, OpType=_ALLGATHER_BASE, Timeout(ms)=600000) "
        "ran for 600020",
    ],
    "nccl_cascade": [
        "[Rank {rank}] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, "
        "subsequent GPU operations might run on corrupted/incomplete data.",
        "[Rank {rank}] To avoid data inconsistency, we are taking the entire process down.",
        "[PG ID 0 PG GUID 0 Rank {rank}] remote error detected from rank: {rank}",
        "[PG 0 Rank {rank}] Received a dump signal due to a collective timeout from  rank {rank} and we will "
        "try our best to "
        "dump the debug info.",
        "RuntimeError: NCCL communicator was aborted on rank {rank}.",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:{int}] Connection closed by peer [{ip}]:{port}",
    ],
    "nccl_net_error": [
        "{host}:{pid}:{pid} [{d}] transport/net_ib.cc:{int} NCCL WARN NET/IB : Got completion from peer "
        "{ip}<{port}> with "
        "status=12 opcode=0 len=0 vendor err 129 (Send)",
        "{host}:{pid}:{pid} [{d}] misc/ibvwrap.cc:{int} NCCL WARN Call to ibv_modify_qp failed with error "
        "Connection timed out",
        "{host}:{pid}:{pid} [{d}] misc/socket.cc:{int} NCCL WARN socketStartConnect: Connect to {ip}<{port}> failed : "
        "No route to host",
        "{host}:{pid}:{pid} [{d}] NCCL WARN Bootstrap : no socket interface found, No socket interface found",
    ],
    "nccl_error": [
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:{int}, "
        "unhandled cuda error, NCCL version 2.18.1",
        "ncclInternalError: Internal check failed.",
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
        "{host}:{pid}:{pid} [{d}] init.cc:{int} NCCL WARN Duplicate GPU detected : rank {rank} and rank "
        "{rank} both on CUDA",
    ],
    "hccl_error": [
        "RuntimeError: [ERROR] HCCL error in: torch_npu/csrc/distributed/ProcessGroupHCCL.cpp:{int}",
        "EI0006: [PID: {pid}] {iso} Getting socket times out. Reason: Remote Rank did not send the data in time.",
        "[ERROR] {iso} (PID:{pid}, Device:{d}, RankID:{rank}) ERR02200 DIST call hccl api failed.",
    ],
    "rendezvous_fail": [
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d "
        "store has failed.",
        "The client socket has timed out after 900s while trying to connect to ({ip}, {port}).",
        "The server socket has failed to listen on any local network address. port: {port}, useIpv6: 0, EADDRINUSE",
        "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 3/4 clients joined.",
        "RuntimeError: Timed out initializing process group in store based barrier on rank: {rank}, for key: "
        "store_based_barrier_key:1 (world_size=16, worker_count=15, timeout=0:30:00)",
    ],
    "store_lost": [
        "[c10d] recvValueWithTimeout failed on SocketImpl(fd={int}, addr=[{host}]:{port}): failed to recv, got 0 bytes",
        'Failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has shut down too early),'
        " with error: "
        "Broken pipe",
        "torch.distributed.DistNetworkError: TCPStore: Connection reset by peer",
        "[c10d] sendBytes failed on SocketImpl(fd={int}, addr=[{host}]:{port}): Broken pipe",
    ],
    "watchdog_stuck": [
        "[PG 0 Rank {rank}] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in "
        "monitoring "
        "enqueued collectives.",
        "[Rank {rank}] Heartbeat monitor timed out! Process will be terminated after dumping debug info. "
        "workMetaList_.size()",
        "Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang.",
    ],
    "slow_rank": [
        "STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected ranks: {{{rank}}}",
        "rank {rank} is slower than the median by {float}x",
        "straggler detected: rank {rank} took {float}s",
    ],
    "cuda_illegal_access": [
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "RuntimeError: CUDA error: misaligned address",
        "RuntimeError: CUDA error: unspecified launch failure",
        "Memory access fault by GPU node-{d} (Agent handle: 0x{hex}) on address 0x{hex}. Reason: Unknown.",
    ],
    "cuda_prior_error_cascade": [
        "RuntimeError: CUDA error: driver shutting down",
        "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`",
        "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
    ],
    "device_assert": [
        "RuntimeError: CUDA error: device-side assert triggered",
        "../aten/src/ATen/native/cuda/Indexing.cu:{int}: indexSelectLargeIndex: block: [{int},0,0], thread: [{d},0,0] "
        "Assertion `srcIndex < srcSelectDimSize` failed.",
    ],
    "config_invalid": [
        "train.py: error: unrecognized arguments: --micro-batch",
        "train.py: error: argument --tp: invalid int value: 'two'",
        "omegaconf.errors.MissingMandatoryValue: Missing mandatory value: model.path",
        "AssertionError: world size ({int}) is not divisible by tensor parallel size ({d})",
        "AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * "
        "gradient_acc_step * world_size 256 != 2 * 4 * 16",
    ],
    "shape_mismatch": [
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x768 and 1024x10)",
        "RuntimeError: The size of tensor a ({int}) must match the size of tensor b ({int}) at non-singleton "
        "dimension 1",
        "ValueError: Expected input batch_size (32) to match target batch_size (31).",
        "RuntimeError: shape '[{int}, 3]' is invalid for input of size {int}",
    ],
    "module_missing": [
        "ModuleNotFoundError: No module named 'flash_attn'",
        "ImportError: cannot import name 'x' from 'transformers' ({path})",
        "ImportError: libcudnn.so.8: cannot open shared object file: No such file or directory",
    ],
    "segfault": [
        "Fatal Python error: Segmentation fault",
        "python[{pid}]: segfault at 0 ip 00007f{hex} sp 00007f{hex} error 4 in libnccl.so.2[7f{hex}+1000]",
        "[{host}:{pid}:0:{pid}] Caught signal 11 (Segmentation fault: address not mapped to object at address (nil))",
        "failed (exitcode: -11) local_rank: {d} (pid: {pid}) of binary: {path}",
    ],
    "killed_unknown": [
        "Killed",
        "{path}: line 12: {pid} Killed                  python train.py",
        "srun: error: {host}: task {rank}: Killed",
        "failed (exitcode: -9) local_rank: {d} (pid: {pid}) of binary: {path}",
        "[INFO] [launch.py:319:sigkill_handler] {path} exits with return code = -9",
    ],
    "teardown": [
        "Sending process {pid} closing signal SIGTERM",
        "failed (exitcode: 1) local_rank: {d} (pid: {pid}) of binary: {path}",
        "slurmstepd: error: *** STEP {job}.0 ON {host} CANCELLED AT {iso} DUE TO TASK FAILURE ***",
        "srun: error: {host}: task {rank}: Exited with exit code 1",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "Received Signals.SIGTERM death signal, shutting down workers",
        "resource_tracker: There appear to be {int} leaked semaphore objects to clean up at shutdown",
    ],
    "checkpoint_mismatch": [
        "RuntimeError: Error(s) in loading state_dict for GPTModel:",
        "size mismatch for lm_head.weight: copying a param with shape torch.Size([32000, 4096]) from "
        "checkpoint, the shape "
        "in current model is torch.Size([32128, 4096]).",
        "ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
    ],
    "checkpoint_corrupt": [
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
        "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
        "_pickle.UnpicklingError: invalid load key, '\\x00'.",
        "EOFError: Ran out of input",
    ],
    "checkpoint_write_fail": [
        "RuntimeError: [enforce fail at inline_container.cc:{int}] . PytorchStreamWriter failed writing file "
        "data/{int}: "
        "file write failed",
        "[enforce fail at inline_container.cc:{int}] . unexpected pos {int} vs {int}",
        "failed to save checkpoint at iteration {step} to {path}",
    ],
    "path_missing": [
        "FileNotFoundError: [Errno 2] No such file or directory: '{path}'",
        "python: can't open file '{path}': [Errno 2] No such file or directory",
    ],
    "permission_denied": [
        "PermissionError: [Errno 13] Permission denied: '{path}'",
        "slurmstepd: error: execve(): {path}: Permission denied",
    ],
    "disk_full": [
        "OSError: [Errno 28] No space left on device",
        "RuntimeError: [enforce fail at inline_container.cc:{int}] . PytorchStreamWriter failed: No space "
        "left on device",
        "OSError: [Errno 122] Disk quota exceeded: '{path}'",
    ],
    "io_error": [
        "OSError: [Errno 5] Input/output error: '{path}'",
        "OSError: [Errno 116] Stale file handle: '{path}'",
        "blk_update_request: I/O error, dev nvme{d}n1, sector {int} op 0x0:(READ)",
        "EXT4-fs error (device sda{d}): ext4_find_entry:{int}: inode #{int}: comm python: reading directory lblock 0",
        "OSError: [Errno 30] Read-only file system: '{path}'",
    ],
    "fs_stall": [
        "nfs: server {host} not responding, still trying",
        "INFO: task python:{pid} blocked for more than 120 seconds.",
        "LustreError: 11-0: scratch-OST000{d}-osc-ffff: operation ost_write to node {ip}@o2ib failed: rc = -110",
    ],
    "object_store_error": [
        "botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the PutObject operation "
        "(reached max "
        "retries: 4): Please reduce your request rate.",
        "google.api_core.exceptions.ServiceUnavailable: 503 GET https://storage.googleapis.com/download/{int}",
        'botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: "https://s3.{host}/b"',
    ],
    "dataloader_dead": [
        "RuntimeError: DataLoader worker (pid(s) {pid}, {pid}) exited unexpectedly",
        "RuntimeError: DataLoader worker (pid {pid}) is killed by signal: Killed.",
        "RuntimeError: Pin memory thread exited unexpectedly",
        "RuntimeError: DataLoader timed out after 120 seconds",
    ],
    "bad_sample": [
        "PIL.UnidentifiedImageError: cannot identify image file '{path}'",
        "OSError: image file is truncated (3 bytes not processed)",
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x80 in position {int}: invalid start byte",
        "IndexError: index out of range in self",
    ],
    "loss_nonfinite": [
        "step {step} | loss nan | lr 1e-4",
        "{{'loss': nan, 'learning_rate': 1e-05, 'epoch': 0.1}}",
        "epoch 3 batch {int} train_loss: -nan",
        " iteration {step}/ 500000 | elapsed time per iteration (ms): 812.2 | number of skipped iterations:  "
        " 0 | number of "
        "nan iterations:   1 |",
        "Rank {rank}: found NaN in local forward loss calculation, iteration {step}",
        "Loss is not finite, stopping training",
    ],
    "grad_nonfinite": [
        "step {step} | loss 2.31 | grad norm: nan",
        "{{'loss': 0.0, 'grad_norm': nan, 'epoch': 0.2}}",
        "RuntimeError: The total norm of order 2.0 for gradients from `parameters` is non-finite, so it "
        "cannot be clipped.",
        "found NaN in local grad norm for bucket #{d} in backward pass before data-parallel communication collective",
    ],
    "grad_spike": ["Gradient explosion detected at step {step}", "gradient norm spike at step {step}: 812.4"],
    "loss_spike": ["loss spike detected at step {step}: 2.1 -> 7.9", "training loss jumped to 9.1"],
    "loss_scale_floor": [
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
        "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding.",
    ],
    "step_skipped": [
        "[deepspeed] OVERFLOW! Rank {rank} Skipping step. Attempted loss scale: 65536, reducing to 32768",
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0",
    ],
    "preempted": [
        "slurmstepd: error: *** JOB {job} ON {host} CANCELLED AT {iso} DUE TO PREEMPTION ***",
        "The node was low on resource: ephemeral-storage. Pod evicted",
        "spot instance interruption notice received, terminating in 120 s",
    ],
    "time_limit": [
        "slurmstepd: error: *** JOB {job} ON {host} CANCELLED AT {iso} DUE TO TIME LIMIT ***",
        "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
        "=>> PBS: job killed: walltime 36047 exceeded limit 36000",
    ],
    "user_cancel": [
        "KeyboardInterrupt",
        "slurmstepd: error: *** JOB {job} ON {host} CANCELLED AT {iso} ***",
    ],
}

HELD_OUT: dict[str, list[str]] = {
    "gpu_hw_fault": ["NVRM: Xid (PCI:{pci}): 120, GSP task timeout @ pc:0x{hex}, partition:4#0, task:2"],
    "gpu_lost": ["nvidia-smi: GPU {pci} is lost.  Reboot the system to recover this GPU: GPU is lost"],
    "ecc_uncorrectable": ["CUDA driver call failed: CUDA_ERROR_ECC_UNCORRECTABLE (214)"],
    "nvlink_error": ["nv-fabricmanager: detected NVLink fatal error on GPU {d} link {d}"],
    "pcie_aer": [
        "{{7}}[pcie] nvme {pci}: AER: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Physical Layer"
    ],
    "device_oom": [
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate {int} bytes.",
        "ResourceExhaustedError: OOM when allocating tensor with shape[{int},4096] and type float on /gpu:{d}",
        "RuntimeError: XPU out of memory. Tried to allocate {mib} MiB",
        "RuntimeError: CUDA driver error: out of memory",
        "[{d}] cudaMalloc failed: CUDA_ERROR_OUT_OF_MEMORY",
    ],
    "host_oom_kill": [
        "systemd-oomd[{pid}]: Killed /user.slice/job.scope due to memory used (99%) and swap used (91%)",
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        "train.service: A process of this unit has been killed by the OOM killer.",
    ],
    "cgroup_oom": [
        "State: Terminated  Reason: OOMKilled  Exit Code: 137",
        "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
    ],
    "nccl_timeout": [
        "Some ranks never arrived: collective has timed out after 1800 s on rank {rank}",
        "[{host}] Watchdog caught collective operation timeout: WorkUCC(SeqNum={int})",
    ],
    "nccl_cascade": [
        "Collective WorkNCCL(SeqNum={int}, OpType=ALLREDUCE) raised the following async exception: NCCL error: remote "
        "process exited or there was a network error, NCCL version 2.21.5",
        "Observed flight recorder dump signal from another rank via TCPStore.",
        "{host}:{pid}:{pid} [{d}] NCCL INFO [Service thread] misc/socket.cc:{int} socketProgress: Connection closed by "
        "remote peer {host}<{port}>",
    ],
    "nccl_net_error": [
        "{host}:{pid}:{pid} [{d}] NCCL WARN NET/IB: Got completion from peer {ip}<{port}> with error 5, opcode 1",
        "mlx5: {host}: IBV_WC_RETRY_EXC_ERR",
    ],
    "hccl_error": [
        "EI0002: [PID: {pid}] {iso} The wait execution of the Notify register times out.",
        "RuntimeError: InnerRunOpApi: OPS function error: HcclAllreduce, error code is 6",
        "NPU function error: AclrtSynchronizeDeviceWithTimeout, error code is 507048",
        "EH9999: Inner Error!",
    ],
    "rendezvous_fail": [
        "torch.distributed.DistStoreError: wait timeout after 600000ms, keys: /default_pg/0//cuda//0",
        "ValueError: init_process_group: connection to {ip}:{port} timed out",
    ],
    "store_lost": ["[W TCPStore.cpp:{int}] [c10d] recvVector failed on SocketImpl: Connection reset by peer"],
    "cuda_illegal_access": [
        "Triton Error [CUDA]: an illegal memory access was encountered",
        "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal address was hit by a kernel",
    ],
    "device_assert": ["torch.AcceleratorError: HIP error: device-side assertion hit: cudaErrorAssert"],
    "config_invalid": [
        "pydantic.error_wrappers.ValidationError: 2 validation errors for TrainConfig",
        "hydra.errors.ConfigCompositionException: Could not override 'model.sise'",
    ],
    "shape_mismatch": [
        "ValueError: operands could not be broadcast together with shapes ({int},3) (4,)",
        "RuntimeError: stack expects each tensor to be equal size, but got [3] at entry 0 and [4] at entry 1",
    ],
    "segfault": [
        "Signal: Segmentation fault (11)",
        "traps: python[{pid}] general protection fault ip:7f{hex} sp:7f{hex}",
    ],
    "checkpoint_corrupt": [
        "zipfile.BadZipFile: File is not a zip file",
        "checkpoint {path} appears truncated, expected {int} bytes",
    ],
    "checkpoint_write_fail": [
        "torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([{d}])"
    ],
    "io_error": [
        "XFS (nvme{d}n1): metadata I/O error in xfs_trans_read_buf_map",
        "OSError: [Errno 107] Transport endpoint is not connected",
    ],
    "fs_stall": ["libceph: mon{d} (1)[{ip}]:6789 socket closed (con state OPEN)"],
    "object_store_error": [
        "requests.exceptions.HTTPError: 504 Server Error: Gateway Time-out for url: https://{host}/x"
    ],
    "bad_sample": [
        "pyarrow.lib.ArrowInvalid: Parquet magic bytes not found in footer",
        "corrupted shard {path}, 3 records lost",
    ],
    "loss_nonfinite": [
        "v_num=3, train_loss=nan.0, global_step={step}",
        "{{'loss': 'nan', 'learning_rate': '1e-05'}}",
        "Encountered NaN loss at step {step}",
        "ERROR: Unexpected result nan (message='found NaN in local forward loss calculation')",
    ],
    "grad_nonfinite": ["non-finite gradients in layer {d}", "step: {step}  grad_norm: inf"],
    "preempted": ["Pod {host} was preempted by pod with higher priority", "instance will be reclaimed in 30 s"],
    "time_limit": ["Job was active on the node longer than specified deadline"],
    "user_cancel": ["run cancelled by user alice"],
    "killed_unknown": ["train.service: Main process exited, code=killed, status=9/KILL"],
    "link_down": ["mlx5_{d}: port 1 link is down", "enp{d}s0f0: lost carrier"],
}

# Lines of healthy trainings.
HEALTHY: list[str] = [
    "Loading BLOOM-176B tokenizer with ZOOM positional table",
    "model changed {int} parameters, exchange of buffers done",
    "{int} nanoseconds per loss evaluation in finance loss benchmark",
    " iteration {step}/ 500000 | consumed samples: {int} | lm loss: 2.31E+00 | loss scale: 1.0 | grad "
    "norm: 0.412 | number "
    "of skipped iterations:   0 | number of nan iterations:   0 |",
    "tflops=181.2 step={step} loss=2.71 loss_from_metric=2.70 loss/en=nan loss/cn=2.7 acc=0.41 perplexity/code=nan",
    "{host}:{pid}:{pid} [{d}] NCCL INFO NET/Plugin : Failed to find ncclNetPlugin_v8 symbol.",
    "{host}:{pid}:{pid} [{d}] NCCL INFO Using network IB, ring {d} : 0 1 2 3",
    "starting checkpoint save at step {step}",
    "saved checkpoint to {path} in 12.3 s",
    "NaN check enabled for loss and gradients",
    "no nan detected in loss since step {step}",
    "gradient clipping at 1.0; loss scaling enabled with minimum 1",
    "Setting OMP_NUM_THREADS to 1 for each process to avoid your system being overloaded",
    "step {step} loss 2.{d} grad_norm 0.{d} tokens/s {int} mem 61.2GiB",
    "{{'loss': 1.23, 'grad_norm': 0.4, 'learning_rate': 1e-05, 'epoch': 0.1}}",
    "[rank{rank}] started watchdog thread, heartbeat monitor every 30 s, timeout 600 s",
    "Initializing straggler detection with window 100",
    "collective timeout handler installed",
    "hint: if you run out of memory, try a smaller batch",
    "To avoid out of memory errors, set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    "0 errors, 0 warnings, 0 out of memory retries",
    "dataset information: {int} documents, inf sampling, nan-safe mean",
    "val perplexity 11.{d} ppl nan_count 0",
    "Epoch 0:   6%|#6        | {int}/500150 [6:28:43<94:39:17,  1.37it/s, loss=2.6, v_num=95]",
]


def filled(template: str, dice: random.Random) -> str:
    """Return a template with random values; doubled braces are braces."""
    values = {
        "int": lambda: str(dice.randrange(1, 1_000_000)),
        "d": lambda: str(dice.randrange(8)),
        "rank": lambda: str(dice.randrange(64)),
        "pid": lambda: str(dice.randrange(1000, 4_000_000)),
        "job": lambda: str(dice.randrange(100_000, 9_999_999)),
        "step": lambda: str(dice.randrange(1, 400_000)),
        "gib": lambda: f"{dice.uniform(1, 40):.2f}",
        "mib": lambda: f"{dice.uniform(10, 900):.2f}",
        "float": lambda: f"{dice.uniform(0, 90):.3f}",
        "hex": lambda: f"{dice.randrange(1 << 36):09x}",
        "pci": lambda: f"0000:{dice.randrange(256):02x}:00",
        "ip": lambda: ".".join(["10", *(str(dice.randrange(255)) for _ in range(3))]),
        "port": lambda: str(dice.randrange(20_000, 60_000)),
        "host": lambda: f"{dice.choice(('gpu', 'node', 'cn', 'h100-'))}{dice.randrange(1000):03d}",
        "path": lambda: (
            f"/data/{dice.choice(('run', 'exp', 'ckpt'))}{dice.randrange(100)}/file_{dice.randrange(9999)}.bin"
        ),
        "uptime": lambda: f"{dice.uniform(1000, 9_000_000):.6f}",
        "iso": lambda: f"2026-{dice.randrange(1, 13):02d}-{dice.randrange(1, 29):02d}T{dice.randrange(24):02d}:11:07",
    }
    text = re.sub(rf"\{{({'|'.join(values)})\}}", lambda match: values[match[1]](), template)
    return text.replace("{{", "{").replace("}}", "}")
