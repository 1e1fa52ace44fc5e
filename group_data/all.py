"""Every key with its default, its unit and its meaning. A host's own data goes first.

pyinfra finds this file from the checkout, where it is run; the same defaults hold without it.
Made from roles/settings/: `make docs` writes it anew.
"""

# llama_cpp: Which llama.cpp is built, and how.

backend = "auto"  # what holds the layers: auto is cuda where there is an NVIDIA GPU and cpu otherwise
llama_repo = "https://github.com/ggml-org/llama.cpp"  # git URL of the source
llama_ref = "b10864"  # tag, branch or commit; resolved once and kept in the lock
llama_patches = []  # patches to the source, applied in order; files, beside the inventory unless absolute
llama_cmake_args = []  # further cmake arguments, without -D
web_ui = "prebuilt"  # the page at the port: llama.cpp's own ready-made one where its tag has one, or built with npm
cuda_architectures = "auto"  # CMAKE_CUDA_ARCHITECTURES; auto: of each GPU present
cuda_toolkit = "auto"  # auto: the newest on the host that fits; a folder; or wheel:13.2, NVIDIA's wheels, without root
rpc_servers = []  # host:port of each ggml-rpc-server, for backend rpc
build_time_max = "3h"  # a build that takes longer is killed, whole
keep_releases = 3  # releases of llama.cpp that stay on the host, what serves included
releases_disk_max = "10G"  # disk that they may take together; what serves and what would come back are never removed

# model: Which GGUF is served, and where it comes from.

model_repo = None  # repository on the Hub
model_file = None  # path of the GGUF there (of several parts any one), or a quantization that only one has
model_revision = "main"  # branch, tag or commit; resolved once and kept in the lock
model_url = None  # a GGUF anywhere else, instead of model_repo; with model_sha256
model_sha256 = None  # sha256 of the file at model_url, 64 hexadecimal digits
model_path = None  # a GGUF that is on the host already, instead of model_repo; ~ is the host user's home
model_keep = 2  # downloaded models to keep, the wanted one included; what something refers to stays anyway
hub_endpoint = "https://huggingface.co"  # URL of the Hub or of a mirror
hub_token_for = None  # a hub_endpoint that shall get the Hub's token too; else only the Hub's own host does
download_rate_max = None  # bytes a second that a download may take
download_time_max = "24h"  # a download that takes longer is stopped; what has come is kept

# memory: What the model may take of each device's memory and of the RAM.

vram_reserve_mib = "auto"  # VRAM left to the desktop, MiB; auto is by whether a display is attached
vram_margin_mib = 256  # VRAM left free beside that, MiB
vram_limit_mib = None  # VRAM that all of it may take of each device, MiB; None is what the device has
ram_reserve = "2G"  # RAM left to everything else on the host
memory_check = "refuse"  # what becomes of a plan that does not fit: refused, or said and done all the same

# service: How llama-server runs. Names and values are llama.cpp's own.

context = 32768  # tokens of context, -c
n_cpu_moe = "auto"  # layers whose experts stay on the CPU; auto is the fewest with which it fits
gpu_layers = "auto"  # -ngl; auto is all, or without experts as many as fit
ubatch = 512  # tokens in a physical batch, -ub
cache_type_k = "f16"  # type of the K cache
cache_type_v = "f16"  # type of the V cache
cache_ram_mib = 2048  # prompt cache in RAM, MiB; 0 is off
context_shift = False  # drop the oldest messages when the context is full
flash_attention = "auto"  # -fa
jinja = True  # use the model's chat template
threads = "auto"  # -t; auto is one per physical core
fit = "auto"  # on leaves the split to llama.cpp's own -fit, unplanned; auto is off
load_mode = "auto"  # -lm: how the model's file gets into memory; auto is llama.cpp's own choice
lazy_mode = "auto"  # --lazy-mode; auto is llama.cpp's own choice
moe_cache_mib = 0  # --moe-cache-mib (b11480 and later): VRAM for a cache of experts; 0 is off
temperature = None  # default sampling temperature
top_p = None  # default top-p
top_k = None  # default top-k
min_p = None  # default min-p
server_args = []  # further arguments of llama-server, a word each; checked against the release's --help
host = "127.0.0.1"  # address to listen on; beyond loopback only with api_key_file
port = 8091  # port of the HTTP server
api_key_file = None  # file on the host with an API key per line, mode 0600 and the host user's own
service_scope = "user"  # whose systemd manager runs it: the user's, or the system's, with an account of its own
service_memory_max = "auto"  # MemoryMax of the unit, a size or a share of the RAM; auto is what the plan needs
service_memory_swap_max = "0"  # MemorySwapMax of the unit
service_autostart = True  # start the service at boot; False leaves starting it to you: systemctl --user start
sleep_idle_seconds = None  # --sleep-idle-seconds: unload the model after so many idle seconds, until the next request
memory_cap_required = True  # refuse a host on which the cap would not be enforced; 'warn' only says so

# browser: Which browsers get the policy that keeps their local AI model away, and what else they are told.

browser_policy = "auto"  # auto: the browsers installed; a list: these, installed or not; off: none
browser_policies = {}  # further policies for the same file, by Chrome's own names
browser_delete_models = False  # delete local models on disk, where the policy holds and the browser is closed

# benchmark: What is measured: in a smoke run at a deploy that changed something, and in a full run on request.

benchmark_depths = "auto"  # tokens of context per figure; auto: 0, 2048 (smoke), 0, 32k, 100k, 118k (full); [] is none
benchmark_tokens = 128  # tokens generated per figure
benchmark_repetitions = 3  # samples of each figure; smoke takes what fits into two minutes
benchmark_ab = False  # after a change: measure what was served before and what is now in alternation
benchmark_on_regression = "warn"  # what becomes of a release that is slower: it is told, or the former one comes back
benchmark_llama_bench = False  # in a full run llama-bench too; the service stops for it

only = []  # run these roles alone, as in --data only=service,benchmark
