"""Lines of systems that train no model: templates in the style of their logs, none of which has an anomaly."""

from __future__ import annotations

import random

from lines import filled

SYSTEMS: dict[str, list[str]] = {
    "hdfs": [
        "dfs.DataNode$PacketResponder: PacketResponder {d} for block blk_{int} terminating",
        "dfs.FSNamesystem: BLOCK* NameSystem.addStoredBlock: blockMap updated: {ip}:{port} is added to "
        "blk_{int} size {int}",
        "dfs.DataNode$DataXceiver: Receiving block blk_{int} src: /{ip}:{port} dest: /{ip}:{port}",
        "dfs.DataBlockScanner: Verification succeeded for blk_{int}",
        "dfs.DataNode$DataXceiver: {ip}:{port}:Got exception while serving blk_{int} to /{ip}:",
        "dfs.FSDataset: Deleting block blk_{int} file {path}",
    ],
    "ssh": [
        "sshd[{pid}]: Failed password for invalid user admin from {ip} port {port} ssh2",
        "sshd[{pid}]: Connection closed by {ip} port {port} [preauth]",
        "sshd[{pid}]: Received disconnect from {ip} port {port}:11: Bye Bye",
        "sshd[{pid}]: pam_unix(sshd:session): session opened for user root by (uid=0)",
        "sshd[{pid}]: error: maximum authentication attempts exceeded for root from {ip} port {port}",
        "sshd[{pid}]: fatal: Read from socket failed: Connection reset by peer",
        "sshd[{pid}]: reverse mapping checking getaddrinfo for {host} [{ip}] failed - POSSIBLE BREAK-IN ATTEMPT!",
        "sshd[{pid}]: Permission denied (publickey) for user deploy",
    ],
    "kernel": [
        'kernel: [{uptime}] audit: type=1400 apparmor="STATUS" operation="profile_load" name="snap.x" pid={pid}',
        "kernel: [{uptime}] usb 1-{d}: new high-speed USB device number {d} using xhci_hcd",
        "kernel: [{uptime}] e1000e: eth{d} NIC Link is Up 1000 Mbps Full Duplex, Flow Control: Rx/Tx",
        "kernel: [{uptime}] TCP: request_sock_TCP: Possible SYN flooding on port {port}. Sending cookies.",
        "kernel: [{uptime}] device veth{d} entered promiscuous mode",
        "kernel: [{uptime}] perf: interrupt took too long ({int} > {int}), lowering rate to {int}",
        "systemd[1]: Started Session {int} of user root.",
        "systemd[1]: unit-{d}.service: Failed with result 'exit-code'.",
        "systemd[1]: unit-{d}.service: Main process exited, code=exited, status=1/FAILURE",
        "dhclient[{pid}]: DHCPREQUEST for {ip} on eth{d} to {ip} port 67",
    ],
    "web": [
        '{ip} - - [28/Nov/2026:06:11:07 +0000] "GET /loss/nanometer.html HTTP/1.1" 404 {int} "-" "curl/7.88"',
        '{ip} - - [28/Nov/2026:06:11:07 +0000] "POST /api/v1/exchange HTTP/2.0" 503 {int} "-" "Mozilla/5.0"',
        "[error] [client {ip}] File does not exist: {path}",
        "[notice] workerEnv.init() ok /etc/httpd/conf/workers2.properties",
        "[error] mod_jk child workerEnv in error state {d}",
        "[error] {int}#0: *{int} upstream timed out (110: Connection timed out) while reading response "
        "header, client: {ip}",
        "[error] {int}#0: *{int} connect() failed (111: Connection refused) while connecting to upstream, client: {ip}",
        "gunicorn.error: Worker timeout (pid:{pid})",
    ],
    "hpc": [
        "unix.hw state_change.unavailable {int} Component State Change: Component alt0 is in the unavailable "
        "state (HWID={int})",
        "RAS KERNEL INFO instruction cache parity error corrected",
        "RAS APP FATAL ciod: failed to read message prefix on control stream (CioStream socket to {ip}:{port}",
        "RAS KERNEL INFO generating core.{int}",
        "boot_cmd new {int} Targeting domains:node-D{d} and nodes:node-[40-63] child of command {int}",
        "gige temperature ok {int} node-{int} ambient={d}",
        "Link error on broadcast tree Interconnect-0T00:00:{d}:{d}",
        "psu failure\\ ambient=28",
        "slurmctld: sched: Allocate JobId={job} NodeList={host} #CPUs=64 Partition=batch",
        "slurmd[{pid}]: launch task StepId={job}.0 request from UID:1000 GID:1000",
        "slurmctld: _job_complete: JobId={job} WEXITSTATUS 0",
    ],
    "android": [
        'PowerManagerService: acquire lock={int}, flags=0x1, tag="View Lock", name=com.android.systemui, ws=null',
        "WindowManager: Skipping AppWindowToken{{{hex} token=Token{{{hex}}}}} -- going to hide",
        "ActivityManager: Killing {pid}:com.example/u0a{d} (adj 900): empty for 1800s",
        "lowmemorykiller: Kill 'com.example' ({pid}), uid 10{d}, adj 906 to free {int}kB",
        "chatty  : uid=1000(system) Binder:{pid} expire {d} lines",
        "InputDispatcher: Dropping event because the pointer is not down.",
        "dalvikvm: GC_CONCURRENT freed {int}K, 21% free {int}K/{int}K, paused 3ms+5ms",
    ],
    "database": [
        "LOG:  checkpoint starting: time",
        "LOG:  checkpoint complete: wrote {int} buffers (0.{d}%); 0 WAL file(s) added, 0 removed, {d} recycled",
        "ERROR:  canceling statement due to statement timeout",
        "ERROR:  deadlock detected; DETAIL:  Process {pid} waits for ShareLock on transaction {int}; blocked by {pid}.",
        'LOG:  automatic vacuum of table "shop.public.t{d}": index scans: 0, oldest xmin: {int}, xid {int}',
        "FATAL:  terminating connection due to administrator command",
        "LOG:  could not receive data from client: Connection reset by peer",
        "[Warning] Aborted connection {int} to db: 'shop' user: 'app' host: '{ip}' (Got timeout reading "
        "communication packets)",
        "InnoDB: page_cleaner: 1000ms intended loop took {int}ms. The settings might not be optimal.",
        "# User@Host: app[app] @ [{ip}] Id: {int} Query_time: {float} Lock_time: 0.0",
    ],
    "java": [
        "WARN [SendWorker:{int}:QuorumCnxManager$SendWorker@679] - Interrupted while waiting for message on queue",
        "INFO [CommitProcessor:{d}:NIOServerCnxn@1435] - Closed socket connection for client /{ip}:{port} (no session)",
        "WARN org.apache.hadoop.ipc.Client: Address change detected. Old: {host}/{ip}:{port} New: {host}:{port}",
        "ERROR executor.Executor: Exception in task {d}.0 in stage {d}.0 (TID {int}) java.io.IOException: Broken pipe",
        "INFO storage.BlockManager: Found block rdd_{d}_{d} locally",
        "INFO executor.Executor: Finished task {d}.0 in stage {int}.0 (TID {int}). {int} bytes result sent to driver",
        "WARN zookeeper.ClientCnxn: Session 0x{hex} for server null, unexpected error, closing socket connection",
    ],
    "cloud": [
        "nova.compute.manager [req-{hex}] [instance: {hex}] VM Started (Lifecycle Event)",
        'nova.osapi_compute.wsgi.server [req-{hex}] {ip} "GET /v2/servers/detail HTTP/1.1" status: 200 len: '
        "{int} time: 0.{d}",
        "nova.virt.libvirt.imagecache Unknown base file: {path}",
        "kubelet[{pid}]: I1128 06:11:07.{int} {pid} kubelet.go:{int}] SyncLoop (probe): type=Liveness "
        "status=healthy pod=web",
        'containerd[{pid}]: time="2026-11-28T06:11:07Z" level=info msg="cleaning up dead shim"',
        "kube-scheduler: Successfully assigned default/web-{int} to {host}",
        'dockerd[{pid}]: level=error msg="Handler for POST /v1.41/containers/{hex}/start returned error: No '
        'such container"',
    ],
    "desktop": [
        "proxy.cse.example.edu:{port} close, {int} bytes sent, {int} bytes received, lifetime 00:{d}",
        "CBS  Info  Session: {int}_{int} initialized by client WindowsUpdateAgent.",
        "com.apple.CDScheduler[{pid}]: Thermal pressure state: 0 Memory pressure state: 0",
        "Step_LSC|{int}|onStandStepChanged {int}",
        "kernel[0]: ARPT: {uptime}: AirPort_Brcm43xx::powerChange: System Wake - Full Wake/ Dark Wake / "
        "Maintenance wake",
        "corecaptured[{pid}]: CCFile::captureLogRun Skipping current file Dir file [2017-07-04], Current File [x]",
        "cups[{pid}]: [Job {int}] The printer is not responding.",
        "networkd: wlan{d}: Gained carrier",
    ],
}


def unrelated_line(dice: random.Random) -> str:
    """Return a line of a random system."""
    return filled(dice.choice(SYSTEMS[dice.choice(list(SYSTEMS))]), dice)
