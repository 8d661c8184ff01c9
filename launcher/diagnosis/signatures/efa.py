"""EFA and the NCCL plugin aws-ofi-nccl.

Texts: aws-ofi-nccl 1.0 to 1.21 (src/nccl_ofi_net.cpp, nccl_ofi_rdma.cpp, nccl_ofi_sendrecv.cpp,
platform-aws.cpp), libfabric's EFA provider (prov/efa/src/efa_errno.h, rdm/efa_rdm_error.h, efa_mr.c). Its
`<warn>` lines are mostly harmless and have no rows, but for those that tell of a failed operation.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import nccl, network

SIGNATURES = (
    Signature(
        mode=network.NO_EGRESS_TO_ITSELF,
        role=LineRole.INITIATOR,
        literal="unresponsive receiver",
        pattern=re.compile(r"Unresponsive receiver \(reachable by EFA device but handshake failed\)"),
        example="NCCL WARN NET/OFI Request completed with error. RC: 4126. Error: Unresponsive receiver "
        "(reachable by EFA device but handshake failed)",
        near_miss="INFO no unresponsive receiver",
        says="a peer was reached over EFA but never answered: the group's egress does not name the group "
        "itself",
    ),
    Signature(
        mode=network.NO_INGRESS_FROM_ITSELF,
        role=LineRole.INITIATOR,
        literal="this error indicates that the security group on",
        pattern=re.compile(
            r"This error indicates that the security group on either this instance or the peer"
        ),
        example="NET/OFI This error indicates that the security group on either this instance or the peer "
        "instance is blocking EFA traffic",
        near_miss="INFO This error indicates that the security group on a bastion is open",
        says="the security group blocks EFA between the hosts",
    ),
    Signature(
        mode=network.NO_INGRESS_FROM_ITSELF,
        role=LineRole.SYMPTOM,
        literal="completed with error",
        pattern=re.compile(
            r"NET/OFI (?:Request 0x[0-9a-f]+.{0,12}|Operation with NULL context) completed with error"
            r"(?:[.:] (?:RC|err): (?P<code>\d+))?(?!.{0,20}Invalid receiver queue pair number)"
        ),
        example="algo-1:88:141 [0] ofi_process_cq:1039 NCCL WARN NET/OFI Request 0x7f0a4c3370b8 completed "
        "with error. RC: 21. Error: unknown error",
        near_miss="INFO the batch completed with error 0",
        says="a request over EFA failed (error {code}): usually the security group blocks the peers",
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="invalid receiver queue pair number",
        # libfabric, prov/efa: the device of the peer answers, and the process that had the queue is gone.
        pattern=re.compile(r"\bInvalid receiver queue pair number \(QPN\)"),
        example="algo-1:199:263 [2] process_err_completion:1562 NCCL WARN NET/OFI Request 0x7f08c0001d30 "
        "completed with error. RC: 5. Error: Invalid receiver queue pair number (QPN)",
        near_miss="INFO invalid receiver queue pair numbers are counted",
        says="the process to which it spoke over EFA has ended",
    ),
    Signature(
        mode=network.NO_INGRESS_FROM_ITSELF,
        role=LineRole.SYMPTOM,
        literal="unreachable remote (never received",
        pattern=re.compile(r"Unreachable remote \(never received a response\)"),
        example="libfabric:7:1708520807::efa:cq:efa_rdm_txe_handle_error():737<warn> err: 113, message: "
        "Unreachable remote (never received a response) My EFA addr: fi_addr_efa://[fe80::1]:0:1",
        near_miss="INFO no unreachable remote (never received anything else)",
        says="a peer never answered over EFA: usually the security group blocks the peers",
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal=" my efa addr: ",
        # By the numbers of efa_errno.h: the peer's memory, queue or answers are gone. Those that are left
        # out are this host's own, or of a queue that is taken down.
        pattern=re.compile(
            r"<warn> err: \d{1,6}, message: (?P<what>.{1,120}?) My EFA addr: .{1,200}? "
            r"Peer EFA addr: (?P<peer>\S{1,100}) .{0,100}\((?:[789]|10|12|13|14)\)"
        ),
        example="libfabric:7:17085::efa:cq:efa_rdm_txe_handle_error():737<warn> err: 5, message: Invalid "
        "address My EFA addr: fi_addr_efa://[fe80::1]:0:1 My host id: i-0 Peer EFA addr: "
        "fi_addr_efa://[fe80::2]:0:9 Peer host id: i-1 (7)",
        near_miss="libfabric:7:17085::efa:cq:efa_rdm_txe_handle_error():737<warn> err: 5, message: Flushed "
        "during queue pair destroy My EFA addr: fi_addr_efa://[fe80::1]:0:1 My host id: i-0 Peer EFA addr: "
        "fi_addr_efa://[fe80::2]:0:9 Peer host id: i-1 (1)",
        says="EFA cannot reach its peer {peer} any more: {what}",
        vague=True,
    ),
    Signature(
        mode=network.NO_INGRESS_FROM_ITSELF,
        role=LineRole.SYMPTOM,
        literal="unable to insert remote address",
        pattern=re.compile(r"NET/OFI Unable to insert remote address into address vector"),
        example="NCCL WARN NET/OFI Unable to insert remote address into address vector for device 0.",
        near_miss="INFO unable to insert remote address book",
        says="the plugin could not take in a peer's address",
    ),
    Signature(
        mode=network.EFA_NOT_USED,
        role=LineRole.SYMPTOM,
        literal="find any optimal provider",
        pattern=re.compile(r"NET/OFI (?:Couldn't|Could not) find any optimal provider"),
        example="ip-10-1-4-20:3310:3340 [0] get_ofi_provider:312 NCCL WARN NET/OFI Could not find any "
        "optimal provider",
        near_miss="INFO trying to find any optimal provider",
        says="the NCCL plugin found no EFA device",
    ),
    Signature(
        mode=network.EFA_NOT_USED,
        role=LineRole.SYMPTOM,
        literal="ofi fi_getinfo() call failed",
        pattern=re.compile(r"NCCL WARN NET/OFI OFI fi_getinfo\(\) call failed: (?P<why>.{1,80})"),
        example="algo-1:20:29 [0] nccl_net_ofi_rdma_init:7978 NCCL WARN NET/OFI OFI fi_getinfo() call "
        "failed: No data available",
        near_miss="algo-1:20:29 [0] NCCL INFO NET/OFI OFI fi_getinfo() call failed: No data available",
        says="the NCCL plugin found no EFA device: {why}",
        vague=True,
    ),
    Signature(
        mode=network.EFA_NOT_USED,
        role=LineRole.SYMPTOM,
        literal="no eligible providers",
        pattern=re.compile(r"NET/OFI No eligible providers were found"),
        example="NCCL WARN NET/OFI No eligible providers were found",
        near_miss="INFO no eligible providers today",
        says="the NCCL plugin found no EFA device",
    ),
    Signature(
        mode=network.EFA_NOT_USED,
        role=LineRole.SYMPTOM,
        literal="net/ofi c",
        pattern=re.compile(
            r"(?:NCCL WARN|WARN: Function: \w{1,80} Line: \d{1,6}:) NET/OFI (?:Couldn't|Could not|Creating "
            r"new) (?P<what>(?!create user data)(?:open|create|bind|enable|"
            r"get|allocate|endpoint)\b.{0,120})"
        ),
        example="algo-1:72593:73427 [7] create_nccl_ofi_component:459 NCCL WARN NET/OFI Couldn't open AV. "
        "RC: -22, ERROR: Invalid argument",
        near_miss="algo-1:3:4 [0] NCCL INFO NET/OFI Creating one domain per process",
        says="the NCCL plugin could not set up its EFA device: {what}",
        vague=True,
    ),
    Signature(
        mode=network.EFA_NOT_USED,
        role=LineRole.SYMPTOM,
        literal="unable to find a protocol that worked",
        pattern=re.compile(r"NET/OFI Unable to find a protocol that worked"),
        example="NCCL WARN NET/OFI Unable to find a protocol that worked. Failing initialization.",
        near_miss="INFO unable to find a protocol that worked faster",
        says="the NCCL plugin did not start",
    ),
    Signature(
        mode=network.EFA_NOT_USED,
        role=LineRole.SYMPTOM,
        literal="ofi nccl failure",
        pattern=re.compile(r"WARN.{0,60}NET/OFI OFI NCCL failure"),
        example="WARN: Function: main Line: 66: NET/OFI OFI NCCL failure: 2",
        near_miss="INFO no OFI NCCL failure",
        says="the NCCL plugin did not start",
        vague=True,
    ),
    Signature(
        mode=network.EFA_NOT_USED,
        role=LineRole.SYMPTOM,
        literal="initialization failed",
        pattern=re.compile(r"NCCL WARN NET/OFI (?:aws-ofi-nccl|OFI NCCL)\b.*initialization failed"),
        example="NCCL WARN NET/OFI aws-ofi-nccl initialization failed",
        near_miss="algo-1:3:4 [0] NCCL INFO NET/OFI aws-ofi-nccl initialization failed",
        says="the NCCL plugin did not start",
        vague=True,
    ),
    Signature(
        mode=network.EFA_NOT_USED,
        role=LineRole.SYMPTOM,
        literal="libfabric.so",
        pattern=re.compile(
            r"(?:NET/Plugin|NET/OFI|NCCL WARN).*libfabric\.so\.?\d*: cannot open shared object file"
        ),
        example="NCCL WARN NET/Plugin: dlopen failed: libfabric.so.1: cannot open shared object file: No "
        "such file or directory",
        near_miss="ldconfig: libfabric.so.1 -> libfabric.so.1.25",
        says="the NCCL plugin did not load: libfabric is missing",
    ),
    Signature(
        mode=network.EFA_NOT_USED,
        role=LineRole.SYMPTOM,
        literal="gdr disabled",
        pattern=re.compile(r"NET/OFI GDR disabled on GDR-supported instance type"),
        example="NCCL WARN NET/OFI GDR disabled on GDR-supported instance type, aborting",
        near_miss="INFO GDR disabled",
        says="GPUDirect RDMA is off on a type that has it",
    ),
    Signature(
        mode=network.EFA_NOT_USED,
        role=LineRole.ADVISORY,
        literal="using network socket",
        pattern=re.compile(r"NCCL INFO Using network Socket"),
        example="algo-1:3:4 [0] NCCL INFO Using network Socket",
        near_miss="using network socket 4 of the board",
        says="NCCL uses TCP sockets; on a type with EFA that is a fraction of the bandwidth",
    ),
    Signature(
        mode=network.EFA_NOT_USED,
        role=LineRole.ADVISORY,
        literal="selected provider is",
        pattern=re.compile(r"NET/OFI Selected [Pp]rovider is (?P<provider>(?!efa)[\w;]+)"),
        example="algo-1:3:4 [0] NCCL INFO NET/OFI Selected Provider is tcp;ofi_rxm (found 1 nics)",
        near_miss="algo-1:3:4 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 4 nics)",
        says="the NCCL plugin uses {provider} instead of EFA",
    ),
    Signature(
        mode=network.DEVICE_RDMA_FAILS,
        role=LineRole.INITIATOR,
        literal="fi_efa_use_device_rdma",
        pattern=re.compile(r"FI_EFA_USE_DEVICE_RDMA=1 was set by user, but"),
        example="libfabric:31:core: FI_EFA_USE_DEVICE_RDMA=1 was set by user, but EFA device has no "
        "rdma-read capability",
        near_miss="INFO NET/OFI Setting FI_EFA_USE_DEVICE_RDMA environment variable to 1.",
        says="FI_EFA_USE_DEVICE_RDMA=1 on a device that cannot read by RDMA",
    ),
    Signature(
        mode=network.DEVICE_RDMA_FAILS,
        role=LineRole.INITIATOR,
        literal="unable to register memory",
        pattern=re.compile(
            r"NET/OFI Unable to register memory \(type = (?P<type>\d+)\) for device (?P<device>\d+)"
            r"\. RC: (?P<rc>-?\d+)"
        ),
        example="NCCL WARN NET/OFI Unable to register memory (type = 2) for device 4. RC: -22, Error: "
        "Invalid argument",
        near_miss="INFO unable to register memory hooks",
        says="EFA device {device} could not register memory of type {type} (RC {rc})",
    ),
    Signature(
        mode=network.DEVICE_RDMA_FAILS,
        role=LineRole.INITIATOR,
        literal="fi_opt_efa_emulated_write is true",
        pattern=re.compile(
            r"FI_OPT_EFA_EMULATED_WRITE is true when the communication protocol is RDMA write"
        ),
        example="NCCL WARN NET/OFI FI_OPT_EFA_EMULATED_WRITE is true when the communication protocol is "
        "RDMA write.",
        near_miss="INFO FI_OPT_EFA_EMULATED_WRITE is true",
        says="the RDMA protocol is forced on a device that cannot write by RDMA",
    ),
    Signature(
        mode=network.EFA_NOT_USED,
        role=LineRole.SYMPTOM,
        literal="nccl warn net/ofi ",
        pattern=re.compile(
            r"NCCL WARN NET/OFI (?P<what>EFA provider requires at least libfabric.{0,60}|Failed to "
            r"initialize (?:rdma|sendrecv) protocol|Insufficient Libfabric devices found|Initializing "
            r"plugin failed|Caught exception in (?:plugin init|rdma_init|sendrecv_init).{0,100}"
            r"|Failed to create NCCL OFI topology|CUDA initialization failed)"
        ),
        example="algo-1:72593:73427 [7] nccl_net_ofi_create_plugin:250 NCCL WARN NET/OFI Failed to "
        "initialize rdma protocol",
        near_miss="algo-1:3:4 [0] nccl_net_ofi_rdma_init:100 NCCL WARN NET/OFI Failed to initialize "
        "GDRCopy: -1",
        says="the NCCL plugin did not start: {what}",
        vague=True,
    ),
    Signature(
        mode=network.EFA_NOT_USED,
        role=LineRole.SYMPTOM,
        literal="but then couldn't be configured on an endpoint",
        pattern=re.compile(r"GDR support reported to NCCL but then couldn't be configured on an endpoint"),
        example="NCCL WARN NET/OFI GDR support reported to NCCL but then couldn't be configured on an "
        "endpoint.  Cannot continue.",
        near_miss="INFO GDR was found but then couldn't be configured on an endpoint, using the host's "
        "memory",
        says="GPUDirect RDMA could not be set up on the EFA device",
    ),
    Signature(
        mode=network.EFA_NOT_USED,
        role=LineRole.SYMPTOM,
        literal="error: network aws libfabric not found",
        pattern=re.compile(r"\bError: network AWS Libfabric not found"),
        example="algo-1:88:141 [0] plugin/net.cc:300 NCCL WARN Error: network AWS Libfabric not found.",
        near_miss="INFO an error: network AWS Libfabric not found, is raised without the plugin",
        says="NCCL is to use EFA (NCCL_NET) and did not load its plugin for it, aws-ofi-nccl",
    ),
    Signature(
        mode=network.DEVICE_RDMA_FAILS,
        role=LineRole.SYMPTOM,
        literal="cannot allocate memory",
        # Of another device and of a size that is too large the plugin goes on; of want of memory it does not.
        pattern=re.compile(
            r"\befa:.{0,80}<warn> Unable to register MR(?: of (?P<size>\d{1,20}) bytes)?: "
            r"Cannot allocate memory|Unable to write to EQ: .{0,60}\. err: Cannot allocate memory \("
        ),
        example="libfabric:7:1658904526::efa:mr:efa_mr_regattr():632<warn> Unable to register MR: Cannot "
        "allocate memory",
        near_miss="libfabric:7:1658904526::efa:mr:efa_mr_regattr():632<warn> Unable to register MR: Bad "
        "address, cannot allocate memory",
        says="the EFA device could not register {size} bytes: memory cannot be locked",
        remedy="What EFA registers is locked in the host's memory. Let the processes lock as much as they "
        "want (`ulimit -l unlimited`, of a container its limit memlock), see that the host's memory is "
        "not full, and update the EFA installer.",
        vague=True,
    ),
    Signature(
        mode=network.DEVICE_RDMA_FAILS,
        role=LineRole.SYMPTOM,
        literal="could not register memory on ",
        pattern=re.compile(r"NET/OFI Could not register memory on (?:ctrl |data )?rail (?P<rail>\d{1,4})"),
        example="algo-1:88:141 [3] reg_mr_on_device:2000 NCCL WARN NET/OFI Could not register memory on "
        "rail 0 with flag 0",
        near_miss="INFO could not register memory on the first try",
        says="EFA could not register memory on rail {rail}",
        vague=True,
    ),
)
