"""The words of directives about deploying LLMs: formats, engines, GPUs, steps. Data for the triage, nothing else.

A word in a directive is a claim and proves nothing: `AWQ` in a name may hold another packing (see `format_words`).
"""

from __future__ import annotations

from typing import Final

from recon.agent.api import Action, Term, Vocabulary


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.split()))


# Value: a format name of the contracts. A family word (`fp8`) stands for its most common member; `format_words.satisfies`
# says which measured formats are of the family.
_FORMATS: Final = (
    Term(value="nvfp4", words=("nvfp4", "nv fp4", "fp4", "modelopt fp4", "nvidia fp4"), title="NVFP4"),
    Term(value="nvfp4-w4a16", words=("nvfp4a16", "nvfp4 w4a16", "w4a16 nvfp4", "nvfp4 weight only"), title="NVFP4 weight-only"),
    Term(value="mxfp4", words=("mxfp4", "mx fp4"), title="MXFP4"),
    Term(value="mxfp8", words=("mxfp8", "mx fp8"), title="MXFP8"),
    Term(
        value="fp8-block128", title="FP8",
        words=("fp8", "float8", "f8", "fp8 block", "block fp8", "blockwise fp8", "fp8 blockwise", "fp8 block128", "fp8 128x128"),
    ),
    Term(
        value="fp8-channel", title="FP8 per channel",
        words=("fp8 dynamic", "fp8 channel", "per channel fp8", "fp8 per channel", "channelwise fp8", "ptpc fp8"),
    ),
    Term(value="fp8-tensor", words=("fp8 tensor", "per tensor fp8", "fp8 per tensor", "tensorwise fp8", "fp8 static"), title="FP8 per tensor"),
    Term(value="w4afp8", words=("w4afp8", "w4a8", "w4a8 fp8"), title="W4AFP8"),
    Term(
        value="w4a16-int4", title="INT4 W4A16",
        words=(
            "w4a16", "w4a16 int4", "int4 w4a16", "int4", "int 4", "4bit", "4 bit", "awq", "gptq", "autoround", "auto round", "awq int4",
            "gptq int4", "awq marlin", "gptq marlin",
        ),
    ),
    Term(value="w3a16-int3", words=("w3a16", "int3", "3bit", "3 bit"), title="INT3 W3A16"),
    Term(value="w8a16-int8", words=("w8a16", "w8a16 int8"), title="INT8 W8A16"),
    Term(value="w8a8-int8", words=("w8a8", "int8", "int 8", "8bit", "8 bit", "w8a8 int8", "smoothquant"), title="INT8 W8A8"),
    Term(value="int8-block128", words=("int8 block", "block int8", "blockwise int8", "int8 block128"), title="INT8 128x128"),
    Term(value="bf16", words=("bf16", "bfloat16", "unquantized", "unquantised", "unquantisiert"), title="BF16"),
    Term(value="fp16", words=("fp16", "float16", "half precision"), title="FP16"),
    Term(value="fp32", words=("fp32", "float32", "full precision"), title="FP32"),
    Term(value="nf4", words=("nf4", "bnb", "bitsandbytes", "bnb 4bit"), title="NF4"),
    Term(value="gguf", words=("gguf", "q4 k m", "q4 k s", "q5 k m", "q6 k", "q8 0", "q4 0", "iq4 xs"), title="GGUF"),
    Term(value="mlx", words=("mlx",), title="MLX"),
)  # fmt: skip

_ENGINES: Final = (
    Term(value="sglang", words=("sglang", "sgl", "sg lang", "sgl project"), title="SGLang"),
    Term(value="vllm", words=("vllm", "v llm"), title="vLLM"),
    Term(value="tensorrt-llm", words=("tensorrt llm", "trt llm", "trtllm", "tensorrt"), title="TensorRT-LLM"),
    Term(value="llama.cpp", words=("llama.cpp", "llamacpp", "llama cpp", "llama server"), title="llama.cpp"),
    Term(value="lmdeploy", words=("lmdeploy",), title="LMDeploy"),
    Term(value="tgi", words=("tgi", "text generation inference"), title="TGI"),
    Term(value="ktransformers", words=("ktransformers",), title="KTransformers"),
    Term(value="ollama", words=("ollama",), title="Ollama"),
)

_GPUS: Final = (
    Term(
        value="RTX PRO 6000",
        words=(
            "rtx pro 6000", "rtx pro 6000s", "pro 6000", "pro 6000s", "rtx 6000 pro", "rtxpro6000", "rtx pro6000", "pro6000", "rtx pro 6000 blackwell",
            "pro 6000 blackwell",
        ),
    ),
    Term(value="RTX PRO 5000", words=("rtx pro 5000", "pro 5000")),
    Term(value="RTX 6000 Ada", words=("rtx 6000 ada", "6000 ada")),
    *(Term(value=f"RTX {n}", words=(f"rtx {n}", f"rtx{n}", n, f"{n}s")) for n in ("5090", "5080", "5070", "4090", "4080", "3090")),
    *(
        Term(value=n.upper(), words=(n, f"{n}s"))
        for n in ("h100", "h200", "h20", "h800", "b200", "b300", "gb200", "gb300", "gh200", "a100", "a800", "a40", "a10", "a10g", "a6000",
                  "l4", "l40", "l40s", "l20", "v100", "t4", "gb10", "mi300x", "mi325x", "mi355x", "mi250x")
    ),
    Term(value="DGX Spark", words=("dgx spark",)),
    Term(value="Blackwell", words=("blackwell", "sm120", "sm 120", "sm121", "sm 121", "sm100", "sm 100", "sm 12.0", "sm 10.0")),
    Term(value="Hopper", words=("hopper", "sm90", "sm 90", "sm 9.0")),
    Term(value="Ada", words=("ada", "lovelace", "sm89", "sm 89", "sm 8.9")),
    Term(value="Ampere", words=("ampere", "sm80", "sm 80", "sm86", "sm 86")),
)  # fmt: skip

_TRANSFER: Final = (
    Term(value="mooncake", words=("mooncake", "mooncake transfer engine")),
    Term(value="mooncake_tcp", words=("mooncake tcp", "mooncake over tcp", "mooncake via tcp")),
    Term(value="nixl", words=("nixl",)),
)

# Hints only: where the engine comes from stays a question that a person decides with the facts in front of them.
_SOURCES: Final = (
    Term(value="fresh", words=("fresh sglang", "latest sglang", "newest sglang", "new sglang", "recent sglang", "fresh engine", "latest engine",
                               "up to date sglang", "frisches sglang", "aktuelles sglang", "neues sglang", "neuestes sglang",
                               "fresh vllm", "latest vllm", "latest release", "newest release")),
    Term(value="venv-update", words=("in the venv", "existing venv", "in place", "update the venv", "current venv", "bestehende venv")),
    Term(value="venv-wheel", words=("new venv", "fresh venv", "separate venv", "own venv", "from pypi", "from a wheel", "wheel", "neue venv",
                                    "new environment", "clean venv")),
    Term(value="git-ref", words=("latest sglang main", "fresh sglang main", "from source", "from git", "git main", "main branch", "sglang main", "from main", "git checkout", "top of tree",
                                 "head of main", "nightly", "aus den quellen")),
    Term(value="git-prs", words=("pull request", "pull requests", "open pr", "open prs", "the pr", "with pr", "cherry pick", "cherry-pick", "unmerged pr")),
)  # fmt: skip

_TOPICS: Final = (
    Term(value="mtp", words=("mtp", "multi token prediction", "mtp head", "mtp heads", "mtp layers")),
    Term(value="speculative_decoding", words=("speculative decoding", "spec decode", "spec decoding", "speculation", "eagle", "eagle3", "draft model",
                                              "ddtree", "dflash", "spekulative dekodierung")),
    Term(value="cuda_graphs", words=("cuda graph", "cuda graphs")),
    Term(value="hicache", words=("hicache", "hierarchical cache")),
    Term(value="prefix_cache", words=("radix cache", "prefix cache", "prefix caching", "radix attention")),
    Term(value="rdma", words=("rdma", "infiniband", "roce", "ibgda")),
    Term(value="nvlink", words=("nvlink", "nvswitch")),
    Term(value="router", words=("router", "load balancer", "sglang router", "sgl router", "minilb")),
    Term(value="offload", words=("cpu offload", "cpu offloading", "offload to cpu", "weight offload")),
    Term(value="deep_gemm", words=("deepgemm", "deep gemm")),
    Term(value="deep_ep", words=("deepep", "deep ep")),
)  # fmt: skip

_SERVER: Final = ("instance", "instances", "server", "servers", "service", "services", "process", "processes", "deployment", "dienst", "instanz",
                  "prozess", "job", "workload", "container", "<service>", "<engine>")  # fmt: skip
_WEIGHTS: Final = (
    "model",
    "models",
    "weights",
    "checkpoint",
    "checkpoints",
    "modell",
    "gewichte",
    "repo",
    "shards",
    "safetensors",
    "<model>",
)
_KERNEL: Final = (
    "gemm",
    "gemms",
    "kernel",
    "kernels",
    "tuning",
    "cutlass",
    "triton",
    "marlin",
    "deepgemm",
    "kernelkonfiguration",
    "<gpu>",
)
_ENGINE: Final = (
    "<engine>",
    "engine",
    "wheel",
    "release",
    "nightly",
    "venv",
    "main",
    "environment",
    "umgebung",
    "flashinfer",
    "pytorch",
    "torch",
)

_ACTIONS: Final = (
    # leaving things alone
    Action(verb="stop", heads=("keep", "leave", "touch", "touching", "disturb", "interrupt", "anfassen", "antasten"), objects=_SERVER, spares=True),
    # stop
    Action(
        verb="stop",
        heads=(
            "stop", "stops", "stopping", "stopped", "kill", "killing", "shut down", "shutdown", "shutting down", "tear down", "take down",
            "terminate", "stoppe", "stoppen", "beende", "beenden", "anhalten", "abschalten", "herunterfahren", "abschießen", "drain", "evict", "halt", "restart", "reboot",
        ),
    ),
    Action(verb="stop", heads=("replace", "replacing", "retire", "free", "ersetze", "ersetzen"), objects=(*_SERVER, "gpus", "gpu")),
    # kernels
    Action(
        verb="kernels",
        heads=(
            "kernel tuning", "gemm tuning", "tune kernels", "kernel work", "kernel build", "kernel builds", "autotune", "autotuning", "gemm autotuning",
            "moe tuning", "kernels tunen", "kernel tunen", "kernel bauen",
        ),
    ),
    Action(
        verb="kernels",
        heads=(
            "set up", "setup", "setting up", "tune", "tuning", "build", "building", "compile", "compiling", "prepare", "generate", "write", "optimise",
            "optimize", "tunen", "bauen", "kompilieren", "einrichten",
        ),
        objects=_KERNEL,
    ),
    # download
    Action(
        verb="download",
        heads=("download", "downloads", "downloading", "herunterladen", "runterladen", "lade", "ziehe", "hf download", "snapshot download"),
    ),
    Action(verb="download", heads=("pull", "pulling", "fetch", "fetching", "get", "grab", "stage", "holen", "hole", "laden"), objects=_WEIGHTS),
    # install
    Action(
        verb="install",
        heads=("install", "installing", "installiere", "installieren", "reinstall", "pip install", "uv pip install", "upgrade", "upgrading"),
    ),
    Action(
        verb="install",
        heads=(
            "pull", "pulling", "fetch", "get", "grab", "update", "updating", "bump", "build", "building", "set up", "setup", "clone", "check out",
            "checkout", "hole", "holen", "ziehe", "aktualisiere", "aktualisieren", "use", "einrichten",
        ),
        objects=_ENGINE,
    ),
    # port
    Action(verb="port", heads=("backport", "backporting", "backports", "forward port", "portiere", "portieren", "rebase", "cherry pick")),
    Action(
        verb="port",
        heads=("port", "porting", "patch", "patching", "merge", "implement", "add"),
        objects=(
            "changes", "change", "patch", "patches", "support", "fix", "fixes", "code", "loader", "architecture", "missing", "needed", "necessary", "over",
            "whatever", "änderungen", "anpassungen", "pr", "prs", "<model>", "<engine>", "<pull>",
        ),
    ),
    # benchmark
    Action(
        verb="benchmark",
        heads=(
            "benchmark", "benchmarks", "benchmarking", "benchmarked", "bench", "benchmarke", "benchmarken", "measure", "measuring", "measurement",
            "messe", "messen", "load test", "loadtest", "stress test", "perf test", "performance test", "sweep", "profile",
        ),
    ),
    # launch
    Action(
        verb="launch",
        heads=(
            "deploy", "deploys", "deploying", "deployed", "deployment", "serve", "serving", "launch", "launching", "host it", "stand up", "spin up", "bring up",
            "roll out", "make it work", "get it working", "get it running", "get it to run", "up and running", "starte", "starten", "ausrollen",
            "bereitstellen", "betreiben", "zum laufen", "deploye", "deployen", "in betrieb",
        ),
    ),
    Action(
        verb="launch",
        heads=("run", "start", "starting", "set up", "setup", "try", "put up", "get", "test", "laufen", "lauffähig"),
        objects=("server", "servers", "prefill", "decode", "it", "pd", "endpoint", "<model>"),
    ),
    Action(verb="launch", heads=("make", "getting"), objects=("work", "run", "running")),
    Action(verb="launch", heads=("running", "hosting"), objects=("prefill", "decode", "<model>")),
    Action(verb="launch", heads=("get", "bring", "have"), objects=("running", "going", "live", "online")),
)  # fmt: skip

_FILLER: Final = _words(
    """
    served hosted flash pro air instruct thinking coder lite cross crossing cutlass triton
    main missing installed alive faster fastest whichever cheaper better best hostname
    experiment experiments experiments' test tests comms communication traffic stay stays card cards gpu
    gpus vram memory model models modell modells checkpoint checkpoints weights weight repo repository
    hub huggingface hugging face instance instances server servers service services process processes
    deployment dienst instanz host hosts machine box maschine rechner node nodes engine version versions
    release releases cpu cpus numa socket sockets tensor parallel parallelism tp pd disaggregation
    disaggregated prefill decode prefiller decoder workers worker side sides group groups layout setup
    config configuration configs changes change patches patch fixes support kernel kernels gemm gemms
    tuning quant quantized quantised quantization quantisation quantisierung quantisiert format formats
    precision dtype variant variante bits bit kv cache numbers number results result latency throughput
    ttft tpot itl input output tokens token prompt prompts requests request performance perf speed fast
    quick quickly latenz durchsatz docs doc documentation documented doku dokumentation guide page
    manual described follow following according per see link url install installation environment env
    venv branch commit tag revision root user ssh port ports default local remote production prod
    staging baseline possible directly then ready inference endpoint api openai compatible concurrency
    context length kontext size degree total available visible devices device hold holds held fit fits
    stage disk space files file shards big small large full transfer backend over connected between end
    links pinned bound separate separately isolated nicely properly correctly currently probably sibling
    siblings original base official quants upstream stock plain vanilla python pip uv cuda linux pcie
    fine stable working runs team person people morning evening week note notes background goal goals
    step steps order report experiment's llm llms language inferenz experten expert experts moe dense
    layer layers attention architecture jeweiligen knoten sockel karten grafikkarte grafikkarten gpu's
    gemeinsam
    """
)

VOCABULARY: Final = Vocabulary(
    formats=_FORMATS,
    engines=_ENGINES,
    gpus=_GPUS,
    transfer_backends=_TRANSFER,
    engine_sources=_SOURCES,
    topics=_TOPICS,
    actions=_ACTIONS,
    verbs=("stop", "download", "install", "port", "kernels", "launch", "benchmark"),
    uncertain_claims={"kernels": "needs_kernel_work", "port": "needs_port"},
    families=(
        "deepseek", "qwen", "qwq", "kimi", "glm", "llama", "mistral", "mixtral", "devstral", "gemma", "gpt-oss", "minimax", "nemotron", "phi",
        "mimo", "ernie", "hunyuan", "ling", "granite", "command-r", "falcon", "yi", "olmo", "molmo", "dsv3", "dsv4", "step",
    ),
    datasets=("gsm8k", "sharegpt", "mmlu", "mmlu-pro", "gpqa", "aime24", "aime25", "humaneval", "ifeval", "longbench", "math500", "swebench"),
    filler=_FILLER,
    hub_hosts=("huggingface.co", "www.huggingface.co", "hf.co"),
    code_hosts=("github.com", "www.github.com", "gitlab.com"),
    pd_pages=("pd_disaggregation", "pd-disaggregation", "disaggregated"),
    playbooks={"pd": "deploy_pd", "single": "deploy", "check": "check"},
)  # fmt: skip
